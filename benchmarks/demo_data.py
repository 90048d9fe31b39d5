"""Write the neighbours of the demo data: other leads, other learners, another tenant.

    python benchmarks/demo_data.py

The records that the worked examples are about are written by hand in `core/ctxarith/demo/*.jsonl` and are
edited there. This script keeps those lines as they are and renews only the lines whose id starts with `nb-`.
They are what a leak would look like: the same campaigns, nearly the same words, other people. Seeded; the
same bytes at every run.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

DEMO = Path(__file__).resolve().parents[1] / "core" / "ctxarith" / "demo"
GENERATED = "nb-"
NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)

Row = dict[str, Any]

# --- calls: who else is on the list -----------------------------------------------------------------------

LEADS: list[Row] = [
    dict(
        lead_id="GJ-4512", parent="Jignesh Solanki", student="Mansi", city="Vadodara", centre="Alkapuri",
        counsellor="Meenal Kapadia", old="January", new="March", first="Hindi", then="Gujarati",
        block="fee", list_price="74,000", price="70,000",
    ),
    dict(
        lead_id="GJ-4251", parent="Kokila Parmar", student="Dev", city="Anand", centre="Amul Road",
        counsellor="Farhan Shaikh", old="January", new="June", first="English", then="Hindi",
        block="distance", list_price="71,500", price="66,000",
    ),
    dict(
        lead_id="GJ-4530", parent="Bharat Mistry", student="Pooja", city="Surat", centre="Adajan",
        counsellor="Meenal Kapadia", old="January", new="weekend", first="Gujarati", then="English",
        block="hostel", list_price="74,000", price="72,250",
    ),
    dict(
        lead_id="MH-3307", parent="Sunita Kulkarni", student="Omkar", city="Pune", centre="Deccan",
        counsellor="Ashwin Pai", old="January", new="March", first="Hindi", then="English", block="boards",
        list_price="81,000", price="77,400",
    ),
    dict(
        lead_id="RJ-2180", parent="Mahendra Rathore", student="Kavya", city="Udaipur", centre="Fatehpura",
        counsellor="Farhan Shaikh", old="online", new="March", first="English", then="Hindi", block="fee",
        list_price="68,000", price="64,500",
    ),
    dict(
        lead_id="MP-1975", parent="Rekha Tiwari", student="Ansh", city="Indore", centre="Vijay Nagar",
        counsellor="Ashwin Pai", old="March", new="June", first="Hindi", then="English", block="unsure",
        list_price="69,500", price="69,500",
    ),
]  # fmt: skip

TWIN: Row = dict(
    lead_id="GJ-4521", parent="Bhavna Joshi", student="Nirav", city="Surat", centre="Adajan",
    counsellor="Ritu Saxena", old="January", new="April", first="Hindi", then="Gujarati", block="fee",
    list_price="76,000", price="71,200",
)  # fmt: skip

OBJECTIONS = {
    "fee": "the fee of ₹{price} in one payment is too much; {parent} asks for 2 parts, ₹30,000 first",
    "distance": "{centre} is 14 km from home; {parent} would confirm the seat for a van by 3:30 pm",
    "hostel": "{student} cannot travel daily; {parent} will confirm the seat once a room is found",
    "boards": "{student} sits Class 12 papers until 14 March 2026; {parent} confirms no seat before",
    "unsure": "{student} may still choose B.Com only; {parent} wants no seat before 20 March 2026",
}

STATUS = {
    "fee": (
        "seat reserved",
        "token of ₹5,000 paid for the {new} intake at {centre}; balance due by 12 March 2026",
    ),
    "distance": (
        "provisional",
        "form for the {new} intake at {centre} filled on 24 February 2026, token not paid",
    ),
    "hostel": (
        "provisional",
        "form for the {new} intake signed by {parent}, waiting for a room list of {centre}",
    ),
    "boards": (
        "seat reserved",
        "token of ₹5,000 paid by {parent} for the {new} intake; papers of {student} missing",
    ),
    "unsure": (
        "counselling booked",
        "visit of {student} to {centre} on 21 March 2026 at 11:00 am, no fee paid",
    ),
}

# (kind, attribute, campaign, days before now, text, value)
LEAD_FACTS = [
    ("status", "enrolment_status", "winter", 88,
     "Enrolment status: enquired. Lead {lead_id} came from the web form, {city}, no fee paid, no seat"
     " held.", "enquired"),
    ("preference", "batch_preference", "winter", 79,
     "Batch preference: {old} batch. Lead {lead_id} named the {old} intake for {student}, {centre}"
     " centre, on call 1.", "{old} batch"),
    ("preference", "batch_preference", "spring", 13,
     "Batch preference: {new} batch. {parent}, lead {lead_id}, now wants the {new} intake at {centre} for"
     " {student}.", "{new} batch"),
    ("preference", "language_preference", "winter", 84,
     "Language preference: {first}. {parent}, lead {lead_id}, answered the first message in {first}.",
     "{first}"),
    ("preference", "language_preference", "spring", 9,
     "Language preference: {then}. {parent}, lead {lead_id}, asked that the next call for {student} be in"
     " {then}.", "{then}"),
    ("objection", "current_objection", "spring", 6,
     "Current objection: {block}. Lead {lead_id}: {objection}.", "{block}"),
    ("call_summary", "last_call_summary", "winter", 80,
     "Last call summary: first call with lead {lead_id}, {counsellor}. {parent} asks about the {old}"
     " intake for {student} and wants the brochure.", "call 1"),
    ("call_summary", "last_call_summary", "spring", 5,
     "Last call summary: second call with lead {lead_id}, {counsellor}. {parent} leans to the {new}"
     " intake for {student}; open point, {block}; third call agreed.", "call 2"),
    ("status", "enrolment_status", "spring", 4,
     "Enrolment status: {status}. Lead {lead_id}: {standing}.", "{status}"),
    ("quote", None, "winter", 82,
     "Fee quote: ₹{list_price} for CA Foundation, classroom, all four papers. Sent to lead {lead_id} by"
     " {counsellor}, list price.", None),
    ("quote", None, "spring", 37,
     "Fee quote: ₹{price} for CA Foundation, classroom, all four papers, after the rebate. Sent to lead"
     " {lead_id}.", None),
]  # fmt: skip

# (kind, channel, text): one lead gets a handful of them, never the same one twice in a campaign
LEAD_NOTES = [
    ("log", "call", "Dialer: no answer, rang out. Queued again for the morning window."),
    ("log", "call", "Dialer: connected, talk time nine minutes, ended by the customer. Recording stored."),
    ("log", "call", "Dialer: number busy three times within an hour, parked until the day after."),
    ("log", "call", "Dialer: picked up, but {parent} was driving and asked to be rung after dinner."),
    ("log", "call", "Dialer: connected for half a minute, the voice could not be heard on our side."),
    ("note", "whatsapp",
     "WhatsApp from {parent}: the brochure does not open on the old phone, could it be sent as pictures?"),
    ("note", "whatsapp",
     "WhatsApp from {parent}: which papers does {student} have to bring on the first day?"),
    ("note", "whatsapp",
     "WhatsApp from {parent}: a neighbour's daughter is with us already, can the two sit in one group?"),
    ("note", "whatsapp",
     "WhatsApp from {parent}: thank you for the patience, we speak when the school has sent the"
     " timetable."),
    ("note", "whatsapp",
     "WhatsApp from {parent}: {student} has lost the sample test, please send it once more."),
    ("note", "whatsapp",
     "WhatsApp from {parent}: is the centre in {city} open on the second Saturday of the month?"),
    ("note", "whatsapp",
     "WhatsApp from {parent}: a question about the library, the lockers and whether the water is"
     " filtered."),
    ("small_talk", "whatsapp",
     "Festival wishes exchanged with {parent}; a picture of sweets, nothing about the course."),
    ("small_talk", "whatsapp",
     "{parent} sent a film of the cricket match in which {student} takes the last catch."),
    ("send", "whatsapp", "Brochure sent to {parent}, delivered, opened once, no answer."),
    ("send", "email",
     "Sample test with worked answers sent to {student} by e-mail, opened within the hour."),
    ("send", "email",
     "Timetable for {centre} sent to {parent}; the mail came back, the address had a comma in it."),
    ("reminder", "sms", "Reminder sent: open house at {centre} on Saturday. Delivered, not answered."),
    ("reminder", "sms",
     "Reminder sent: scholarship test, bring an identity card. {student} came and sat the test."),
    ("visit", "visit",
     "Visit note: {parent} and {student} came to {centre}, saw a class and asked about the teacher of"
     " law."),
    ("visit", "visit",
     "Visit note: {student} came alone after school, took a calendar and a sample test, stayed ten"
     " minutes."),
    ("transcript", "call",
     "[counsellor] is this a good moment? [parent] it is, but speak up, there is a procession in the"
     " street. [counsellor] I only want to ask whether {student} liked the sample class. [parent] liked,"
     " yes, came home and talked of nothing else."),
    ("transcript", "call",
     "[parent] my elder one did this course somewhere else and gave up in the second year. What is"
     " different with you? [counsellor] perhaps nothing, perhaps that we ring you before it is too late."
     " [parent] that is an honest answer."),
    ("transcript", "call",
     "[parent] we are three families who would come together by one van. Does that help? [counsellor]"
     " with the van, yes; with the rest I have to ask. [parent] then ask, and write it to me, not to my"
     " brother."),
    ("transcript", "call",
     "[counsellor] how are the sums going? [parent] {student} says fine, so I know that they are not."
     " [counsellor] shall the teacher ring? [parent] after the exams, one war at a time."),
]  # fmt: skip

# --- nps: who else is in the course -----------------------------------------------------------------------

LEARNERS: list[Row] = [
    dict(
        learner_id="UN-20878", course_id="NEET-DROPPER-2026", name="Farah Ansari", city="Nagpur",
        ticket="TCK-1178", second="TCK-1211", done=58, lessons=162, score=7, was=6, subject="Chemistry",
        strong="Zoology",
    ),
    dict(
        learner_id="UN-20987", course_id="NEET-DROPPER-2026", name="Joel D'Cruz", city="Mangaluru",
        ticket="TCK-1192", second="TCK-1230", done=71, lessons=199, score=9, was=8, subject="Physics",
        strong="Botany",
    ),
    dict(
        learner_id="UN-21440", course_id="NEET-DROPPER-2026", name="Simran Bedi", city="Ludhiana",
        ticket="TCK-1201", second="TCK-1215", done=44, lessons=123, score=4, was=7, subject="Physics",
        strong="Biology",
    ),
    dict(
        learner_id="UN-19065", course_id="JEE-CORE-2027", name="Aditya Menon", city="Kochi",
        ticket="TCK-1183", second="TCK-1222", done=29, lessons=81, score=8, was=8, subject="Algebra",
        strong="Mechanics",
    ),
]  # fmt: skip

# (kind, state, subject of the slot, attribute, days before now, text, value)
LEARNER_FACTS = [
    ("progress", "current", "{learner_id}", "progress", 30,
     "Progress: learner {learner_id} has completed {less}% of the course; {strong} ahead, {subject}"
     " behind plan.", "{less}%"),
    ("progress", "current", "{learner_id}", "progress", 3,
     "Progress: learner {learner_id} has completed {done}% of the course, {lessons} of 280 lessons;"
     " {strong} ahead, {subject} behind plan.", "{done}%"),
    ("ticket", "open", "{ticket}", "ticket_status", 41,
     "Open support ticket {ticket}: learner {learner_id}, {subject} doubt session cancelled without"
     " notice; priority 3.", "opened"),
    ("ticket", "resolved", "{ticket}", "ticket_status", 33,
     "Resolved support ticket {ticket}: learner {learner_id}, {subject} doubt session held, confirmed by"
     " chat.", "resolved"),
    ("ticket", "open", "{second}", "ticket_status", 6,
     "Open support ticket {second}: learner {learner_id}, app loses the place in recordings; opened in"
     " {city}, priority 2.", "opened"),
    ("milestone", "current", "{learner_id}", "milestones", 8,
     "Course milestones: learner {learner_id} reached 6 of 12; latest Mock Test 4; next {subject}"
     " revision by 15 March.", "6 of 12"),
    ("nps", "current", "{learner_id}", "nps_score", 55,
     "Last NPS score: {was} by learner {learner_id} in January 2026; reason, timetable.", "{was}"),
    ("nps", "current", "{learner_id}", "nps_score", 17,
     "Last NPS score: {score} by learner {learner_id} in February 2026, before that {was}; praise for"
     " {strong}, wish for shorter waits in {subject}.", "{score}"),
    ("flag", "current", "{learner_id}", "negative_flags", 4,
     "Negative flags: learner {learner_id} missed 2 live classes in {subject} since 16 February 2026; no"
     " refund asked.", "missed classes"),
]  # fmt: skip

LEARNER_NOTES = [
    ("attendance", "lms", "logged",
     "Live class in {subject}: joined on time, two polls answered, left before the end."),
    ("attendance", "lms", "logged",
     "Live class in {strong}: not joined, recording watched the same night."),
    ("mentor", "call", "done",
     "Mentor talk with {name}: sleeps badly before mocks; agreed on a walk and no books after ten."),
    ("mentor", "call", "done",
     "Mentor talk with {name}: wants to change the evening group, will decide after the next mock."),
    ("practice", "lms", "done",
     "Practice set in {subject} left half way; the planner moved the rest to the weekend."),
    ("practice", "lms", "done", "Practice set in {strong} finished in one sitting, three careless slips."),
    ("app", "app", "logged",
     "App: reminders moved to the morning, downloads in low quality, streak of nine days."),
    ("forum", "app", "logged",
     "Forum post by {name} about a sign error in the {subject} key; a teacher agreed and thanked."),
    ("support_note", "support", "logged",
     "Support note: {name} in {city} sent a film of the fault; passed on to the app team."),
    ("transcript", "call", "logged",
     "[agent] would you send a friend to us? [learner] I would, if the friend is patient. [agent] patient"
     " with what? [learner] with the queue for {subject}, with what else."),
]  # fmt: skip

NPS_TWIN = [
    ("Tanvi Deshmukh", "Ishita Bansal"), ("Nagpur", "Jaipur"), ("61%", "57%"), ("171 of 280", "160 of 280"),
    ("468 of 720", "512 of 720"), ("Kavita Rao", "Manish Gill"), ("Dr Nair", "Dr Sethi"),
    ("missed 4", "missed 5"), ("Android 14", "Android 13"),
]  # fmt: skip
LEAD_TWIN = [
    ("Hetal Vyas", "Bhavna Joshi"), ("Yash", "Nirav"), ("Meenal Kapadia", "Ritu Saxena"),
    ("Alkapuri", "Adajan"), ("Farhan Shaikh", "Imtiaz Kazi"), ("Gorwa", "Varachha"),
    ("March batch", "April batch"), ("16 March", "13 April"), ("March intake", "April intake"),
    ("March seat", "April seat"), ("between January and March", "between January and April"),
    ("₹68,500", "₹71,200"), ("₹74,000", "₹76,000"), ("₹63,500", "₹66,200"), ("₹20,000", "₹25,000"),
]  # fmt: skip

CAMPAIGN = {"winter": "winter-admissions", "spring": "spring-counselling"}
LANGUAGE = {"Gujarati": "gu", "Hindi": "hi"}
TWO_WAY = {"whatsapp", "visit"}
FACT_KINDS = {"call_summary", "objection", "preference", "status", "quote"}
FACT_KINDS |= {"progress", "ticket", "milestone", "nps", "flag"}


def swap(text: str, pairs: list[tuple[str, str]]) -> str:
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def tag_of(person_id: str) -> str:
    return person_id.lower().replace("-", "")


def at(rng: random.Random, days: float) -> str:
    """A moment in office hours (India) about `days` before NOW."""
    day = (NOW - timedelta(days=days)).replace(hour=0, minute=0)
    return (day + timedelta(minutes=rng.randrange(4 * 60 + 30, 9 * 60))).strftime("%Y-%m-%dT%H:%M:%SZ")


def row(
    id_: str, text: str, tenant: str, scope: str, created_at: str, slots: list[Row], metadata: Row
) -> Row:
    out: Row = {"id": id_, "text": text, "tenant": tenant, "scope": scope, "created_at": created_at}
    if slots:
        out["slots"] = slots
    out["metadata"] = metadata
    return out


def lead_rows(person: Row, tenant: str, tag: str, notes: int, facts: bool = True) -> Iterator[Row]:
    rng = random.Random(f"{tenant}/{tag}")
    status, standing = STATUS[person["block"]]
    words = dict(person, objection=OBJECTIONS[person["block"]].format(**person))
    words |= {"status": status, "standing": standing.format(**person)}
    todo: list[tuple[float, str, str, str, str, list[Row]]] = []
    for kind, attribute, campaign, days, text, value in LEAD_FACTS if facts else []:
        slots = []
        if attribute and value:
            slots = [{"subject": person["lead_id"], "attribute": attribute, "value": value.format(**words)}]
        todo.append((days, campaign, kind, "crm", text.format(**words), slots))
    for kind, channel, text in rng.sample(LEAD_NOTES, notes):
        age = rng.uniform(2, 95)
        todo.append((age, "winter" if age > 40 else "spring", kind, channel, text.format(**words), []))
    for n, (age, campaign, kind, channel, text, slots) in enumerate(sorted(todo, key=lambda t: -t[0]), 1):
        metadata: Row = {"lead_id": person["lead_id"], "campaign": CAMPAIGN[campaign]}
        metadata |= {"kind": kind, "channel": channel}
        metadata["language"] = LANGUAGE.get(person["then"], "en") if kind == "note" else "en"
        if kind in {"note", "small_talk", "visit"} and channel in TWO_WAY:
            metadata["interaction"] = True
        scope = f"jkshah/ca-foundation/{CAMPAIGN[campaign]}"
        yield row(f"{GENERATED}{tag}-{n:02}", text, tenant, scope, at(rng, age), slots, metadata)


def learner_rows(person: Row, notes: int) -> Iterator[Row]:
    rng = random.Random(person["learner_id"])
    words = dict(person, less=person["done"] - 9)
    todo: list[tuple[float, str, str, str, str, list[Row]]] = []
    for kind, state, subject, attribute, days, text, value in LEARNER_FACTS:
        slots = [{"subject": subject.format(**words), "attribute": attribute, "value": value.format(**words)}]
        todo.append((days, kind, "crm", state, text.format(**words), slots))
    for kind, channel, state, text in rng.sample(LEARNER_NOTES, notes):
        todo.append((rng.uniform(2, 58), kind, channel, state, text.format(**words), []))
    tag = tag_of(person["learner_id"])
    for n, (age, kind, channel, state, text, slots) in enumerate(sorted(todo, key=lambda t: -t[0]), 1):
        metadata = {"learner_id": person["learner_id"], "course_id": person["course_id"], "kind": kind}
        metadata |= {"channel": channel, "state": state}
        scope = "unacademy/nps-feedback"
        yield row(f"{GENERATED}{tag}-{n:02}", text, "alchemy", scope, at(rng, age), slots, metadata)


def twins(hand: list[Row], tenant: str, tag: str, pairs: list[tuple[str, str]]) -> Iterator[Row]:
    """The facts of the hand-written records under another tenant: same person ids, a little later."""
    scopes = ("jkshah/ca-foundation", "unacademy/nps-feedback")
    chosen = [r for r in hand if r["scope"].startswith(scopes) and r["metadata"]["kind"] in FACT_KINDS]
    for n, r in enumerate((r for r in chosen if r["created_at"] > "2025-11-30"), 1):
        later = datetime.fromisoformat(r["created_at"]) + timedelta(hours=31, minutes=7 * n)
        moment = min(later, NOW - timedelta(minutes=n)).strftime("%Y-%m-%dT%H:%M:%SZ")
        slots = [{k: swap(v, pairs) for k, v in s.items()} for s in r.get("slots", [])]
        text = swap(r["text"], pairs)
        yield row(f"{GENERATED}{tag}-{n:02}", text, tenant, r["scope"], moment, slots, dict(r["metadata"]))


def renew(name: str, neighbours: list[Row], hand: list[Row]) -> None:
    lines = [json.dumps(r, ensure_ascii=False) for r in hand + neighbours]
    (DEMO / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{name}: {len(hand)} written by hand, {len(neighbours)} neighbours")


def by_hand(name: str) -> list[Row]:
    rows = [json.loads(line) for line in (DEMO / name).read_text(encoding="utf-8").splitlines()]
    return [r for r in rows if not r["id"].startswith(GENERATED)]


def main() -> None:
    calls = by_hand("calls.jsonl")
    leads = [r for p in LEADS for r in lead_rows(p, "alchemy", tag_of(p["lead_id"]), notes=10)]
    other = list(twins(calls, "brightpath", "bp-gj4521", LEAD_TWIN))
    other += lead_rows(TWIN, "brightpath", "bp-gj4521n", notes=14, facts=False)
    renew("calls.jsonl", leads + other, calls)

    nps = by_hand("nps.jsonl")
    learners = [r for p in LEARNERS for r in learner_rows(p, notes=4)]
    renew("nps.jsonl", learners + list(twins(nps, "brightpath", "bp-un20887", NPS_TWIN)), nps)


if __name__ == "__main__":
    main()
