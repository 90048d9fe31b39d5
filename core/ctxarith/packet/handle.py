"""The packet itself: checked before each use, refreshed by retrieving anew, never patched."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from ctxarith.confidence import Verdict
from ctxarith.errors import ArgumentError, CorpusClosed, Withheld
from ctxarith.instant import TimeLike, instant
from ctxarith.normalise import clean_text
from ctxarith.packet.assembling import Assembled, assembled
from ctxarith.packet.borrowed import Source
from ctxarith.packet.citations import Citations, cited, mark_of, named_members
from ctxarith.packet.contract import contract
from ctxarith.packet.following import Following
from ctxarith.packet.guard import Guard
from ctxarith.packet.keeping import Shelf, shelved
from ctxarith.packet.manifest import MEMBERS, SCOPE_VERSION, Kept, Manifest, Note
from ctxarith.packet.revalidate import Check
from ctxarith.packet.rights import owner_of
from ctxarith.packet.verdict import DENY, REFRESH, Reason, Revalidation, judged
from ctxarith.packet.view import PacketView, view_of
from ctxarith.policy import Principal
from ctxarith.run import Result

NOTES, NOTE_CHARACTERS = 64, 2_000


class Packet:
    """Temporary working memory for one task of one caller. Made by `Corpus.packet`.

    Everything that hands out text looks first whether the packet may still be used, and raises
    `Withheld` if not; what is stale is let go, so that no later call can show it. Left out, `principal`
    is the one for whom the packet was made.
    """

    def __init__(self, made: Assembled, principal: Principal | None, source: Source, shelf: Shelf) -> None:
        self._made = made
        self._kept = made.kept
        self._source = source
        self._shelf = shelf
        self._anonymous = principal is None
        self._owner = source.gate.caller(principal)
        self._lost: Revalidation | None = None
        self._thread = Following(made, source)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        state = "" if self._lost is None else f", {self._lost.verdict}"
        return f"Packet({self.manifest.packet_id!r}, {len(self.manifest.members)} members{state})"

    @property
    def manifest(self) -> Manifest:
        """What the packet says of itself."""
        return self._kept.manifest

    @property
    def stored(self) -> Kept:
        """What is stored of it: no text of a record."""
        return self._kept

    @property
    def notes(self) -> tuple[Note, ...]:
        """What has been compared so far."""
        return self._kept.notes

    def revalidate(
        self, principal: Principal | None = None, now: TimeLike | None = None, *, task: str | None = None
    ) -> Revalidation:
        """The verdict on reuse by this caller now: deny > unverified > refresh_required > reuse.

        At the present moment a verdict has its effect: text that its owner is denied, or that is stale, is
        let go for good. `view` only looks.

        Args:
            principal: who wants to use it, with today's grants.
            now: the moment; the corpus's clock by default.
            task: what for; refused if it is another task than the packet's.
        """
        moment = self._moment(now)
        caller = self._caller(principal)
        if task is not None and task != self._made.request.task:
            return judged([Reason(DENY, SCOPE_VERSION, "the packet belongs to another task")])
        with self._lock:
            found = self._check().verdict(caller, moment)
            if owner_of(caller) != self._kept.owner:
                return found
            if self._lost is not None:
                # What was let go stays so, and something graver may have come.
                found = judged([*self._lost.reasons, *found.reasons])
                self._lost = found if found.verdict == DENY and now is None else self._lost
                return found
            if found.verdict in (DENY, REFRESH) and now is None:
                self._discard(found)
            return found

    def view(self, principal: Principal | None = None, now: TimeLike | None = None) -> PacketView:
        """Members with their versions, verdict, age and all that has changed; looking changes nothing."""
        moment, caller = self._moment(now), self._caller(principal)
        with self._lock:
            found = self._check(whole=True).verdict(caller, moment)
            if self._lost is not None and owner_of(caller) == self._kept.owner:
                found = judged([*self._lost.reasons, *found.reasons])
            return view_of(self._kept, self._made.request, found, moment)

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()

    def render(self, principal: Principal | None = None) -> str:
        """The page: the same packet gives the same bytes.

        Raises:
            Withheld: the packet may not be used as it is.
        """
        with self._lock:
            self.revalidate(principal).check()
            return self._made.leaf.text

    def prompt(self, question: str, principal: Principal | None = None) -> str:
        """The page, then the notes, then a question: what stands first stays the same from turn to turn."""
        with self._lock:
            noted = [f"- {one.text}{''.join(f' [{mark}]' for mark in one.cites)}" for one in self.notes]
            return "\n".join([self.render(principal), *(["Notes:", *noted] if noted else []), question])

    def release(self, answer: str, principal: Principal | None = None) -> str:
        """The answer, if the packet that it came from may still be used at this moment.

        Raises:
            Withheld: it may not; the answer must not leave.
        """
        self.revalidate(principal).check()
        return answer

    def guard(self, principal: Principal | None = None, *, refresh: bool = False) -> Guard:
        """Around a model call: `with packet.guard(me) as g: answer = model(g.text); g.release(answer)`.

        Args:
            principal: who asks, with today's grants.
            refresh: retrieve anew on the way in if that is required, instead of refusing.
        """
        return Guard(self, principal, refresh=refresh)

    def refresh(self, principal: Principal | None = None) -> Packet:
        """A new packet for the same request: retrieval runs again, nothing is patched, notes are gone.

        Raises:
            Withheld: the packet is another's, or the source cannot be reached.
        """
        caller = self._caller(principal)
        if owner_of(caller) != self._kept.owner:
            self.revalidate(caller).check()
        why = self._source.unavailable()
        if why:
            self.revalidate(caller).check()
            raise Withheld("unverified", [why], "current facts are withheld")
        made = assembled(self._made.request, caller, self._source)
        self._discard(judged([Reason(REFRESH, MEMBERS, "the packet was refreshed: use the new one")]))
        fresh = Packet(made, None if self._anonymous else caller, self._source, self._shelf)
        fresh.keep()
        return fresh

    def keep(self) -> None:
        """Put the packet on the shelf, where it is found by its number until it expires."""
        if self._made.request.restorable:
            shelved(self._shelf, self._kept, self._source.gate.now())

    def discard(self) -> None:
        """Let go of the packet and its notes; the task is done."""
        self._discard(judged([Reason(REFRESH, MEMBERS, "the packet was discarded")]))

    def note(self, text: str, cites: int | str | Iterable[int | str] = ()) -> None:
        """Keep what has been compared so far; it dies with the packet.

        Args:
            text: one finding.
            cites: the marks, sources or record ids that it rests on.

        Raises:
            ArgumentError: names no member, or there are too many notes.
            Withheld: the packet may not be used any more.
        """
        if not isinstance(text, str) or not text.strip() or len(text) > NOTE_CHARACTERS:
            raise ArgumentError("text", text, f"a note of 1 to {NOTE_CHARACTERS} characters")
        named = [cites] if isinstance(cites, int | str) else list(cites)
        marks = tuple(dict.fromkeys(mark_of(one, self._kept) for one in named))
        with self._lock:
            self.revalidate().check()
            if len(self.notes) >= NOTES:
                raise ArgumentError("notes", len(self.notes), f"a packet keeps at most {NOTES} notes")
            clean = " ".join(clean_text(None, "text", text).split())
            self._kept = replace(self._kept, notes=(*self.notes, Note(clean, marks)))
            self.keep()

    def verify_citations(self, answer: str) -> Citations:
        """Whether every mark of an answer names a member at its version, and which sentences have none."""
        if not isinstance(answer, str):
            raise ArgumentError("answer", answer, "text")
        return cited(answer, named_members(self._kept))

    def covers(self, question: str, principal: Principal | None = None) -> Verdict:
        """Whether the packet's sources are enough for a question, by the gate of sessions."""
        self.revalidate(principal).check()
        return self._thread.covers(question, self._caller(principal))

    def follow_up(self, question: str, principal: Principal | None = None) -> Result:
        """Evidence for a further question: from the packet's sources if they cover it, else from the corpus.

        So what the first retrieval missed does not blind the whole case. `Result.trace.stage` says which.
        """
        self.revalidate(principal).check()
        return self._thread.ask(question, self._caller(principal))

    def contract(self) -> str:
        """Which pipeline chose the members, the structure, the lifetime, and what forces a refresh."""
        return contract(self.manifest, self._made.request)

    def _check(self, *, whole: bool = False) -> Check:
        known = [hit.record for hit in self._made.leaf.hits]
        return Check(self._kept, self._made.request, known, self._source, whole)

    def _discard(self, found: Revalidation) -> None:
        with self._lock:
            self._lost = found
            leaf = replace(self._made.leaf, hits=(), text="")
            self._made = replace(self._made, leaf=leaf, result=None)
            self._kept = replace(self._kept, notes=())
            self._shelf.remove(self.manifest.packet_id)

    def _caller(self, principal: Principal | None) -> Principal:
        if principal is None and not self._anonymous:
            return self._owner
        try:
            return self._source.gate.caller(principal)
        except CorpusClosed:
            return self._owner

    def _moment(self, now: TimeLike | None) -> datetime:
        try:
            return self._source.gate.now() if now is None else instant(now)
        except ValueError as error:
            raise ArgumentError("now", now, str(error)) from error
