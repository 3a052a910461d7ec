"""Decode bytes from the API to structs; one invalid object never spoils its list.

The good case is one msgspec call for a whole page or line. Only if that fails is each object decoded by itself, once
more without nulls (Kubernetes treats a null field as absent). An object that still cannot be read becomes
:class:`UndecodableObject`, with its name and the reason. Used by ``client`` and ``reflector``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, Generic, cast

import msgspec

from hostler.errors import InputError
from hostler.kube.api.resources import Item, Object, Resource
from hostler.manifests.decoder import name_in, read_object
from hostler.manifests.objects.metadata import ObjectStruct

__all__ = ["ListPage", "UndecodableObject", "key_of", "read_item", "read_line", "read_page", "uid_of", "version_of"]


class UndecodableObject(msgspec.Struct, frozen=True):
    """An object that does not decode: its identity, as far as it can be read, and the reason."""

    namespace: str
    name: str
    uid: str
    version: str
    error: str


class PageMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The version of a list and the token of its next page."""

    resource_version: str = ""
    next: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct, Generic[Item]):
    """One page of a list."""

    items: list[Item | UndecodableObject]
    version: str
    next: str


class _RawPage(msgspec.Struct):
    metadata: PageMetadata = PageMetadata()
    items: list[msgspec.Raw] | None = None


class _RawLine(msgspec.Struct):
    type: str
    object: msgspec.Raw


_IDENTITY = ("namespace", "name", "uid", "resourceVersion")
_UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)
_read_raw_page = msgspec.json.Decoder(_RawPage).decode
_read_raw_line = msgspec.json.Decoder(_RawLine).decode


@functools.cache
def _item_decoder(struct: type) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(struct)


@functools.cache
def _page_decoder(struct: type) -> msgspec.json.Decoder[Any]:
    fields = [("metadata", PageMetadata, PageMetadata()), ("items", list[struct] | None, None)]  # type: ignore[valid-type]
    return msgspec.json.Decoder(msgspec.defstruct("GoodPage", fields))


@functools.cache
def _line_decoder(struct: type) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(msgspec.defstruct("GoodLine", [("type", str), ("object", struct)]))


def read_item(resource: Resource[Item], body: bytes | msgspec.Raw) -> Item:
    """Read one object; raise InputError with the path of the invalid value."""
    try:
        return cast("Item", _item_decoder(resource.struct).decode(body))
    except _UNREADABLE:
        return _read_slowly(resource, _plain(body))


def read_page(resource: Resource[Item], body: bytes) -> ListPage[Item]:
    """Read one page of a list; raise InputError if it is invalid."""
    try:
        answer = _page_decoder(resource.struct).decode(body)
        items = answer.items or []
    except _UNREADABLE:
        try:
            answer = _read_raw_page(body)
        except _UNREADABLE as error:
            raise InputError(f"the list of {resource.plural} cannot be read: {error}") from error
        items = [_read_or_mark(resource, item) for item in answer.items or ()]
    if not answer.metadata.resource_version:
        # Any other object, such as {}, decodes as an empty list; accepting it would delete everything.
        raise InputError(f"the list of {resource.plural} has no resource version, so it is not a list")
    return ListPage(items, answer.metadata.resource_version, answer.metadata.next)


def read_line(resource: Resource[Item], line: bytes) -> tuple[str, Item | UndecodableObject, bytes]:
    """Read one line of a watch: its type, its object, and the bytes of an error. InputError if it is invalid."""
    try:
        good = _line_decoder(resource.struct).decode(line)
        if good.type != "ERROR":
            return good.type, good.object, b""
    except _UNREADABLE:
        pass
    try:
        raw = _read_raw_line(line)
    except _UNREADABLE as error:
        raise InputError(f"a line of the watch on {resource.plural} cannot be read: {error}") from error
    if raw.type == "ERROR":
        return raw.type, UndecodableObject("", "", "", "", "an error of the server"), bytes(raw.object)
    return raw.type, _read_or_mark(resource, raw.object), b""


def key_of(item: Object | UndecodableObject) -> tuple[str, str]:
    """Return the namespace and the name of an object."""
    who = item if isinstance(item, UndecodableObject) else item.metadata
    return (who.namespace, who.name)


def uid_of(item: Object | UndecodableObject) -> str:
    """Return the uid, which distinguishes an object from earlier and later ones of the same name."""
    return item.uid if isinstance(item, UndecodableObject) else item.metadata.uid


def version_of(item: Object | UndecodableObject) -> str:
    """Return an object's resource version."""
    return item.version if isinstance(item, UndecodableObject) else str(item.metadata.resource_version)


def _read_or_mark(resource: Resource[Item], body: msgspec.Raw) -> Item | UndecodableObject:
    try:
        return cast("Item", _item_decoder(resource.struct).decode(body))
    except _UNREADABLE:
        data = _plain(body)
    try:
        return _read_slowly(resource, data)
    except InputError as error:
        namespace, name, uid, version = (name_in(data, field) for field in _IDENTITY)
        return UndecodableObject(namespace, name, uid, version, error.message)


def _read_slowly(resource: Resource[Item], data: Mapping[str, object]) -> Item:
    """Read an object without its nulls."""
    if not data:
        raise InputError(f"{resource.kind}: not an object, or nested too deeply")
    place = f"{resource.kind} {'/'.join(part for part in (name_in(data, 'namespace'), name_in(data, 'name')) if part)}"
    try:
        return cast("Item", read_object(data, cast("type[ObjectStruct]", resource.struct), place))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"{place}: {error}") from error


def _plain(body: bytes | msgspec.Raw) -> Mapping[str, object]:
    """Read with the standard library, which accepts numbers of any size and replaces invalid UTF-8."""
    try:
        data = json.loads(bytes(body).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
