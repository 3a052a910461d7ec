"""The Kubernetes API as methods: list, watch, get, write, bind. Each is one attempt with typed errors.

The caller decides what to do about a failure: ``ApiError`` means that the server rejected the call, ``TransportError``
that no response came and whether the server may have acted. ``patience`` retries, ``reflector`` keeps a copy current.
Writes send their time limit to the server too, so that it gives up when we do.

Requests go through an ``ApiTransport``. There are two: ``http`` speaks to real API servers, ``hostler.kube.memory`` is
one in memory that can play every fault.
"""

from __future__ import annotations

import asyncio
import builtins
import types
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Final, Generic, Literal, Protocol, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from hostler.errors import InputError
from hostler.kube.api.decoding import UndecodableObject, read_item, read_line, read_page, version_of
from hostler.kube.api.failures import ApiError, error_of
from hostler.kube.api.resources import PODS, Item, Resource
from hostler.runtime.transport import Request, Transport, TransportError

__all__ = ["ApiResponse", "ApiTransport", "KubeClient", "Listing", "SilentError", "UndecodableObject", "WatchEvent"]

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


class ApiResponse(Protocol):
    """A response. The caller reads it to the end or closes it."""

    status: int

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers; names are in lower case."""
        ...

    async def read(self) -> bytes:
        """Return the whole body."""
        ...

    def line_batches(self) -> AsyncIterator[list[bytes]]:
        """Iterate over a stream: for each received piece, the lines that it completed, without line ends; never none.

        Empty lines are left out. A last line without a line end is incomplete and raises TransportError.
        """
        ...

    async def close(self) -> None:
        """Return the connection to the pool, or end it if the body was not read."""
        ...


ApiTransport: TypeAlias = Transport[ApiResponse]


class Listing(msgspec.Struct, Generic[Item]):
    """All objects of a collection, and the resource version from which a watch continues."""

    items: list[Item | UndecodableObject]
    version: str


class WatchEvent(msgspec.Struct, Generic[Item]):
    """One event of a watch. A bookmark has no object, only the version up to which all events were sent."""

    kind: ChangeKind
    item: Item | UndecodableObject | None
    version: str


class SilentError(TransportError):
    """A watch that was silent for so long that its connection may be dead."""


class KubeClient:
    """Speaks to one API server. Close it after use."""

    def __init__(self, transport: ApiTransport, *, user_agent: str = "hostler", call_timeout_s: float = 30.0) -> None:
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
        """List a collection page by page, or all at once if a page has expired. No version: the newest."""
        query = {"labelSelector": labels, "fieldSelector": fields}
        freshness = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"} if version else {}
        path, token = resource.path(namespace), ""
        items: builtins.list[Item | UndecodableObject] = []  # the method hides the type
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
    ) -> AsyncGenerator[builtins.list[WatchEvent[Item]], None]:
        """Follow a collection from a version on, in batches as they arrive. Ends when the server ends the stream.

        ``opened`` is called when the server accepts the watch. An error event raises ApiError. No byte for
        ``silence_s`` raises SilentError: the connection may be dead.
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
            # Close it now and not at garbage collection: no stream outlives its watch.
            if isinstance(batches, AsyncGenerator):
                await batches.aclose()
            await response.close()

    async def get(self, resource: Resource[Item], namespace: str, name: str) -> Item:
        """Read one object."""
        return read_item(resource, await self.read(resource.path(namespace, _require_name(name))))

    async def create(
        self, resource: Resource[Item], namespace: str, body: object, *, timeout_s: float | None = None
    ) -> Item:
        """Create an object and return it as the server stores it."""
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
        """Replace an object or a part of it such as its status. A version in it must be the current one."""
        path = resource.path(namespace, _require_name(name), part)
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
        """Change some fields of an object or of a part of it such as its status."""
        path = resource.path(namespace, _require_name(name), part)
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
        """Delete an object. With a uid, only the object with that uid; otherwise the call is a conflict."""
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        await self._write("DELETE", resource.path(namespace, _require_name(name)), options, timeout_s)

    async def post(self, path: str, body: object, *, timeout_s: float | None = None) -> bytes:
        """Post to a path and return the raw response: bindings, evictions, reviews."""
        return await self._write("POST", path, body, timeout_s)

    async def read(self, path: str) -> bytes:
        """Get a path and return the raw response."""
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

        Any 2xx is success: the body is a Status, not a Binding.
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
        await self._write("POST", PODS.path(namespace, _require_name(name), "binding"), body, timeout_s)

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
    ) -> ApiResponse:
        """Send a request; raise the server's error if it rejects it."""
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


async def _body_of(response: ApiResponse) -> bytes:
    try:
        return await response.read()
    finally:
        await response.close()


def _change_of(resource: Resource[Item], line: bytes) -> WatchEvent[Item]:
    try:
        word, item, failure = read_line(resource, line)
    except InputError as error:
        raise TransportError(error.message, may_have_acted=False) from error
    kind = _CHANGES.get(word)
    if kind is None:
        raise _stream_error(word, failure)
    return WatchEvent(kind, None if kind == "bookmark" else item, version_of(item))


def _stream_error(word: str, body: bytes) -> ApiError:
    """Read the Status of an error event. Its code counts: the response itself was 200."""
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


def _require_name(name: str) -> str:
    """Reject an empty name: the path would be that of the whole collection."""
    if name in ("", ".", ".."):
        raise InputError(f"not a valid object name: {name!r}", hint="give the object's name")
    return name
