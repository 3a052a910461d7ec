"""JSON Merge Patch (RFC 7396). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from hostler.errors import InputError

__all__ = ["apply_edit", "apply_patch", "merge_patch"]

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


def merge_patch(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with a patch applied: null removes, objects are merged, any other value replaces."""
    result = dict(old)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            before = result.get(key)
            result[key] = merge_patch(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def apply_patch(place: str, old: Mapping[str, Any], patch: Mapping[str, Any], kind: type[T]) -> T:
    """Return a struct with a patch applied; InputError if the result is not valid."""
    try:
        return msgspec.convert(merge_patch(old, patch), type=kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{place}: {error}", hint="correct that field, or leave it out") from error


def apply_edit(old: S, edit: msgspec.Struct) -> S:
    """Return a struct with the given fields of an edit."""
    wanted = {name: getattr(edit, name) for name in edit.__struct_fields__}
    return msgspec.structs.replace(old, **{name: value for name, value in wanted.items() if value is not UNSET})
