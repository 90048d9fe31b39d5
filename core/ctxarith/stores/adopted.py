"""A Chroma collection that others made, as a store: read as it is, nothing is embedded again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ctxarith.errors import ArgumentError, CtxArithError, RecordError, StoreError
from ctxarith.flat import BESIDE, read_json, restore
from ctxarith.model import Record
from ctxarith.ports import Row, RowKey
from ctxarith.predicate import And, Compare, Predicate
from ctxarith.stores.collection import ChromaCollection, Kept, Raw, named, once_each
from ctxarith.stores.foreign import Fields, Reading, names_a_tenant, unit_vector
from ctxarith.stores.places import Places

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

LeftOut = tuple[str, str]

_BESIDE = "ctx_beside"
_ADVICE = "the adopted Chroma collection failed, see that its folder or server is well and try again"


class Adopted:
    """Rows of a collection made by LangChain, by LlamaIndex or by hand; embedded or on a server.

    Their rows are read by these rules, and adopting changes nothing of theirs:

    * `fields` maps our fields to their metadata keys: `{"tenant": "customer", "created_at": "date"}`. A
      function from their metadata to the value may stand for a key, but not for the tenant, scope or
      audience of an owned collection: a row that we write carries those keys of theirs as well.
    * A key of theirs that is called like a field of ours maps by itself, `id` excepted. `None` switches
      that off, and the key stays out.
    * `id` is their Chroma id unless mapped. `source_id` is `ref_doc_id`, `doc_id` or `document_id`, as
      LlamaIndex writes them, unless mapped (LangChain's loaders write `source`).
    * `slots` is a list of keys, or a mapping from attributes to keys; `subject` names the key of their
      subject ("lead_id"). A row without it asserts nothing.
    * All their keys stay metadata under their own names, LlamaIndex's `_node_content` and `_node_type`
      excepted. Keys that no record can hold stay out and are named in `keys_left_out`.
    * A row that names no tenant is left out, where `fields` maps the tenant or any row has a key
      `tenant`. Where there is none at all, the whole collection is the default tenant's.
    * A missing scope is the root, a missing date is none. A value that cannot be read as what it is
      mapped to leaves the row out: nobody sees it. So do a missing document, a missing vector and a key
      (tenant, id, version) that stands twice.
    * Vectors of any space become unit vectors, compared by cosine.

    Args:
        collection: of any Chroma client, which stays the caller's to close.
        fields: see above.
        mode: `owned`: from now on only this library writes it, in its own flat schema; a row of theirs is
            replaced under its Chroma id. `followed`: others go on writing it, and we only read.
        prepare: what ingest does with a record, `Preparation(...).prepare`: settles times, adds slots
            by rule, counts and hash.

    Raises:
        ArgumentError: a field that cannot be mapped, or an unknown mode.
        StoreError: Chroma fails; vectors differ in length; a write to a followed collection.
    """

    name = "Chroma"

    def __init__(
        self,
        collection: Collection,
        *,
        fields: Fields | None = None,
        mode: Literal["owned", "followed"] = "owned",
        prepare: Callable[[Record], Record],
    ) -> None:
        if mode not in ("owned", "followed"):
            raise ArgumentError("mode", mode, "'owned' or 'followed'")
        self.identity = f"the adopted Chroma collection {named(collection)}"
        self._collection = ChromaCollection(collection, advice=_ADVICE)
        self._fields = Reading.of(fields)
        self.reading = f"{mode}: {sorted((name, repr(key)) for name, key in (fields or {}).items())}"
        self._tenant_is_open = fields is None or "tenant" not in fields
        self._owned = mode == "owned"
        if self._owned:
            self._fields.check_writable()
        self._prepare = prepare
        self._reading: Reading | None = None
        self.left_out: list[LeftOut] = []
        self.keys_left_out: tuple[str, ...] = ()

    def rows(self) -> Iterator[Row]:
        """Every row that can be read; then `left_out` holds the Chroma id and reason of the rest."""
        self.left_out = []
        refused: set[str] = set()
        self._reading = self._looked_at()
        yield from self._read(self._collection.ids(), self.left_out, refused)
        self.keys_left_out = tuple(sorted(refused))

    def select(self, predicate: Predicate) -> Iterator[Row]:
        """The rows whose record matches, by evaluation in Python: their keys are not our fields."""
        rid = _one_id(predicate)
        near = self._collection.ids() if rid is None else [rid, *self._places().named([rid])]
        found = self._read(list(dict.fromkeys(near)), [], set())
        return (row for row in found if predicate.matches(row.record))

    def can(self, predicate: Predicate) -> bool:
        """Nothing: their keys are not ours."""
        return False

    def count(self) -> int:
        """The number of rows in the collection, those that are left out among them."""
        return self._collection.count()

    def write(self, rows: Sequence[Row]) -> None:
        """Insert or replace, each row whole; a row of theirs is replaced under its own Chroma id."""
        self._must_own()
        once = once_each(rows)
        beside = {row.key: self._beside(row.record) for row in once}
        places = self._places().of([row.key for row in once], new=True)
        self._collection.put(Kept(places[row.key][0], row, beside[row.key]) for row in once)
        # Of two rows of theirs that named one key, the other one would come back some day.
        self._collection.erase(name for row in once for name in places[row.key][1:])

    def remove(self, keys: Sequence[RowKey]) -> None:
        """Remove those of the keys that are there."""
        self._must_own()
        places = self._places().of(keys, new=False)
        self._collection.erase(name for names in places.values() for name in names)

    def _places(self) -> Places:
        return Places(self._collection, self._record, self._fields.sources.get("id"))

    def scrub(self) -> None:
        """Warn: what Chroma keeps of deleted rows lies in files that the caller's client holds."""
        warnings.warn(
            "the rows are deleted, and traces may stay in the files of the adopted Chroma collection: "
            "close every client of it and run `chroma vacuum --path ...`",
            stacklevel=2,
        )

    def close(self) -> None:
        """Nothing: the client stays the caller's."""

    def _must_own(self) -> None:
        if not self._owned:
            raise StoreError(
                "this Chroma collection is followed, others write it: write through its own library, then "
                "call sync(); or adopt it as 'owned'"
            )

    def _beside(self, record: Record) -> dict[str, Any]:
        """The id to find a row by, and their keys that say who may see it: without these it is not ours."""
        guards = self._how().guards(record)
        row = Raw(record.id, "", {**record.metadata, **guards}, None)
        if reason := self._how().disagreement(row, record):
            raise StoreError(f"the record {record.id!r} is not written, {reason}: give both one value")
        found_by = {**guards, "id": record.id}
        return {**found_by, _BESIDE: json.dumps(list(found_by))}

    def _looked_at(self) -> Reading:
        """The fields as given; without the tenant where nobody speaks of one."""
        if not self._tenant_is_open:
            return self._fields
        found = self._collection.pages(self._collection.ids(), vectors=False)
        named = names_a_tenant(raw for raw in found if not self._is_ours(raw))
        return self._fields if named else self._fields.without_tenant()

    def _how(self) -> Reading:
        if self._reading is None:
            self._reading = self._looked_at()
        return self._reading

    def _is_ours(self, raw: Raw) -> bool:
        return self._owned and BESIDE in raw.metadata

    def _read(self, ids: Sequence[str], left_out: list[LeftOut], refused: set[str]) -> Iterator[Row]:
        seen: dict[RowKey, str] = {}
        length: int | None = None
        for raw in self._collection.pages(ids):
            try:
                row = self._row(raw)
            except RecordError as error:
                left_out.append((raw.name, str(error)))
                continue
            if (other := seen.setdefault(row.key, raw.name)) != raw.name:
                left_out.append((raw.name, f"the same tenant, id and version as the row {other!r}"))
                continue
            length = length or len(row.vector)
            if len(row.vector) != length:
                raise StoreError(
                    f"the adopted collection holds vectors of {length} and of {len(row.vector)} numbers: "
                    "embed its rows with one model"
                )
            if not self._is_ours(raw):
                refused.update(self._how().kept_metadata(raw)[1])
            yield row

    def _row(self, raw: Raw) -> Row:
        record, revision = self._record(raw)
        if raw.vector is None:
            raise RecordError(raw.name, "embedding", None, "the row has no vector")
        return Row(record, raw.vector if self._is_ours(raw) else unit_vector(raw.name, raw.vector), revision)

    def _record(self, raw: Raw) -> tuple[Record, int]:
        if not self._is_ours(raw):
            return self._prepare(self._how().record(raw)), 0
        try:
            beside = read_json(raw.metadata.get(_BESIDE, "[]"))
            own = {key: value for key, value in raw.metadata.items() if key not in beside}
            record, revision = restore(own, raw.text or "")
        except (CtxArithError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecordError(
                raw.name, BESIDE, None, f"looks like ours and cannot be read: {error}"
            ) from error
        if reason := self._how().disagreement(raw, record):
            raise RecordError(raw.name, "tenant", record.tenant, reason)
        return record, revision


def _one_id(predicate: Predicate) -> str | None:
    """The id that every matching record has, if the condition names one."""
    match predicate:
        case Compare("id", "eq", str(value)):
            return value
        case And(parts):
            return next(filter(None, map(_one_id, parts)), None)
    return None
