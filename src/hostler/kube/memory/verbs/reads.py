"""Reads of the API server in memory: one object, and lists that are consistent over their pages."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from hostler.kube.memory.calls import ParsedCall
from hostler.kube.memory.error_answers import ErrorAnswer, bad_request, expired, invalid, not_found
from hostler.kube.memory.kinds import ServedKind
from hostler.kube.memory.selectors import reads_selectors
from hostler.kube.memory.store import Key, ObjectStore, StoredObject

__all__ = ["get_object", "list_objects", "read_version", "with_type"]

_EXPIRED_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_EXPIRED_VERSION = "The resourceVersion for the provided list is too old."
_OPTIONS = ServedKind(kind="ListOptions", plural="ListOptions", group="meta.k8s.io")


def with_type(kind: ServedKind, raw: bytes) -> bytes:
    """Return an object's JSON with its kind and version in front."""
    return b'{"kind":"%s","apiVersion":"%s",%s' % (kind.kind.encode(), kind.api_version.encode(), raw[1:])


def get_object(store: ObjectStore, call: ParsedCall) -> bytes:
    """Return one object."""
    entry = store.entries(call.kind).get((call.namespace, call.name))
    if entry is None:
        raise not_found(call.kind, call.name)
    return with_type(call.kind, entry.raw)


def read_version(text: str) -> int:
    """Return a resource version as a number; an empty one is 0."""
    if text and not text.isdigit():
        raise ErrorAnswer(
            500, "", f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text or 0)


def list_objects(store: ObjectStore, call: ParsedCall) -> bytes:
    """Return a page of a collection, or all of it."""
    query = call.query
    matches = reads_selectors(call.kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    limit = int(query.get("limit") or 0)
    version, start = _where(store, query)
    entries = store.entries_at(call.kind, version)
    rows = sorted((key, entry) for key, entry in entries.items() if not call.namespace or key[0] == call.namespace)
    rows = [(key, entry) for key, entry in rows if key >= start and (matches is None or matches(entry.item))]
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if limit and len(rows) > limit:
        metadata["continue"] = _token(version, rows[limit][0])
        if matches is None:
            metadata["remainingItemCount"] = len(rows) - limit
        rows = rows[:limit]
    items = b",".join(_item(call.kind, entry) for _, entry in rows)
    head = with_type(call.kind, b'{"metadata":' + msgspec.json.encode(metadata)).replace(b'","', b'List","', 1)
    return b'%s,"items":[%s]}' % (head, items)


def _item(kind: ServedKind, entry: StoredObject) -> bytes:
    """Return an item of a list: built-in objects come without their kind."""
    return with_type(kind, entry.raw) if kind.is_custom else entry.raw


def _where(store: ObjectStore, query: dict[str, str]) -> tuple[int, Key]:
    """Return the version of the list and the key at which the page begins."""
    token, match = query.get("continue", ""), query.get("resourceVersionMatch", "")
    if token:
        return _read_token(store, token)
    if match and not query.get("resourceVersion"):
        message = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise invalid(_OPTIONS, "", "resourceVersionMatch", "FieldValueForbidden", message)
    version = read_version(query.get("resourceVersion", ""))
    if version > store.version:
        raise ErrorAnswer(
            504,
            "Timeout",
            f"Timeout: Too large resource version: {version}, current: {store.version}",
            {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
            retry_after_s=1,
        )
    if match == "Exact":
        if version < store.compacted:
            raise expired(_EXPIRED_VERSION)
        return version, ("", "")
    return store.version, ("", "")


def _token(version: int, key: Key) -> str:
    content = {"v": "meta.k8s.io/v1", "rv": version, "start": "/".join(key)}
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).decode().rstrip("=")


def _read_token(store: ObjectStore, token: str) -> tuple[int, Key]:
    try:
        content = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=dict[str, Any])
        namespace, _, name = content["start"].partition("/")
        version = int(content["rv"])
    except (ValueError, KeyError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if version < 0:  # the holder of an expired token continues with the present objects
        return store.version, (namespace, name)
    if version < store.compacted:
        raise expired(_EXPIRED_TOKEN, _token(-1, (namespace, name)))
    return version, (namespace, name)
