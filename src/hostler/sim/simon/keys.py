"""Files of other tools to structs: values are checked strictly; an unknown key is a warning, not an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar, get_args

import msgspec

from hostler.config import Document, convert, describe_path, did_you_mean, quote, read_documents
from hostler.config.key_paths import Path
from hostler.errors import InputError

__all__ = ["SimonStruct", "WarningSink", "only_document", "read_struct"]

WarningSink: TypeAlias = Callable[[str], None]  # takes one line about what of a file does not count
T = TypeVar("T", bound=msgspec.Struct)


class SimonStruct(msgspec.Struct, frozen=True, rename="camel"):
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


def read_struct(document: Document, data: object, into: type[T], warn: WarningSink, path: Path = ()) -> T:
    """Convert plain values and warn of every unknown key; an empty value counts as a missing one."""
    _warn_of_unknown_keys(document, data, into, path, warn)
    return convert(document, _without_empty(data), into, path)


def _warn_of_unknown_keys(document: Document, data: object, into: object, path: Path, warn: WarningSink) -> None:
    if isinstance(data, list):
        for at, item in enumerate(data):
            for inner in get_args(into):
                _warn_of_unknown_keys(document, item, inner, (*path, at), warn)
        return
    if not (isinstance(data, Mapping) and isinstance(into, type) and issubclass(into, msgspec.Struct)):
        return
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(into)}
    for key, value in data.items():
        if key in fields:
            _warn_of_unknown_keys(document, value, fields[key], (*path, key), warn)
            continue
        place = f"in {describe_path(path)}" if path else "at the top level"
        warn(f"{document.where((*path, key))}: unknown key {quote(key)} {place} does not count; "
             f"{did_you_mean(key, fields)}")  # fmt: skip


def _without_empty(data: object) -> object:
    if isinstance(data, dict):
        return {key: _without_empty(value) for key, value in data.items() if value is not None}
    return [_without_empty(item) for item in data] if isinstance(data, list) else data
