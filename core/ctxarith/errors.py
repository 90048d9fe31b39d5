"""The error tree: one root, each leaf says what was wrong and what to do next.

CtxArithError
├── AlgebraError          an expression Python parsed in another way than it reads
├── ScopeError            a pipeline with an unguarded arm, or an invalid scope path
├── PredicateError        an unknown operator, a wrong operand, an unreadable filter
├── ArgumentError         a parameter outside its range
├── RecordError           a record that cannot be stored as it is
├── PrincipalRequired     a call that must say who is asking
├── BudgetError           a fixed part that is larger than the whole budget
├── EmbedderMismatch      a corpus written with another embedding model
├── EmbeddingError        the embedding model failed, or gave something else than vectors
├── EncodingUnavailable   a token encoding that cannot be loaded here
├── StoreError            the database failed; what was staged is named
├── CorpusClosed          a handle used after close()
├── Withheld              an evidence packet that may not be used as it is
└── MissingExtra          an optional dependency that is not installed
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence


class CtxArithError(Exception):
    """Root of every error that this library raises on purpose. Errors can be pickled and sent on."""

    def __reduce__(self) -> tuple[object, ...]:
        details = {name: _storable(value) for name, value in self.__dict__.items()}
        return _again, (type(self), self.args, details)


class AlgebraError(CtxArithError, TypeError):
    """An operator met something it does not combine with."""


class ScopeError(CtxArithError, ValueError):
    """A scope path is invalid, or an arm of a pipeline is not under one."""


class PredicateError(CtxArithError, ValueError):
    """A condition that cannot mean what it says; names the key and the operator."""


class ArgumentError(CtxArithError, ValueError):
    """A parameter outside its range; names the parameter and its value."""

    def __init__(self, name: str, value: object, rule: str) -> None:
        self.name = name
        self.value = value
        super().__init__(f"{name}={short(value)} is not allowed: {rule}")


class RecordError(CtxArithError, ValueError):
    """A record that cannot be stored; names the record, the field and the value."""

    def __init__(self, record_id: object, field: str, value: object, rule: str) -> None:
        self.record_id = record_id
        self.field = field
        self.value = value
        super().__init__(f"record {short(record_id)}, field {field!r}, value {short(value)}: {rule}")


class PrincipalRequired(CtxArithError, PermissionError):
    """The caller must be named: a policy is set or more than one tenant exists."""


class BudgetError(CtxArithError, ValueError):
    """The fixed part of a template needs more tokens than the whole budget."""

    def __init__(self, needed: int, available: int) -> None:
        self.needed = needed
        self.available = available
        super().__init__(
            f"the fixed part of the template needs {needed} tokens and the budget is {available}: "
            "raise tokens= or shorten the template"
        )


class EmbedderMismatch(CtxArithError, ValueError):
    """The corpus holds vectors of another embedding model."""

    def __init__(self, stored: str, given: str) -> None:
        self.stored = stored
        self.given = given
        super().__init__(
            f"this corpus was written with the embedder {stored} and was opened with {given}: "
            "open it with the first one, or go over to the other with Corpus.reembed(path, embedder=...)"
        )


class _Resumable(CtxArithError, RuntimeError):
    """Nothing of the batch is visible; what was `staged` needs no second embedding."""

    def __init__(self, message: str, *, staged: Sequence[str] = ()) -> None:
        self.staged = tuple(staged)
        named = ", ".join(self.staged[:10]) + (", ..." if len(self.staged) > 10 else "")
        tail = f"; staged and kept for a retry: {len(self.staged)} records ({named})" if staged else ""
        super().__init__(message + tail)


class EmbeddingError(_Resumable):
    """The embedding model failed, or gave something else than one finite vector for each text."""


class EncodingUnavailable(CtxArithError, LookupError):
    """A token encoding that is unknown or cannot be loaded without a download."""


class StoreError(_Resumable):
    """The store failed."""


class CorpusClosed(CtxArithError, RuntimeError):
    """The corpus was closed; open it again."""


class Withheld(CtxArithError, PermissionError):
    """An evidence packet, or an answer from it, that may not leave; `verdict` and `reasons` say why."""

    def __init__(self, verdict: str, reasons: Sequence[str], rule: str) -> None:
        self.verdict = verdict
        self.reasons = tuple(reasons)
        super().__init__(f"{verdict}: {'; '.join(self.reasons)}: {rule}")


class MissingExtra(CtxArithError, ImportError):
    """An optional dependency is missing; the message holds the pip line."""

    def __init__(self, *, what: str, package: str, extra: str) -> None:
        self.what = what
        self.package = package
        self.extra = extra
        super().__init__(f"{what} needs the package {package!r}: pip install 'ctxarith[{extra}]'")


def _again(kind: type[CtxArithError], args: tuple[object, ...], details: dict[str, object]) -> CtxArithError:
    error = kind.__new__(kind, *args)
    # Past our own constructors, which take other arguments, to the built-in one.
    super(CtxArithError, error).__init__(*args)
    error.__dict__.update(details)
    return error


def _storable(value: object) -> object:
    try:
        pickle.dumps(value)
    except Exception:
        return short(value)
    return value


def short(value: object, limit: int = 80) -> str:
    """A value as it is shown in a message."""
    text = repr(value)
    half = limit // 2 - 2
    # Cut in the middle: the end of a path or an id is what tells it from others.
    return text if len(text) <= limit else f"{text[:half]}...{text[-half:]}"
