"""A server on a real socket that follows a test's script byte by byte, valid or not."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from hostler.kube.api.access import Access
from hostler.kube.api.client import KubeClient
from hostler.kube.api.credentials import ClientIdentity, Credential, FixedCredential
from hostler.kube.api.http import AiohttpTransport


@dataclass
class ReceivedCall:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def data(self):
        return json.loads(self.body)


class Wire:
    """The connection back to the client."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer

    async def answer(self, status: int, data: object, **headers: str) -> None:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join([f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *lines])
        await self.raw(head.encode() + b"\r\n\r\n" + body)

    async def refuse(self, status: int, reason: str, message: str = "because", **headers: str) -> None:
        await self.answer(status, {"kind": "Status", "code": status, "reason": reason, "message": message}, **headers)

    async def start_stream(self) -> None:
        await self.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def piece(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, kind: str, item: object) -> None:
        await self.piece(line(kind, item))

    async def end_stream(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Break the connection so that the other side sees a reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[ReceivedCall, Wire], Awaitable[None]]


@dataclass
class ScriptedServer:
    port: int
    calls: list[ReceivedCall] = field(default_factory=list)
    connections: int = 0
    ended: int = 0  # of the connections


def line(kind: str, item: object) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def pod(name: str, version: int = 1, *, uid: str = "", **spec: object) -> dict:
    metadata = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": spec}


def page(items: list, version: int = 1, token: str = "") -> dict:
    return {"metadata": {"resourceVersion": str(version), "continue": token}, "items": items}


@asynccontextmanager
async def serving(
    script: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[ScriptedServer]:
    """Serve a script until the block ends; then no connection is left."""
    state = ScriptedServer(0)
    tasks: set[asyncio.Task] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        state.connections += 1
        try:
            while (call := await _read_call(reader)) is not None:
                state.calls.append(call)
                await script(call, Wire(writer))
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            state.ended += 1

    server = await asyncio.start_server(handle, host, 0, ssl=tls, limit=2**20)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


async def _read_call(reader: asyncio.StreamReader) -> ReceivedCall | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (entry.partition(":") for entry in rest)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return ReceivedCall(method, parts.path, dict(parse_qsl(parts.query)), headers, body)


def access_to(port: int, credential: Credential | None = None, scheme: str = "http", **fields: object) -> Access:
    credential = credential or FixedCredential(ClientIdentity(token="secret-token"))
    return Access(server=f"{scheme}://127.0.0.1:{port}", credential=credential, **fields)


@asynccontextmanager
async def client_of(
    script: Script, *, call_timeout_s: float = 20.0
) -> AsyncIterator[tuple[KubeClient, ScriptedServer]]:
    """Yield a client of a server that follows a script."""
    async with serving(script) as server:
        client = KubeClient(AiohttpTransport(access_to(server.port)), call_timeout_s=call_timeout_s)
        try:
            yield client, server
        finally:
            await client.close()
