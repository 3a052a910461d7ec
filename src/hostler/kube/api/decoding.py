"""Bytes from the API to structs: fast where all is well, and one bad object never spoils its list.

The good case is one call of msgspec for a whole page or line. Only when that fails is each object looked at by
itself: once more without nulls (Kubernetes takes a null for a field that is not there), and what still cannot be read
becomes :class:`Broken`, with its name and the reason. Used by ``client`` and ``reflector``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, Generic, cast

import msgspec

from hostler.errors import InputError
from hostler.kube.api.resources import Item, Object, Resource
from hostler.manifests.decoding import name_in, read_object
from hostler.manifests.metadata import Read

__all__ = ["Broken", "Page", "key_of", "read_item", "read_line", "read_page", "uid_of", "version_of"]


class Broken(msgspec.Struct, frozen=True):
    """An object that does not decode: who it is, as far as that can be told, and why."""

    namespace: str
    name: str
    uid: str
    version: str
    error: str


class PageMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """How new a list is, and the token of its next page."""

    resource_version: str = ""
    next: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[Item]):
    """One page of a list."""

    items: list[Item | Broken]
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
    """Read one object; raise InputError with the path of the value that is wrong."""
    try:
        return cast("Item", _item_decoder(resource.struct).decode(body))
    except _UNREADABLE:
        return _read_slowly(resource, _plain(body))


def read_page(resource: Resource[Item], body: bytes) -> Page[Item]:
    """Read one page of a list; raise InputError where it is none."""
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
        # Any other object, such as {}, reads as an empty list; believing it would delete everything.
        raise InputError(f"the list of {resource.plural} has no resource version: it is no list")
    return Page(items, answer.metadata.resource_version, answer.metadata.next)


def read_line(resource: Resource[Item], line: bytes) -> tuple[str, Item | Broken, bytes]:
    """Read one line of a watch: its type, its object, and of an error the bytes; raise InputError where it is none."""
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
        return raw.type, Broken("", "", "", "", "an error of the server"), bytes(raw.object)
    return raw.type, _read_or_mark(resource, raw.object), b""


def key_of(item: Object | Broken) -> tuple[str, str]:
    """Return the namespace and the name of an object."""
    who = item if isinstance(item, Broken) else item.metadata
    return (who.namespace, who.name)


def uid_of(item: Object | Broken) -> str:
    """Return what tells an object from others that had or will have its name."""
    return item.uid if isinstance(item, Broken) else item.metadata.uid


def version_of(item: Object | Broken) -> str:
    """Return an object's resource version."""
    return item.version if isinstance(item, Broken) else str(item.metadata.resource_version)


def _read_or_mark(resource: Resource[Item], body: msgspec.Raw) -> Item | Broken:
    try:
        return cast("Item", _item_decoder(resource.struct).decode(body))
    except _UNREADABLE:
        data = _plain(body)
    try:
        return _read_slowly(resource, data)
    except InputError as error:
        namespace, name, uid, version = (name_in(data, field) for field in _IDENTITY)
        return Broken(namespace, name, uid, version, error.message)


def _read_slowly(resource: Resource[Item], data: Mapping[str, object]) -> Item:
    """Read an object without its nulls."""
    if not data:
        raise InputError(f"{resource.kind}: no object at all, or one that nests too deeply")
    place = f"{resource.kind} {'/'.join(part for part in (name_in(data, 'namespace'), name_in(data, 'name')) if part)}"
    try:
        return cast("Item", read_object(data, cast("type[Read]", resource.struct), place))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"{place}: {error}") from error


def _plain(body: bytes | msgspec.Raw) -> Mapping[str, object]:
    """Read as the standard library does, which takes numbers of any size and mends text that is no UTF-8."""
    try:
        data = json.loads(bytes(body).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
