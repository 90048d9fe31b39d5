"""Watermarks and the change feed: what has changed since, as one caller may see it."""

from __future__ import annotations

from typing import Any

import pytest

from ctxarith import ArgumentError, Change, Corpus, Principal, Record, field
from tests.conftest import NOW, MakeCorpus

ACME, BETA = Principal("acme"), Principal("beta")


def rec(rid: str, text: str = "fee", **rest: Any) -> Record:
    return Record(id=rid, text=text, **{"tenant": "acme", **rest})


def told(corpus: Corpus, since: int = 0, principal: Principal = ACME) -> list[tuple[int, str, str]]:
    changes = corpus.changes(since, principal=principal)
    return [(change.watermark, change.kind, change.id) for change in changes]


def test_each_write_of_a_tenant_counts_one_and_no_other_tenant_hears_of_it(corpus: Corpus) -> None:
    assert corpus.watermark("acme") == 0
    corpus.add([rec("a"), rec("b")])
    corpus.add([rec("x", tenant="beta")])
    assert (corpus.watermark("acme"), corpus.watermark("beta")) == (1, 1)
    corpus.add([rec("c"), rec("y", tenant="beta")])
    corpus.delete("a", tenant="acme")
    assert (corpus.watermark("acme"), corpus.watermark("beta")) == (3, 2)
    assert told(corpus) == [(1, "added", "a"), (1, "added", "b"), (2, "added", "c"), (3, "removed", "a")]
    assert told(corpus, 0, BETA) == [(1, "added", "x"), (2, "added", "y")]
    assert told(corpus, 2) == [(3, "removed", "a")]


def test_what_changes_nothing_counts_nothing(corpus: Corpus) -> None:
    corpus.add([rec("a")])
    corpus.add([rec("a")])
    corpus.delete("nobody", tenant="acme")
    corpus.add([])
    assert corpus.watermark("acme") == 1


def test_a_correction_has_the_fields_before_and_after_without_texts(corpus: Corpus) -> None:
    corpus.add([rec("a", "fee 10", metadata={"kind": "quote"}, scope="sales")])
    corpus.add([rec("a", "fee 12", metadata={"kind": "invoice"}, scope="sales")])
    corpus.add([rec("a", "fee 14", metadata={"kind": "credit"}, scope="sales")])
    first, second, third = corpus.changes(0, principal=ACME)
    assert (first.kind, first.before) == ("added", None)
    kinds = [(_kind(change.before), _kind(change.after)) for change in (second, third)]
    assert kinds == [("quote", "invoice"), ("invoice", "credit")]
    assert _kind(first.after) == "quote"
    texts = {one.text for change in (first, second, third) for one in (change.before, change.after) if one}
    assert texts == {""}
    assert second.after is not None
    assert (field("kind") == "invoice").matches(second.after)


def _kind(record: Record | None) -> object:
    return None if record is None else record.metadata["kind"]


def test_a_fact_that_is_ended_has_left_the_callers_sight(corpus: Corpus) -> None:
    corpus.add([rec("a")])
    corpus.retire("a", tenant="acme")
    (change,) = corpus.changes(1, principal=ACME)
    assert (change.kind, change.after) == ("removed", None)
    assert change.before is not None
    assert change.before.valid_until is None


def test_a_record_that_moves_between_scopes_comes_and_goes_for_those_who_see_one_of_them(
    corpus: Corpus,
) -> None:
    sales, service = (Principal("acme", scopes=[path]) for path in ("sales", "service"))
    corpus.add([rec("a", scope="sales")])
    corpus.add([rec("a", scope="service")])
    assert told(corpus, 1, sales) == [(2, "removed", "a")]
    assert told(corpus, 1, service) == [(2, "added", "a")]
    assert told(corpus, 1) == [(2, "changed", "a")]
    (change,) = corpus.changes(1, principal=sales)
    assert change.after is None


def test_what_the_caller_may_not_see_is_not_told(corpus: Corpus) -> None:
    corpus.add([rec("a", audience=["board"]), rec("b", embargo_until="2027-01-01")])
    assert corpus.changes(0, principal=ACME) == []
    assert told(corpus, 0, Principal("acme", groups=["board"])) == [(1, "added", "a")]


def test_the_feed_forgets_what_a_purged_record_held(corpus: Corpus) -> None:
    corpus.add([rec("a", metadata={"note": "ZEBRA"}), rec("b")])
    corpus.add([rec("a", metadata={"note": "ZEBRA-2"})])
    corpus.delete("b", tenant="acme")
    corpus.purge("a", tenant="acme")
    changes = corpus.changes(0, principal=ACME)
    assert "ZEBRA" not in repr(changes)
    assert all(change.before is None for change in changes)


@pytest.mark.parametrize("since", [-1, 1.0, "1", None, True, 2**63])
def test_a_watermark_is_a_whole_number(corpus: Corpus, since: Any) -> None:
    with pytest.raises(ArgumentError, match="since"):
        corpus.changes(since)


def test_watermarks_and_feed_last(make_corpus: MakeCorpus, tmp_path: Any) -> None:
    for n in range(3):
        with Corpus.open(tmp_path / "c", clock=lambda: NOW) as corpus:
            corpus.add([Record(id=f"r{n}", text="fee")])
            assert corpus.watermark() == n + 1
            assert [change.id for change in corpus.changes(0)] == [f"r{m}" for m in range(n + 1)]


def test_an_index_made_anew_says_that_anything_may_have_changed(tmp_path: Any) -> None:
    with Corpus.open(tmp_path / "c") as corpus:
        corpus.add([Record(id="a", text="fee")])
    for file in (tmp_path / "c" / "index").iterdir():
        file.unlink()
    with Corpus.open(tmp_path / "c") as corpus:
        assert corpus.changes(1) == [Change(2, "rebuilt")]
        assert corpus.watermark() == 2
