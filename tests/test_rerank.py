"""Reranking: what a scorer may change, what it may not, and what happens when it fails."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import (
    ArgumentError,
    Corpus,
    Decision,
    Found,
    Hit,
    MissingExtra,
    Record,
    Result,
    Slot,
    at_least,
    auto,
    composite,
    everyone,
    lexical,
    rerank,
    rrf,
    semantic,
    superseded,
    top,
)
from ctxarith.algebra import Moment
from ctxarith.models.rerankers import CrossEncoderReranker
from ctxarith.stages.rerank import MOST_WINDOWS, mapped
from tests.conftest import NOW, MakeCorpus
from tests.fakes import WordEmbedder

YES = Decision(True, "1", "1")
MOMENT = Moment(NOW, len, lambda one, other: 0.0, lambda hit: hit.record.text, "boiler")


@dataclass
class Table:
    """A scorer that reads its scores from a table of texts, and remembers what it was asked."""

    scores: Mapping[str, float]
    scale: str = "logit"
    asked: list[tuple[str, list[str]]] = field(default_factory=list)

    def __call__(self, query: str, passages: list[str], /) -> list[float]:
        self.asked.append((query, list(passages)))
        return [self.scores[passage] for passage in passages]


def hit(text: str, **known: Any) -> Hit:
    return Hit(Record(id=text, text=text, **known.pop("record", {})), YES, **known)


def hits(*texts: str) -> list[Hit]:
    return [hit(text) for text in texts]


def ids(kept: Sequence[Hit]) -> list[str]:
    return [one.id for one in kept]


def order(stage: Any, given_hits: Sequence[Hit]) -> list[str]:
    return ids(stage(given_hits, MOMENT)[0])


def note(stage: Any, given_hits: Sequence[Hit]) -> str:
    kept, dropped = stage(given_hits, MOMENT)
    return str(stage.note(kept, dropped, MOMENT))


# The scale of the scores


def test_logits_go_through_the_sigmoid_and_unit_scores_stay() -> None:  # RR-01
    kept, _ = rerank(Table({"a": 8.1, "b": 0.4, "c": -8.2}))(hits("c", "b", "a"), MOMENT)
    shown = [one.reranked for one in kept]
    assert ids(kept) == ["a", "b", "c"]
    assert [round(found.share, 4) for found in shown if found] == [0.9997, 0.5987, 0.0003]
    assert [found.score for found in shown if found] == [8.1, 0.4, -8.2]
    assert ids(at_least(reranked=0.5)(kept, MOMENT)[0]) == ["a", "b"]


def test_enormous_logits_map_without_a_warning() -> None:  # RR-01
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mapped(np.asarray([1e3, -1e3, 1e300, -1e300]), "logit").tolist() == [1.0, 0.0, 1.0, 0.0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_the_mapping_keeps_the_order_and_stays_within_0_and_1(raw: list[float]) -> None:
    share = mapped(np.sort(np.asarray(raw)), "logit")
    assert (np.diff(share) >= 0).all()
    assert ((share >= 0) & (share <= 1)).all()


def test_a_calibrated_score_is_not_squashed_again() -> None:  # RR-02
    kept, _ = rerank(Table({"a": 0.92, "b": 0.007}, scale="unit"))(hits("b", "a"), MOMENT)
    assert [one.reranked.share for one in kept if one.reranked] == [0.92, 0.007]
    assert ids(at_least(reranked=0.3)(kept, MOMENT)[0]) == ["a"]


def test_the_scale_is_declared_and_never_guessed_from_the_numbers() -> None:  # RR-02
    kept, _ = rerank(Table({"a": 0.9, "b": 0.1}))(hits("a", "b"), MOMENT)
    assert [round(one.reranked.share, 3) for one in kept if one.reranked] == [0.711, 0.525]


def test_saturated_scores_are_told_apart_by_their_raw_values() -> None:  # RR-03
    stage = rerank(Table({"r1": 40.0, "r2": 60.0, "r3": 50.0}))
    kept, _ = stage(hits("r1", "r2", "r3"), MOMENT)
    assert {one.reranked.share for one in kept if one.reranked} == {1.0}
    assert ids(kept) == ["r2", "r3", "r1"]


def test_a_plain_function_is_a_scorer_when_its_scale_is_said() -> None:
    stage = rerank(lambda query, passages: [len(one) / 10 for one in passages], scale="unit")
    assert order(stage, hits("a", "ccc", "bb")) == ["ccc", "bb", "a"]


@pytest.mark.parametrize(
    ("scorer", "options", "named"),
    [
        (lambda query, passages: [], {}, "scale"),
        (lambda query, passages: [], {"scale": "percent"}, "scale"),
        (lambda query, passages: [], {"scale": ["unit"]}, "scale"),
        (Table({}, scale="unit"), {"scale": "logit"}, "scale"),
        (Table({}, scale="auto"), {}, "scale"),
        ("cross-encoder/ms-marco-MiniLM-L6-v2", {"scale": "logit"}, "scorer"),
        (None, {"scale": "logit"}, "scorer"),
        *((Table({}), {name: bad}, name) for name in ("top", "keep") for bad in (0, -1, 2.0, True, "3")),
        *((Table({}), {"seconds": bad}, "seconds") for bad in (0, -1, math.nan, math.inf, True, "1")),
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_written(
    scorer: Any, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ArgumentError, match=named):
        rerank(scorer, **options)


# How many


@pytest.mark.parametrize("count", [None, 3, 100])
def test_none_and_more_than_there_are_score_all(count: int | None) -> None:  # RR-04
    assert order(rerank(Table({"a": 1, "b": 3, "c": 2}), top=count), hits("a", "b", "c")) == ["b", "c", "a"]


def test_of_nothing_the_model_is_not_asked() -> None:  # RR-04
    scorer = Table({})
    kept, dropped = rerank(scorer)([], MOMENT)
    assert (list(kept), list(dropped)) == ([], [])
    assert scorer.asked == []


@pytest.mark.parametrize("text", ["one", ""])
def test_a_single_hit_is_a_list_of_one(text: str) -> None:  # RR-04
    one = Hit(Record(id="only", text=text), YES)
    assert order(rerank(Table({text: -3.0})), [one]) == ["only"]


def test_only_the_first_are_scored_and_they_stay_above_the_rest() -> None:
    scorer = Table({"a": -9.0, "b": -5.0})
    kept, dropped = rerank(scorer, top=2)(hits("a", "b", "c", "d"), MOMENT)
    assert (ids(kept), list(dropped)) == (["b", "a", "c", "d"], [])
    assert scorer.asked == [("boiler", ["a", "b"])]
    assert [one.reranked is None for one in kept] == [False, False, True, True]
    assert [one.score for one in kept] == sorted((one.score for one in kept), reverse=True)


@given(st.permutations("abcdefgh"), st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=8, max_size=8))
def test_equal_scores_stand_as_they_stood_and_nothing_is_lost(texts: list[str], scores: list[float]) -> None:
    table = dict(zip("abcdefgh", scores, strict=True))
    given_hits = hits(*texts)
    kept = order(rerank(Table(table)), given_hits)
    assert kept == sorted(texts, key=lambda text: -table[text])
    assert ids(given_hits) == texts
    assert all(one.reranked is None for one in given_hits)


# What another signal had right


def test_what_holds_a_named_identifier_stays_ahead_of_any_score() -> None:
    given_hits = [hit("code", tier=1), *hits("a", "b")]
    assert order(rerank(Table({"code": -9, "a": 9, "b": 8})), given_hits) == ["code", "a", "b"]


def test_a_superseded_record_that_was_asked_for_stays_below_its_successor() -> None:
    given_hits = [hit("new"), hit("old", superseded_by=("new",)), hit("other")]
    assert order(rerank(Table({"new": 0, "old": 9, "other": 5})), given_hits) == ["other", "new", "old"]


def test_successors_and_slot_winners_are_reordered_and_never_cut() -> None:
    status = {"record": {"slots": [Slot("L1", "status", "reserved")]}}
    mention = {"record": {"slots": [Slot("L1", "status")]}}
    given_hits = [
        hit("heir", replaces=("old",)), hit("wins", **status), hit("mentions", **mention), *hits("a", "b")
    ]  # fmt: skip
    scorer = Table({"heir": -9, "wins": -8, "mentions": -7, "a": 2, "b": 1})
    kept, dropped = rerank(scorer, keep=1)(given_hits, MOMENT)
    assert ids(kept) == ["a", "wins", "heir"]
    assert [(drop.id, drop.reason) for drop in dropped] == [
        ("b", "below the first 1 after reranking"),
        ("mentions", "below the first 1 after reranking"),
    ]


def test_the_text_of_a_retired_record_reaches_no_reranker(make_corpus: MakeCorpus) -> None:
    scorer = Table({"Fee is 12 EUR": 1.0, "Keys are with the porter": -1.0})
    corpus = make_corpus(reranker=scorer)
    corpus.add([
        Record(id="old", text="Fee is 10 EUR"),
        Record(id="new", text="Fee is 12 EUR", supersedes=["old"]),
        Record(id="keys", text="Keys are with the porter"),
    ])  # fmt: skip
    result = corpus.retrieve("what is the fee", rerank=True)
    assert ids(result.hits)[0] == "new"
    assert "old" not in ids(result.hits)
    assert all("10 EUR" not in passage for _, passages in scorer.asked for passage in passages)


# Long passages


class Narrow:
    """Reads 512 words of query and passage at most, and raises above that; knows the code."""

    scale = "unit"

    def __init__(self, *, split: bool) -> None:
        if split:
            self.windows = self._windows

    def __call__(self, query: str, passages: list[str], /) -> list[float]:
        for passage in passages:
            if len(query.split()) + len(passage.split()) > 512:
                raise ValueError("513 > 512")
        return [0.9 if "7731" in passage else 0.2 for passage in passages]

    def _windows(self, query: str, passage: str) -> list[str]:
        words = passage.split()
        return [" ".join(words[at : at + 400]) for at in range(0, len(words), 400)]


FAR = "filler " * 900 + "The gate code is 7731."


def test_the_best_window_of_a_long_passage_counts() -> None:  # RR-05
    stage = rerank(Narrow(split=True))
    given_hits = [hit("short and unrelated"), Hit(Record(id="far", text=FAR), YES)]
    assert order(stage, given_hits) == ["far", "short and unrelated"]
    assert note(stage, given_hits) == "2 scored, 1 in windows"


def test_a_passage_beyond_all_windows_is_flagged_as_truncated() -> None:  # RR-05
    book = Hit(Record(id="book", text="filler " * 400 * (MOST_WINDOWS + 1)), YES)
    assert "1 truncated after 8 windows" in note(rerank(Narrow(split=True)), [book])


def test_a_scorer_that_raises_on_long_passages_leaves_the_order() -> None:  # RR-05
    stage = rerank(Narrow(split=False))
    given_hits = [hit("short"), Hit(Record(id="far", text=FAR), YES)]
    assert order(stage, given_hits) == ["short", "far"]
    assert "513 > 512" in note(stage, given_hits)


# When the model fails


async def later(query: str, passages: list[str]) -> list[float]:
    return [1.0] * len(passages)


def raising(error: Exception) -> Callable[[str, list[str]], Any]:
    def score(query: str, passages: list[str]) -> Any:
        raise error

    return score


FAILING: dict[str, Callable[[str, list[str]], Any]] = {
    "TimeoutError: the server is asleep": raising(TimeoutError("the server is asleep")),
    "scores of shape (2,)": lambda query, passages: [1.0, 2.0],
    "scores of shape (4,)": lambda query, passages: [1.0] * 4,
    "scores of shape (3, 1)": lambda query, passages: [[1.0]] * 3,
    "scores of shape ()": lambda query, passages: 1.0,
    "NaN or infinite": lambda query, passages: [1.0, math.nan, 3.0],
    "NaN or infinite.": lambda query, passages: [1.0, -math.inf, 3.0],
    "outside 0 to 1": lambda query, passages: [0.2, 1.7, 0.3],
    "could not convert": lambda query, passages: ["high"] * 3,
    "TypeError": lambda query, passages: None,
    "coroutine": later,
}


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("said", FAILING)
def test_a_failure_leaves_the_order_as_it_was_and_the_trace_says_so(said: str) -> None:  # RR-06
    corpus = Corpus.in_memory(embedder=WordEmbedder(), clock=lambda: NOW)
    corpus.add([Record(id=f"r{n}", text="boiler " * n + "pump") for n in (1, 2, 3)])
    fused = ((semantic | lexical) & everyone) >> rrf()
    before = corpus.run(fused, "boiler")
    after = corpus.run(fused >> rerank(FAILING[said], scale="unit"), "boiler")
    assert ids(after.hits) == ids(before.hits)
    assert all(one.reranked is None for one in after.hits)
    (step,) = [step for step in after.trace.steps if step.stage == "rerank"]
    assert step.note.startswith("not reranked (")
    assert step.note.endswith("): the order as it was")
    if said not in ("TypeError", "coroutine", "NaN or infinite."):
        assert said in step.note


def test_a_late_model_leaves_the_order_and_its_answer_is_not_used() -> None:  # RR-06
    answered, asked = threading.Event(), threading.Event()

    def slow(query: str, passages: list[str]) -> list[float]:
        asked.set()
        answered.wait(30)
        return [1.0, 2.0]

    stage = rerank(slow, scale="logit", seconds=0.02)
    kept, _ = stage(hits("a", "b"), MOMENT)
    remark = stage.note(kept, [], MOMENT)
    answered.set()
    assert asked.is_set()
    assert ids(kept) == ["a", "b"]
    assert remark == "not reranked (TimeoutError: no answer within 0.02 s): the order as it was"


def test_within_its_time_a_model_is_used_and_its_errors_are_told() -> None:
    assert order(rerank(Table({"a": 1, "b": 2}), seconds=30), hits("a", "b")) == ["b", "a"]
    assert "KeyError" in note(rerank(Table({"a": 1}), seconds=30), hits("a", "b"))


def test_after_a_failure_a_threshold_leaves_nothing_out() -> None:
    kept, _ = rerank(raising(OSError("down")), scale="logit")(hits("a", "b"), MOMENT)
    stage = at_least(reranked=0.5)
    still, dropped = stage(kept, MOMENT)
    assert (ids(still), list(dropped)) == (["a", "b"], [])
    assert stage.note(still, dropped, MOMENT) == "not applied: nothing was reranked"


def test_a_pipeline_prints_the_scorer_by_name_and_not_by_its_address() -> None:
    assert repr(rerank(Table({}))) == "rerank(Table, top=50, keep=None, seconds=None)"


# Thresholds and the formula behind it


def test_a_threshold_after_the_reranker_reads_its_score_and_not_the_cosine() -> None:  # FU-08
    found = {name: (Found("semantic", rank, cosine, cosine),) for name, rank, cosine in
             (("m2", 1, 0.71), ("m1", 2, 0.28))}  # fmt: skip
    given_hits = [hit(name, found_by=evidence) for name, evidence in found.items()]
    kept, _ = rerank(Table({"m1": 0.93, "m2": 0.20}, scale="unit"))(given_hits, MOMENT)
    assert ids(at_least(reranked=0.5)(kept, MOMENT)[0]) == ["m1"]
    assert ids(at_least(semantic=0.5)(given_hits, MOMENT)[0]) == ["m2"]


def test_the_formula_takes_the_mapped_score_for_relevance() -> None:
    given_hits = [hit("a", found_by=(Found("semantic", 1, 0.9, 0.9),)), hit("b")]
    kept, _ = rerank(Table({"a": 0.2, "b": 0.8}, scale="unit"))(given_hits, MOMENT)
    ranked, _ = composite(weights=(1, 0, 0))(kept, MOMENT)
    assert [(one.id, one.relevance) for one in ranked] == [("b", 0.8), ("a", 0.2)]
    plain, _ = composite(weights=(1, 0, 0), relevance="cosine")(kept, MOMENT)
    assert ids(plain) == ["a", "b"]


def test_recency_lifts_nothing_unscored_above_the_scored() -> None:
    fresh = hit("fresh", record={"created_at": NOW}, found_by=(Found("lexical", 1, 9.0, 0.9),))
    old = [
        hit(name, record={"created_at": NOW - timedelta(days=days)}) for name, days in (("a", 9), ("b", 1))
    ]
    kept, _ = rerank(Table({"a": 0.81, "b": 0.8}, scale="unit"), top=2)([*old, fresh], MOMENT)
    assert order(auto(), kept) == ["b", "a", "fresh"]
    assert order(auto(), [*old, fresh]) == ["fresh", "b", "a"]


def test_nothing_dated_leaves_the_reranked_order() -> None:
    kept, _ = rerank(Table({"a": 0, "b": 1}))(hits("a", "b"), MOMENT)
    ranked, _ = auto()(kept, MOMENT)
    assert ids(ranked) == ["b", "a"]
    assert auto().note(ranked, [], MOMENT) == "as reranked: nothing is dated"


# The travel case through the front door

TRAVEL = [
    Record(id="D1", text="Contract v3: the refund window of Kyoto Hotel is 7 days", source_id="contract",
           version="3"),
    Record(id="D2", text="Inspection v2: Kyoto Hotel has step free access, refund desk in the hall",
           source_id="inspection", version="2"),
    Record(id="D4", text="Brochure: Kyoto Hotel, Kyoto Hotel, refund your spirit in Kyoto, window to Kyoto"),
]  # fmt: skip
JUDGED = {TRAVEL[0].text: 3.0, TRAVEL[1].text: 1.0, TRAVEL[2].text: -4.0}


@pytest.fixture
def travel(make_corpus: MakeCorpus) -> Corpus:
    corpus = make_corpus(reranker=Table(JUDGED))
    corpus.add(TRAVEL)
    return corpus


def asked(corpus: Corpus, **options: Any) -> Result:
    return corpus.retrieve("refund window Kyoto Hotel", **options)


def test_the_brochure_is_last_after_reranking_and_every_item_shows_its_evidence(travel: Corpus) -> None:
    result = asked(travel, rerank=True)
    assert ids(result.hits) == ["D1", "D2", "D4"]
    for one in result.hits:
        assert {found.source for found in one.found_by} == {"semantic", "lexical"}
        assert all(found.rank >= 1 for found in one.found_by)
        assert one.fused is not None
        assert one.reranked is not None
        assert one.decision.allowed
        assert one.record.version in ("3", "2", "1")
    assert "reranked 1 score 3.000 (0.953)" in str(result.why("D1"))


def test_a_question_says_how_many_are_read_and_by_default_none(travel: Corpus) -> None:
    assert all(one.reranked is None for one in asked(travel).hits)
    assert sum(one.reranked is not None for one in asked(travel, rerank=2).hits) == 2
    (step,) = [step for step in asked(travel, rerank=2).trace.steps if step.stage == "rerank"]
    assert step.note == "2 scored"


@pytest.mark.parametrize("wanted", [0, -1, 2.0, "yes", None])
def test_a_number_that_means_nothing_is_refused(travel: Corpus, wanted: Any) -> None:
    with pytest.raises(ArgumentError, match="rerank"):
        asked(travel, rerank=wanted)


def test_without_a_reranker_the_way_out_is_named() -> None:
    with pytest.raises(ArgumentError, match="open it with reranker="):
        asked(Corpus.in_memory(embedder=WordEmbedder()), rerank=True)


def test_a_corpus_takes_a_whole_stage_with_its_time_limit() -> None:
    stage = rerank(Table(JUDGED), top=1, seconds=30)
    with Corpus.in_memory(embedder=WordEmbedder(), reranker=stage) as corpus:
        corpus.add(TRAVEL)
        assert sum(one.reranked is not None for one in asked(corpus, rerank=True).hits) == 1


@pytest.mark.parametrize("given_reranker", [top(5), "cross-encoder", lambda query, passages: []])
def test_what_is_no_reranker_is_refused_at_opening(given_reranker: Any) -> None:
    with pytest.raises(ArgumentError):
        Corpus.in_memory(embedder=WordEmbedder(), reranker=given_reranker)


def test_it_stands_in_a_pipeline_and_needs_an_order(travel: Corpus) -> None:
    found = ((semantic | lexical) & everyone) - superseded
    assert ids(travel.run(found >> rrf() >> rerank(Table(JUDGED)) >> top(1), "refund window").hits) == ["D1"]
    with pytest.raises(TypeError, match="no order yet"):
        travel.run(found >> rerank(Table(JUDGED)), "refund window")


# The real loading code, on a tiny model made here


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder of two layers with random weights and a vocabulary of words, in a folder."""
    pytest.importorskip("sentence_transformers", reason="the extra sentence-transformers is not installed")
    torch, tokenizers, transformers = map(pytest.importorskip, ("torch", "tokenizers", "transformers"))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "gate", "code", "is", "fee", "the", "filler", "7731"]
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        model_max_length=32,
    )  # fmt: skip
    torch.manual_seed(7)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=32, num_labels=1,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("tiny")
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_folder_is_loaded_without_network_and_gives_raw_logits(tiny: Path) -> None:
    torch, library = map(pytest.importorskip, ("torch", "sentence_transformers"))
    scorer = CrossEncoderReranker(tiny, device="cpu", batch_size=2)
    passages = ["the fee", "the gate code is 7731", "filler"]
    scores = np.asarray(scorer("gate code", passages))
    plain = library.CrossEncoder(str(tiny), device="cpu", local_files_only=True)
    raw = plain.predict([("gate code", one) for one in passages], activation_fn=torch.nn.Identity())
    assert scores.shape == (3,)
    assert np.allclose(scores, raw, atol=1e-6)
    assert scorer.scale == "logit"
    assert list(scorer("gate code", [])) == []


def test_the_batch_size_changes_no_score(tiny: Path) -> None:
    passages = [f"{'filler ' * n}code" for n in range(9)]
    one, many = (CrossEncoderReranker(tiny, device="cpu", batch_size=n) for n in (1, 64))
    assert np.allclose(one("gate", passages), many("gate", passages), atol=1e-5)


def test_windows_fit_beside_the_query_overlap_and_leave_no_word_out(tiny: Path) -> None:
    scorer = CrossEncoderReranker(tiny, device="cpu")
    words = [*(["filler"] * 90), "code", "7731"]
    parts = scorer.windows("gate code is", " ".join(words))
    assert all(len(part.split()) <= 32 - 3 - 3 for part in parts)
    assert parts[0].split() == ["filler"] * 26
    assert parts[-1].split()[-1] == "7731"
    step = 26 - 26 // 4
    assert len(parts) == math.ceil((92 - 26) / step) + 1
    assert scorer.windows("gate", "code is 7731") == ["code is 7731"]


def test_a_long_query_is_shortened_and_leaves_room_for_the_passage(tiny: Path) -> None:
    scorer = CrossEncoderReranker(tiny, device="cpu")
    long = "gate code is " * 40
    one, other = scorer(long, ["fee " * 10, "7731 " * 10])
    assert one != other
    assert all(part.split() for part in scorer.windows(long, "filler " * 60))


def test_a_shorter_bound_can_be_asked_for(tiny: Path) -> None:
    assert CrossEncoderReranker(tiny, device="cpu").max_length == 32
    assert CrossEncoderReranker(tiny, device="cpu", max_length=20).max_length == 20
    assert CrossEncoderReranker(tiny, device="cpu", max_length=999).max_length == 32


def test_a_passage_given_past_the_bound_is_truncated_and_no_error(tiny: Path) -> None:
    scorer = CrossEncoderReranker(tiny, device="cpu", max_length=20)
    short, long, longer = scorer("gate", ["fee " * 16, "fee " * 16 + "code " * 5, "fee " * 900])
    assert short == pytest.approx(long, abs=1e-5)
    assert short == pytest.approx(longer, abs=1e-5)


def test_the_real_model_in_the_pipeline_reads_the_end_of_a_long_passage(tiny: Path) -> None:
    stage = rerank(CrossEncoderReranker(tiny, device="cpu"), seconds=120)
    far = Hit(Record(id="far", text="filler " * 90 + "code 7731"), YES)
    kept, dropped = stage([hit("fee"), far], MOMENT)
    assert stage.note(kept, dropped, MOMENT) == "2 scored, 1 in windows"
    assert {one.id for one in kept if one.reranked} == {"fee", "far"}


def test_a_model_with_several_numbers_for_a_pair_is_no_reranker(tiny: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig.from_pretrained(tiny)
    config.num_labels = 3
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(tiny).save_pretrained(tmp_path)
    with pytest.raises(ArgumentError, match="3 numbers for a pair"):
        CrossEncoderReranker(tmp_path, device="cpu")("gate", ["code"])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"model": "./nowhere"}, "no such folder"),
        ({"model": Path("/nowhere/at/all")}, "no such folder"),
        ({"batch_size": 0}, "batch_size"),
        ({"max_length": 3}, "max_length"),
        ({"max_length": True}, "max_length"),
    ],
)
def test_what_is_no_model_is_refused_at_construction(options: dict[str, Any], named: str) -> None:
    pytest.importorskip("sentence_transformers", reason="the extra sentence-transformers is not installed")
    with pytest.raises(ArgumentError, match=named):
        CrossEncoderReranker(**options)


def test_without_the_library_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'ctxarith\[sentence-transformers\]'"):
        CrossEncoderReranker()
