"""Query and passage together to a score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ctxarith.errors import ArgumentError
from ctxarith.lazy import lazy
from ctxarith.models.folders import model_name, sentence_transformers

DEFAULT_MODEL = "cross-encoder/ms-marco-MiniLM-L6-v2"
# What BERT's positions allow, for a model that says nothing of its bound.
_LONGEST = 512
# A window shares this part with the one before, so that no answer is lost on a cut.
_OVERLAP = 4


class CrossEncoderReranker:
    """A cross-encoder of sentence-transformers; gives logits, higher is better.

    Query and passage pass the model together: slower than an embedding and more exact, so it is for
    the first 50 of a ranking. A passage that is too long for the model is read in overlapping windows
    and its best one counts; a query keeps at least half of the room and is never cut away.

    Args:
        model: a folder that holds the model, which is then read without any network; or a hub name.
        device: "cpu", "cuda", "mps"; by default what sentence-transformers finds.
        batch_size: pairs in one pass of the model.
        max_length: tokens of query and passage together; by default the model's own bound, at most 512.

    Raises:
        ArgumentError: at construction, for a folder without a model or a number out of its range; at
            the first use, for a model that gives more than one number for a pair.
        MissingExtra: at construction, without sentence-transformers.
    """

    scale = "logit"

    def __init__(
        self,
        model: str | Path = DEFAULT_MODEL,
        *,
        device: str | None = None,
        batch_size: int = 32,
        max_length: int | None = None,
    ) -> None:
        sentence_transformers("CrossEncoderReranker")
        for name, value, least in (("batch_size", batch_size, 1), ("max_length", max_length, 16)):
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (whole and value >= least):
                raise ArgumentError(name, value, f"a whole number, at least {least}")
        self.name = model_name(model)
        self._folder = str(model)
        self._device = device
        self._batch_size = batch_size
        self._asked = max_length

    def __call__(self, query: str, passages: list[str], /) -> Any:
        """One logit for each passage, shape (len(passages),)."""
        if not passages:
            return []
        import torch

        kept = self._kept(query)
        pairs = [(kept, passage) for passage in passages]
        # Its own activation would squash the logits, and saturated scores tie.
        return self._model.predict(
            pairs,
            batch_size=self._batch_size,
            activation_fn=torch.nn.Identity(),
            show_progress_bar=False,
        )

    def windows(self, query: str, passage: str) -> list[str]:
        """The passage in parts that fit the model beside the query; the passage itself if it fits."""
        room = self._room - min(self._length(query), self._room // 2)
        spans = self._spans(passage)
        if len(spans) <= room:
            return [passage]
        step = room - room // _OVERLAP
        starts = range(0, len(spans) - room + step, step)
        return [passage[spans[at][0] : spans[min(at + room, len(spans)) - 1][1]] for at in starts]

    @property
    def max_length(self) -> int:
        """Tokens of query and passage together."""
        return int(self._model.tokenizer.model_max_length)

    @property
    def _room(self) -> int:
        return self.max_length - int(self._model.tokenizer.num_special_tokens_to_add(pair=True))

    def _length(self, text: str) -> int:
        return len(self._spans(text))

    def _kept(self, query: str) -> str:
        spans = self._spans(query)
        half = self._room // 2
        return query if len(spans) <= half else query[: spans[half - 1][1]]

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends."""
        coded = self._model.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return [(int(start), int(end)) for start, end in coded["offset_mapping"]]

    @lazy
    def _model(self) -> Any:
        library = sentence_transformers("CrossEncoderReranker")
        model = library.CrossEncoder(
            self._folder,
            device=self._device,
            local_files_only=Path(self._folder).is_dir(),
        )
        labels = int(model.config.num_labels)
        if labels != 1:
            raise ArgumentError("model", self._folder, f"gives {labels} numbers for a pair; a reranker one")
        # Asked for more than the model has positions, it would fail at the first long passage.
        positions = getattr(model.config, "max_position_embeddings", None) or _LONGEST
        tokenizer = model.tokenizer
        tokenizer.model_max_length = min(self._asked or _LONGEST, positions, tokenizer.model_max_length)
        return model
