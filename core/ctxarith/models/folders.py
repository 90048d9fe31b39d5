"""Models of sentence-transformers in folders: how they are loaded, and what they are remembered by."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ctxarith.errors import ArgumentError, MissingExtra

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.onnx")
# Of each file of weights its size, its beginning and its end are read: trained weights differ there too.
_PART = 1 << 20


def sentence_transformers(what: str) -> Any:
    """The library.

    Raises:
        MissingExtra: names what needs it.
    """
    try:
        import sentence_transformers
    except ImportError as error:
        package = extra = "sentence-transformers"
        raise MissingExtra(what=what, package=package, extra=extra) from error
    return sentence_transformers


def model_name(model: object) -> str:
    """What a model is remembered by: its hub name, or its folder's name and a fingerprint of its weights.

    Raises:
        ArgumentError: neither a name nor a folder with a model in it.
    """
    if not isinstance(model, str | Path) or not str(model).strip():
        raise ArgumentError("model", model, "a folder with a model, or the name of one on the hub")
    folder = Path(model)
    if not folder.is_dir():
        # A path that is not there must not become a question to the network.
        if isinstance(model, Path) or folder.is_absolute() or str(model).startswith((".", "~")):
            raise ArgumentError("model", str(model), "no such folder")
        return str(model)
    if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        raise ArgumentError("model", str(model), "the folder has neither config.json nor modules.json")
    return f"{folder.resolve().name}@{_fingerprint(folder)}"


def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted({found for pattern in _WEIGHTS for found in folder.rglob(pattern)}):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()} {size} ".encode())
        with path.open("rb") as file:
            digest.update(file.read(_PART))
            file.seek(max(size - _PART, 0))
            digest.update(file.read(_PART))
    return digest.hexdigest()[:12]
