"""What was said, found again: the raw turns of one thread as a corpus of their own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctxarith.conversation import SYSTEM, ConversationKey, Message
from ctxarith.corpus import Corpus
from ctxarith.durable import Conversations
from ctxarith.evidence import Hit
from ctxarith.index.retirement import RETIRED
from ctxarith.memory.digest import Extract
from ctxarith.model import Record, Slot
from ctxarith.ports import Clock, Embedder, TokenCounter

# What is added in one go, so that a long thread is not held twice.
_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Recalled:
    """A turn that was found, whole, with its score.

    Args:
        message: the raw turn, with its number, role and time.
        score: of the order; higher is better.
        superseded_by: the numbers of later turns that assert the same facts anew, and stand above it.
    """

    message: Message
    score: float
    superseded_by: tuple[int, ...] = ()

    @property
    def superseded(self) -> bool:
        """Whether what it asserts has been replaced since."""
        return bool(self.superseded_by)


class Recall:
    """Searches the turns as any corpus is searched: dense and lexical, by date, what is superseded below.

    The index is in memory, made at the first question and kept up from then on.
    """

    def __init__(
        self,
        store: Conversations,
        key: ConversationKey,
        extract: Extract,
        *,
        clock: Clock,
        embedder: Embedder,
    ) -> None:
        self._store = store
        self._key = key
        self._extract = extract
        self._clock = clock
        self._embedder = embedder
        self._lock = threading.Lock()
        self._corpus: Corpus | None = None
        self._generation = 0
        self._upto = 0

    def __call__(self, query: str, *, top: int, count: TokenCounter) -> tuple[Recalled, ...]:
        """The turns that answer a question, best first."""
        with self._lock:
            corpus = self._current(count)
            if not self._upto:
                return ()
            found = corpus.retrieve(query, top=top, tokens=None, include_superseded=True)
            return tuple(one for hit in found.hits if (one := self._recalled(hit)) is not None)

    def close(self) -> None:
        """Forget the index."""
        with self._lock:
            if self._corpus is not None:
                self._corpus.close()
            self._corpus, self._generation, self._upto = None, 0, 0

    def _current(self, count: TokenCounter) -> Corpus:
        head = self._store.head(self._key)
        if self._corpus is None or head.generation != self._generation:
            if self._corpus is not None:
                self._corpus.close()
            self._corpus = Corpus.in_memory(clock=self._clock, embedder=self._embedder, tokenizer=count)
            self._generation, self._upto = head.generation, 0
        if head.last > self._upto:
            new = self._store.since(head.generation, self._upto)
            records = [record for message in new if (record := self._record(message))]
            for start in range(0, len(records), _BATCH):
                self._corpus.add(records[start : start + _BATCH])
            self._upto = new[-1].number if new else self._upto
        return self._corpus

    def _record(self, message: Message) -> Record | None:
        text = "\n".join([message.content, *(f"{c.name} {c.arguments}" for c in message.tool_calls)]).strip()
        if not text or message.role == SYSTEM:
            return None
        return Record(
            id=str(message.number),
            text=text,
            created_at=message.time,
            # In natural order, so that of two turns of one moment the later one is the newer.
            version=str(message.number),
            slots=self._slots(message),
        )

    def _slots(self, message: Message) -> Sequence[Slot]:
        found = (slot for point in self._extract(message) for slot in point.slots)
        return tuple(dict.fromkeys(replace(slot, subject=slot.subject or self._key.thread) for slot in found))

    def _recalled(self, hit: Hit) -> Recalled | None:
        message = self._store.turn(self._generation, int(hit.id))
        if message is None:
            # Cleared by another process a moment ago.
            return None
        by = tuple(int(one) for one in hit.superseded_by) if RETIRED in hit.flags else ()
        return Recalled(message, hit.score, by)
