"""Partial changes of JSON objects, by the rules of JSON Merge Patch (RFC 7396). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from hostler.errors import InputError

__all__ = ["changed", "merge", "merged"]

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


def merge(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with a patch applied: null removes, objects merge, everything else replaces."""
    result = dict(old)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            before = result.get(key)
            result[key] = merge(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def merged(place: str, old: Mapping[str, Any], patch: Mapping[str, Any], kind: type[T]) -> T:
    """Return what a patch makes of something; InputError where that is no such thing."""
    try:
        return msgspec.convert(merge(old, patch), type=kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{place}: {error}", hint="correct that field, or leave it out") from error


def changed(old: S, edit: msgspec.Struct) -> S:
    """Return a struct with those fields of an edit that are there."""
    wanted = {name: getattr(edit, name) for name in edit.__struct_fields__}
    return msgspec.structs.replace(old, **{name: value for name, value in wanted.items() if value is not UNSET})
