"""A LangGraph `BaseStore` as the place where conversations live."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ctxarith.conversation import SYSTEM, USER, ConversationKey, Message, Summary
from ctxarith.durable import Conversations, Head, Lock
from ctxarith.errors import ArgumentError
from ctxarith.stores.lock import OneAtATime
from ctxarith.transcript import message_as_json, summary_as_json, summary_from_json
from langchain_ctxarith.items import Items, Namespace, label
from langchain_ctxarith.sharing import shared_by
from langchain_ctxarith.turns import Turns, claimed, turn_name

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

ROOT = ("ctxarith",)
_STATE, _TURNS = "state", "turns"
_CLEARED, _SUMMARY = "cleared", "summary"
_TURN, _LAST = "turn", "last"
# So many turns lie under one namespace, so that following a thread reads its end only.
_BLOCK = 64
# Another process may be so many turns late and is still heard at once.
_LATE = 16
_MOST_THREADS = 256

State = Mapping[str, Mapping[str, Any]]


class StoreConversations:
    """The conversations of a LangGraph store, for `RollingMemory(store=...)`.

    A store has neither transactions nor a conditional write. So every turn and every summary is an item of
    its own under a name that nobody else gives, and nothing is ever written over.

    Within one process, over any number of threads and handles of one store, it is as strict as a folder:
    turns are numbered in order, one summary is made at a time, an id is appended once. Several processes lose
    no turn either. What they append one after the other is in order. Where two append at the same
    moment, both turns are kept, in an order that all agree on, and open handles read the thread anew; an id
    that both append is there twice. Both may summarise, and the summary that covers more stands; one that
    does not cover exactly the turns before its last is made anew. What is appended while another process
    clears the thread may be cleared with it.

    Items never expire and are not embedded by the store. `clear` deletes every item of the thread but
    a mark without text; whether that leaves traces in files is the store's affair. Its methods block: in an
    event loop they belong into a worker thread.

    Args:
        store: `InMemoryStore`, `PostgresStore` or any other that reads what it has written.
        root: the namespace above all of this.

    Raises:
        ArgumentError: it is no such store, or `root` is no namespace.
        StoreError: when used: the store failed.

    >>> from langgraph.store.memory import InMemoryStore
    >>> conversations = StoreConversations(InMemoryStore())
    >>> conversations.append(ConversationKey("t1", "acme.com"), Message("user", "hello")).number
    1
    """

    def __init__(self, store: BaseStore, *, root: Sequence[str] = ROOT) -> None:
        labels = (root,) if isinstance(root, str) else tuple(root)
        if not labels or not all(isinstance(one, str) and one and "." not in one for one in labels):
            raise ArgumentError("root", root, 'labels that are neither empty nor hold a "."')
        self._items = Items(store)
        self._root = labels
        self._shared = shared_by(store)

    def head(self, key: ConversationKey) -> Head:
        """Where a thread stands."""
        with self._shared.lock:
            turns, state = self._read(key)
            return Head(turns.generation, len(turns), _summary(turns, state).covers) if turns else Head()

    def append(self, key: ConversationKey, message: Message) -> Message:
        """Add a message at the end; one whose id is there already is not added again."""
        with self._shared.lock:
            turns, _ = self._read(key)
            known = turns.with_id(message.id)
            if known is not None:
                return known
            number = turns.next_claim
            name, text = turn_name(number, uuid.uuid4().hex), message_as_json(message)
            self._items.put(self._block(key, turns.era, number), name, {_TURN: text})
            return self._known(key, turns.joined({name: text})).named(name)

    def since(self, generation: int, number: int) -> list[Message]:
        """The turns after a number, oldest first."""
        with self._shared.lock:
            return self._messages(generation)[number:]

    def pinned(self, generation: int, upto: int) -> list[Message]:
        """The system messages, and the last message of the user, among the turns 1 to `upto`."""
        with self._shared.lock:
            those = self._messages(generation)[:upto]
        asked = [message.number for message in those if message.role == USER][-1:]
        return [message for message in those if message.role == SYSTEM or message.number in asked]

    def turn(self, generation: int, number: int) -> Message | None:
        """One turn by its number; `None` where there is none."""
        with self._shared.lock:
            messages = self._messages(generation)
            return messages[number - 1] if 0 < number <= len(messages) else None

    def summary(self, generation: int) -> Summary:
        """The summary of a thread; an empty one that covers nothing at first."""
        with self._shared.lock:
            key = self._shared.keys.get((self._root, generation))
            if key is None:
                return Summary()
            turns, state = self._read(key)
            return _summary(turns, state) if turns.generation == generation else Summary()

    def replace(self, generation: int, summary: Summary, *, covered: int) -> bool:
        """Put a summary in the place of the one that covers `covered` turns; never backwards."""
        with self._shared.lock:
            key = self._shared.keys.get((self._root, generation))
            if key is None:
                return False
            turns, state = self._read(key)
            now = _summary(turns, state).covers
            if turns.generation != generation or now != covered or not now < summary.covers <= len(turns):
                return False
            name = f"{_SUMMARY}-{summary.covers:010d}-{uuid.uuid4().hex}"
            value = {_SUMMARY: summary_as_json(summary), _LAST: turns.names[summary.covers - 1]}
            place = self._state(key)
            self._items.put(place, name, value)
            for old in state:
                if old.startswith(_SUMMARY):
                    self._items.delete(place, old)
            return True

    def clear(self, key: ConversationKey) -> None:
        """Delete a thread."""
        with self._shared.lock:
            state = self._items.under(self._state(key))
            marks = [name for _, name in state if name.startswith(_CLEARED)]
            count = 1 + max((int(name.split("-")[1]) for name in marks), default=0)
            # From here on the old turns are nobody's; what follows takes them away.
            self._items.put(
                self._state(key), f"{_CLEARED}-{count:010d}-{uuid.uuid4().hex}", {"cleared": True}
            )
            self._shared.turns.pop((self._root, key), None)
            for place, name in (*self._items.under((*self._thread(key), _TURNS)), *state):
                self._items.delete(place, name)

    def claim(self, key: ConversationKey) -> Lock:
        """What keeps every other handle in this process from summarising this thread."""
        with self._shared.lock:
            return self._shared.claims.setdefault((self._root, key), OneAtATime())

    def close(self) -> None:
        """Does nothing: the store is its owner's to close."""

    def _read(self, key: ConversationKey) -> tuple[Turns, State]:
        """The thread as it is now; what is known of it already is not read again."""
        state = {name: value for (_, name), value in self._items.under(self._state(key)).items()}
        era = max((name for name in state if name.startswith(_CLEARED)), default="")
        known = self._shared.turns.get((self._root, key))
        if known is None or known.era != era:
            known = Turns("\0".join(self._thread(key)), era)
            return self._known(
                key, known.joined(self._found((*self._thread(key), _TURNS, label(era))))
            ), state
        place = max(0, known.next_claim - _LATE)
        while place <= known.next_claim:
            known = known.joined(self._found(self._block(key, era, place)))
            place += _BLOCK - place % _BLOCK
        return self._known(key, known), state

    def _found(self, namespace: Namespace) -> dict[str, str]:
        return {name: value[_TURN] for (_, name), value in self._items.under(namespace).items()}

    def _known(self, key: ConversationKey, turns: Turns) -> Turns:
        shared = self._shared
        shared.turns[self._root, key] = turns
        shared.turns.move_to_end((self._root, key))
        shared.keys[self._root, turns.generation] = key
        while len(shared.turns) > _MOST_THREADS:
            shared.turns.popitem(last=False)
        return turns

    def _messages(self, generation: int) -> list[Message]:
        key = self._shared.keys.get((self._root, generation))
        if key is None:
            return []
        known = self._shared.turns.get((self._root, key)) or self._read(key)[0]
        return known.messages if known.generation == generation else []

    def _thread(self, key: ConversationKey) -> Namespace:
        # No user is another label than any user's.
        user = "nobody" if key.user is None else label(key.user)
        return (*self._root, label(key.tenant), user, label(key.thread))

    def _state(self, key: ConversationKey) -> Namespace:
        return (*self._thread(key), _STATE)

    def _block(self, key: ConversationKey, era: str, number: int) -> Namespace:
        return (*self._thread(key), _TURNS, label(era), label(str(number // _BLOCK)))


def conversations_of(store: BaseStore | Conversations | None) -> Conversations | None:
    """Whatever conversations can live in: a LangGraph store is wrapped, anything else is as it was given."""
    if store is None or callable(getattr(store, "head", None)):
        return store  # type: ignore[return-value]
    return StoreConversations(store)  # type: ignore[arg-type]


def _summary(turns: Turns, state: State) -> Summary:
    """The summary that covers most of those that cover exactly the turns before their last one."""
    for name in sorted((name for name in state if name.startswith(_SUMMARY)), reverse=True):
        covers = claimed(name.partition("-")[2])
        if covers <= len(turns) and turns.names[covers - 1] == state[name][_LAST]:
            return summary_from_json(state[name][_SUMMARY])
    return Summary()
