"""Files of other tools to structs: values are checked strictly, and keys that nobody reads are told, not refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, get_args

import msgspec

from hostler.config import Document, convert, describe, did_you_mean, quote, read_documents
from hostler.config.wording import Path
from hostler.errors import InputError

__all__ = ["Part", "Tell", "only_document", "read_struct"]

Tell = Callable[[str], None]
T = TypeVar("T", bound=msgspec.Struct)


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all structs that are read: camelCase names."""


def only_document(file: str, version: str, kind: str) -> tuple[Document, Mapping[str, object]]:
    """Read a file of one document, which must be of this version and kind."""
    documents = read_documents([file])
    data = documents[0].data
    hint = f"it begins with 'apiVersion: {version}' and 'kind: {kind}'"
    if len(documents) != 1 or not isinstance(data, dict):
        raise InputError(f"{file}: this is not one document of kind {kind}", hint=hint)
    for key, wanted in (("apiVersion", version), ("kind", kind)):
        if data.get(key) != wanted:
            raise InputError(f"{documents[0].where((key,))}: {key} is {quote(str(data.get(key)))}", hint=hint)
    return documents[0], data


def read_struct(document: Document, data: object, into: type[T], tell: Tell, path: Path = ()) -> T:
    """Convert plain values, with a word about every key that is not known; an empty value counts as a missing one."""
    _tell_unknown(document, data, into, path, tell)
    return convert(document, _without_empty(data), into, path)


def _tell_unknown(document: Document, data: object, into: object, path: Path, tell: Tell) -> None:
    if isinstance(data, list):
        for at, item in enumerate(data):
            for inner in get_args(into):
                _tell_unknown(document, item, inner, (*path, at), tell)
        return
    if not (isinstance(data, Mapping) and isinstance(into, type) and issubclass(into, msgspec.Struct)):
        return
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(into)}
    for key, value in data.items():
        if key in fields:
            _tell_unknown(document, value, fields[key], (*path, key), tell)
            continue
        place = f"in {describe(path)}" if path else "at the top level"
        tell(f"{document.where((*path, key))}: unknown key {quote(key)} {place} does not count; "
             f"{did_you_mean(key, fields)}")  # fmt: skip


def _without_empty(data: object) -> object:
    if isinstance(data, dict):
        return {key: _without_empty(value) for key, value in data.items() if value is not None}
    return [_without_empty(item) for item in data] if isinstance(data, list) else data
