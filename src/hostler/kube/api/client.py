"""The Kubernetes API as methods: list, watch, get, write, bind; one try each, typed errors.

Whoever calls decides what to do about a failure: ``ApiError`` says that the server refused, ``TransportError`` that no
answer came and whether the server may have acted. ``patience`` tries again, ``reflector`` keeps a copy current.
Writes carry their time limit to the server too, so that it gives up when we do.
"""

from __future__ import annotations

import asyncio
import builtins
import types
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final, Generic, Literal
from urllib.parse import quote, urlencode

import msgspec

from hostler.errors import InputError
from hostler.kube.api.decoding import Broken, read_item, read_line, read_page, version_of
from hostler.kube.api.failures import ApiError, error_of
from hostler.kube.api.resources import PODS, Item, Resource
from hostler.kube.api.transport import Request, Response, Transport, TransportError

__all__ = ["Broken", "Change", "Client", "Listing", "SilentError"]

ChangeKind = Literal["added", "modified", "deleted", "bookmark"]
_CHANGES: Final[Mapping[str, ChangeKind]] = {
    "ADDED": "added",
    "MODIFIED": "modified",
    "DELETED": "deleted",
    "BOOKMARK": "bookmark",
}
PatchKind = Literal["merge", "strategic", "json"]
_PATCHES: Final[Mapping[PatchKind, str]] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
_NOTHING: Final[Mapping[str, str]] = types.MappingProxyType({})
_encode = msgspec.json.Encoder().encode


class Listing(msgspec.Struct, Generic[Item]):
    """All objects of a collection, and the resource version from which a watch goes on."""

    items: list[Item | Broken]
    version: str


class Change(msgspec.Struct, Generic[Item]):
    """One event of a watch; a bookmark has no object, only the version up to which all was told."""

    kind: ChangeKind
    item: Item | Broken | None
    version: str


class SilentError(TransportError):
    """A watch on which nothing came for so long that the connection may be dead."""


class Client:
    """Speaks to one API server. Close it after use."""

    def __init__(self, transport: Transport, *, user_agent: str = "hostler", call_timeout_s: float = 30.0) -> None:
        self._transport = transport
        self._user_agent = user_agent
        self._call_timeout_s = call_timeout_s

    async def list(
        self,
        resource: Resource[Item],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        version: str = "",
        page: int = 500,
    ) -> Listing[Item]:
        """List a collection page by page; where a page has expired meanwhile, all at once. No version: the newest."""
        query = {"labelSelector": labels, "fieldSelector": fields}
        freshness = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"} if version else {}
        path, token = resource.path(namespace), ""
        items: builtins.list[Item | Broken] = []  # the method hides the type
        while True:
            more = {"continue": token} if token else freshness
            limit = {"limit": str(page)} if page else {}
            try:
                body = await self.read(_with_query(path, query | limit | more))
            except ApiError as error:
                if not (token and error.is_expired):
                    raise
                items, token, page = [], "", 0
                continue
            part = read_page(resource, body)
            items += part.items
            token = part.next
            if not token:
                return Listing(items, part.version)

    async def watch(
        self,
        resource: Resource[Item],
        version: str,
        *,
        namespace: str = "",
        fields: str = "",
        timeout_s: float = 300.0,
        silence_s: float = 90.0,
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[builtins.list[Change[Item]], None]:
        """Follow a collection from a version on, in batches as they arrive; ends when the server ends the stream.

        ``opened`` is called when the server takes the watch. An error event raises ApiError. No byte for ``silence_s``
        raises SilentError: the connection may be dead.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(int(timeout_s)),
            "fieldSelector": fields,
        }
        response = await self._send("GET", _with_query(resource.path(namespace), query), is_stream=True)
        opened()
        batches = response.line_batches()
        try:
            while True:
                try:
                    async with asyncio.timeout(silence_s):
                        lines = await anext(batches)
                except StopAsyncIteration:
                    return
                except TimeoutError as error:
                    raise SilentError(
                        f"the watch on {resource.plural} was silent for {silence_s:g} s", may_have_acted=False
                    ) from error
                yield [_change_of(resource, line) for line in lines]
        finally:
            # Now, and not when the collector comes round to it: no stream outlives its watch.
            if isinstance(batches, AsyncGenerator):
                await batches.aclose()
            await response.close()

    async def get(self, resource: Resource[Item], namespace: str, name: str) -> Item:
        """Read one object."""
        return read_item(resource, await self.read(resource.path(namespace, _checked(name))))

    async def create(
        self, resource: Resource[Item], namespace: str, body: object, *, timeout_s: float | None = None
    ) -> Item:
        """Create an object and return it as the server keeps it."""
        return read_item(resource, await self.post(resource.path(namespace), body, timeout_s=timeout_s))

    async def replace(
        self,
        resource: Resource[Item],
        namespace: str,
        name: str,
        body: object,
        *,
        part: str = "",
        timeout_s: float | None = None,
    ) -> Item:
        """Replace an object, or a part of it such as its status; with a version in it, only that version."""
        path = resource.path(namespace, _checked(name), part)
        return read_item(resource, await self._write("PUT", path, body, timeout_s))

    async def patch(
        self,
        resource: Resource[Item],
        namespace: str,
        name: str,
        body: object,
        *,
        part: str = "",
        kind: PatchKind = "merge",
        timeout_s: float | None = None,
    ) -> Item:
        """Change some fields of an object, or of a part of it such as its status."""
        path = resource.path(namespace, _checked(name), part)
        return read_item(resource, await self._write("PATCH", path, body, timeout_s, _PATCHES[kind]))

    async def delete(
        self,
        resource: Resource[Item],
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace_s: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Delete an object; with a uid only the one that has it, else the answer is a conflict."""
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        await self._write("DELETE", resource.path(namespace, _checked(name)), options, timeout_s)

    async def post(self, path: str, body: object, *, timeout_s: float | None = None) -> bytes:
        """Post to a path and return the answer as it came: bindings, evictions, reviews."""
        return await self._write("POST", path, body, timeout_s)

    async def read(self, path: str) -> bytes:
        """Get a path and return the answer as it came."""
        return await _body_of(await self._send("GET", path))

    async def bind(
        self,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        *,
        annotations: Mapping[str, str] = _NOTHING,
        timeout_s: float,
    ) -> None:
        """Bind the pod with this uid to a node; annotations are written in the same step.

        Success is any 2xx: what is answered is a Status, not a Binding.
        """
        metadata: dict[str, object] = {"namespace": namespace, "name": name, "uid": uid}
        if annotations:
            metadata["annotations"] = dict(annotations)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._write("POST", PODS.path(namespace, _checked(name), "binding"), body, timeout_s)

    async def close(self) -> None:
        """End all connections."""
        await self._transport.close()

    async def _write(
        self, method: str, path: str, body: object, timeout_s: float | None, content_type: str = "application/json"
    ) -> bytes:
        wait_s = self._call_timeout_s if timeout_s is None else timeout_s
        path = f"{path}{'&' if '?' in path else '?'}timeout={wait_s:g}s"
        return await _body_of(await self._send(method, path, _encode(body), content_type, wait_s))

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "application/json",
        timeout_s: float | None = None,
        *,
        is_stream: bool = False,
    ) -> Response:
        """Send, and raise what the server says where it refuses."""
        response = await self._transport.send(
            Request(
                method=method,
                path=path,
                body=body,
                content_type=content_type,
                timeout_s=self._call_timeout_s if timeout_s is None else timeout_s,
                is_stream=is_stream,
                user_agent=self._user_agent,
            )
        )
        if 200 <= response.status < 300:
            return response
        raise error_of(response.status, response.headers, await _body_of(response))


async def _body_of(response: Response) -> bytes:
    try:
        return await response.read()
    finally:
        await response.close()


def _change_of(resource: Resource[Item], line: bytes) -> Change[Item]:
    try:
        word, item, failure = read_line(resource, line)
    except InputError as error:
        raise TransportError(error.message, may_have_acted=False) from error
    kind = _CHANGES.get(word)
    if kind is None:
        raise _stream_error(word, failure)
    return Change(kind, None if kind == "bookmark" else item, version_of(item))


def _stream_error(word: str, body: bytes) -> ApiError:
    """Read the Status of an error event; its code counts, since the answer's own was 200."""
    error = error_of(0, _NOTHING, body)
    try:
        code = msgspec.json.decode(body, type=dict[str, object]).get("code")
    except msgspec.MsgspecError:
        code = None
    status = code if isinstance(code, int) and code else 500
    return ApiError(status, error.reason or word, error.text, retry_after_s=error.retry_after_s)


def _with_query(path: str, query: Mapping[str, str]) -> str:
    words = urlencode({key: value for key, value in query.items() if value}, quote_via=quote)
    return f"{path}?{words}" if words else path


def _checked(name: str) -> str:
    """Let no empty name through: the path would be the whole collection's."""
    if name in ("", ".", ".."):
        raise InputError(f"no object can be named {name!r}", hint="give the object's name")
    return name
