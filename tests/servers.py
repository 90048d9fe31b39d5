"""Real servers for tests, on the loopback of this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import chromadb
import httpx
from chromadb.api import ClientAPI
from chromadb.config import Settings

_PATIENCE = 60.0
_NAMES = count()


class ChromaProcess:
    """`chroma run` over a folder; it can be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers."""
        program = Path(sys.executable).with_name("chroma")
        log = (self.folder / "server.log").open("ab")
        self._process = subprocess.Popen(
            [program, "run", "--path", self.folder / "data", "--host", "127.0.0.1", "--port", str(self.port)],
            stdout=log,
            stderr=log,
        )
        log.close()
        until(self._answers)

    def kill(self) -> None:
        """End it at once, as a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def client(self) -> ClientAPI:
        """A new client of it."""
        quiet = Settings(anonymized_telemetry=False)
        return chromadb.HttpClient(host="127.0.0.1", port=self.port, settings=quiet)

    def collection(self, **options: Any) -> Any:
        """A new and empty collection, as another tool makes it."""
        return self.client().create_collection(self.new_name(), embedding_function=None, **options)

    @staticmethod
    def new_name() -> str:
        """A collection's name that no test has used."""
        return f"collection-{next(_NAMES)}"

    def _answers(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/api/v2/heartbeat", timeout=5).is_success
        except httpx.TransportError:
            return False


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def until(reached: Callable[[], bool]) -> None:
    """Look until it is so; a server that never answers fails the test."""
    begin = time.monotonic()
    while not reached():
        if time.monotonic() - begin > _PATIENCE:
            raise TimeoutError("the server does not answer")
        time.sleep(0.02)
