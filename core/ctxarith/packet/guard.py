"""A packet around a model call: looked at on the way in, and again before the answer leaves."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from ctxarith.packet.verdict import REFRESH, Revalidation
from ctxarith.policy import Principal


class Guarded(Protocol):
    """What a guard asks of a packet."""

    def revalidate(self, principal: Principal | None = None) -> Revalidation:
        """The verdict on reuse."""
        ...

    def refresh(self, principal: Principal | None = None) -> Guarded:
        """A new packet for the same request."""
        ...

    def render(self, principal: Principal | None = None) -> str:
        """The page."""
        ...

    def release(self, answer: str, principal: Principal | None = None) -> str:
        """The answer, if it may leave."""
        ...


class Guard:
    """A packet in use: checked on the way in, and again before the answer leaves."""

    def __init__(self, packet: Guarded, principal: Principal | None, *, refresh: bool) -> None:
        self.packet = packet
        self._principal = principal
        self._refresh = refresh

    def __enter__(self) -> Self:
        found = self.packet.revalidate(self._principal)
        if self._refresh and found.verdict == REFRESH:
            self.packet = self.packet.refresh(self._principal)
            found = self.packet.revalidate(self._principal)
        found.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held; what was not released has not left."""

    @property
    def text(self) -> str:
        """The page for the prompt."""
        return self.packet.render(self._principal)

    def release(self, answer: str) -> str:
        """The answer, if the packet may still be used now.

        Raises:
            Withheld: it may not.
        """
        return self.packet.release(answer, self._principal)
