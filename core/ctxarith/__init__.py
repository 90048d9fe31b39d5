"""ctxarith: the right few hundred tokens for an agent, computed as set arithmetic.

context = (semantic & scope & metadata) - superseded >> rank >> top-k under a token budget
"""

from ctxarith.algebra import Candidates, Pipeline, Stage, lexical, semantic, superseded
from ctxarith.confidence import Evidence, Verdict, cosine, coverage, relative, thread
from ctxarith.conversation import Message, Point, Summary, ToolCall
from ctxarith.corpus import Corpus
from ctxarith.errors import (
    AlgebraError,
    ArgumentError,
    BudgetError,
    CorpusClosed,
    CtxArithError,
    EmbedderMismatch,
    EmbeddingError,
    EncodingUnavailable,
    MissingExtra,
    PredicateError,
    PrincipalRequired,
    RecordError,
    ScopeError,
    StoreError,
    Withheld,
)
from ctxarith.evidence import Decision, Drop, Found, Hit, Step, Trace
from ctxarith.feed import Change
from ctxarith.fields import field
from ctxarith.history import Assertion
from ctxarith.ingest.change import Added, Synced
from ctxarith.ingest.slots import RuleSlots
from ctxarith.measure.advise import Advice, advise
from ctxarith.measure.evaluate import Evaluation, evaluate
from ctxarith.memory.digest import ExtractiveSummarizer
from ctxarith.memory.recall import Recalled
from ctxarith.memory.rolling import RollingMemory
from ctxarith.memory.statements import StatementSlots
from ctxarith.memory.window import Window
from ctxarith.model import Record, Slot
from ctxarith.models.embedders import SentenceTransformerEmbedder
from ctxarith.models.rerankers import CrossEncoderReranker
from ctxarith.models.slots import LLMSlots
from ctxarith.models.summarizers import PromptSummarizer
from ctxarith.packet.citations import Citations
from ctxarith.packet.guard import Guard
from ctxarith.packet.handle import Packet
from ctxarith.packet.manifest import Manifest
from ctxarith.packet.verdict import Revalidation
from ctxarith.policy import Policy, Principal
from ctxarith.run import Result
from ctxarith.scopes import everyone, scope
from ctxarith.session import Session
from ctxarith.stages.assemble import Rule, Template, budget
from ctxarith.stages.compose import compose_query
from ctxarith.stages.fuse import reciprocal_rank_fusion, rrf
from ctxarith.stages.rank import auto, composite, top
from ctxarith.stages.rerank import rerank
from ctxarith.stages.supersede import drop_superseded
from ctxarith.stages.threshold import at_least
from ctxarith.where import where

__version__ = "0.1.0"

__all__ = [
    "Added",
    "Advice",
    "AlgebraError",
    "ArgumentError",
    "Assertion",
    "BudgetError",
    "Candidates",
    "Change",
    "Citations",
    "Corpus",
    "CorpusClosed",
    "CrossEncoderReranker",
    "CtxArithError",
    "Decision",
    "Drop",
    "EmbedderMismatch",
    "EmbeddingError",
    "EncodingUnavailable",
    "Evaluation",
    "Evidence",
    "ExtractiveSummarizer",
    "Found",
    "Guard",
    "Hit",
    "LLMSlots",
    "Manifest",
    "Message",
    "MissingExtra",
    "Packet",
    "Pipeline",
    "Point",
    "Policy",
    "PredicateError",
    "Principal",
    "PrincipalRequired",
    "PromptSummarizer",
    "Recalled",
    "Record",
    "RecordError",
    "Result",
    "Revalidation",
    "RollingMemory",
    "Rule",
    "RuleSlots",
    "ScopeError",
    "SentenceTransformerEmbedder",
    "Session",
    "Slot",
    "Stage",
    "StatementSlots",
    "Step",
    "StoreError",
    "Summary",
    "Synced",
    "Template",
    "ToolCall",
    "Trace",
    "Verdict",
    "Window",
    "Withheld",
    "advise",
    "at_least",
    "auto",
    "budget",
    "compose_query",
    "composite",
    "cosine",
    "coverage",
    "drop_superseded",
    "evaluate",
    "everyone",
    "field",
    "lexical",
    "reciprocal_rank_fusion",
    "relative",
    "rerank",
    "rrf",
    "scope",
    "semantic",
    "superseded",
    "thread",
    "top",
    "where",
]
