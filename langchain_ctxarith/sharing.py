"""What the handles of one LangGraph store know together within a process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ctxarith.conversation import ConversationKey
from ctxarith.stores.lock import OneAtATime
from langchain_ctxarith.items import Namespace
from langchain_ctxarith.turns import Turns

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

ThreadName = tuple[Namespace, ConversationKey]


class Shared:
    """Everything here is used under `lock` only.

    Args:
        lock: for one call of the protocol as a whole.
        claims: who summarises which thread.
        turns: what was read of the threads that were used last.
        keys: the thread of a generation.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.claims: dict[ThreadName, OneAtATime] = {}
        self.turns: OrderedDict[ThreadName, Turns] = OrderedDict()
        self.keys: dict[tuple[Namespace, int], ConversationKey] = {}


_BY_STORE: WeakKeyDictionary[BaseStore, Shared] = WeakKeyDictionary()
_BY_STORE_LOCK = threading.Lock()


def shared_by(store: BaseStore) -> Shared:
    """What the handles of a store know; it is forgotten with the store."""
    with _BY_STORE_LOCK:
        return _BY_STORE.setdefault(store, Shared())
