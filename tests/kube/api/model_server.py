"""A small model of one collection of an API server as a transport, with faults drawn from a seed."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl, urlsplit

from hostler.runtime.transport import Request, TransportError
from tests.kube.api.scripted_server import line, pod


class ModelAnswer:
    def __init__(self, status: int, body: bytes = b"", stream=None, headers=None) -> None:
        self.status = status
        self.headers = headers or {}
        self._body = body
        self._stream = stream

    async def read(self) -> bytes:
        return self._body

    def line_batches(self) -> AsyncIterator[list[bytes]]:
        return self._stream

    async def close(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()


def refusal(status: int, reason: str, **headers: str) -> ModelAnswer:
    return ModelAnswer(
        status, json.dumps({"code": status, "reason": reason, "message": "no"}).encode(), headers=headers
    )


class ModelServer:
    """Pods by name, and the history of their changes."""

    def __init__(self, seed: int = 0) -> None:
        self.objects: dict[str, dict] = {}
        self.log: list[tuple[int, str, dict]] = []
        self.version = 10
        self.oldest = 0  # watches from before it have expired
        self.faults = 0.0  # how often something goes wrong
        self.calls: list[str] = []
        self.open_watches = 0
        self.most_watches = 0
        self.answers: list[ModelAnswer | Exception] = []  # given before anything else, in order
        self.random = random.Random(seed)
        self._news = asyncio.Event()
        self._uids = 0

    def put(self, name: str) -> None:
        """Create a pod, or change it."""
        self.version += 1
        old = self.objects.get(name)
        if old is None:
            self._uids += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self._uids}"
        self.objects[name] = pod(name, self.version, uid=uid)
        self._happen("MODIFIED" if old else "ADDED", self.objects[name])

    def remove(self, name: str) -> None:
        old = self.objects.pop(name, None)
        if old is not None:
            self.version += 1
            gone = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
            self._happen("DELETED", gone)

    def forget(self) -> None:
        """Compact: watches from before now have expired."""
        self.oldest = self.version

    def content(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Return uid and version by key."""
        return {
            ("default", name): (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
            for name, item in self.objects.items()
        }

    async def send(self, request: Request) -> ModelAnswer:
        query = dict(parse_qsl(urlsplit(request.path).query))
        self.calls.append("watch" if "watch" in query else "list")
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        await asyncio.sleep(self.random.random() * 0.01)
        if self._fails():
            return self._failure()
        if "watch" not in query:
            return self._page(query)
        version = int(query["resourceVersion"])
        if version < self.oldest:
            return refusal(410, "Expired")
        return ModelAnswer(200, stream=self._stream(version, float(query["timeoutSeconds"])))

    async def close(self) -> None:
        pass

    def _page(self, query: dict[str, str]) -> ModelAnswer:
        """Return one page of a list; the token is a version and where to go on, and expires as versions do."""
        if "continue" in query:
            version, start = map(int, query["continue"].split(":"))
            if version < self.version:
                return refusal(410, "Expired")
        else:
            version, start = self.version, 0
        names = sorted(self.objects)
        end = start + int(query["limit"]) if "limit" in query else len(names)
        metadata = {"resourceVersion": str(version), "continue": f"{version}:{end}" if end < len(names) else ""}
        items = [self.objects[name] for name in names[start:end]]
        return ModelAnswer(200, json.dumps({"metadata": metadata, "items": items}).encode())

    async def _stream(self, version: int, timeout_s: float) -> AsyncIterator[list[bytes]]:
        self.open_watches += 1
        self.most_watches = max(self.most_watches, self.open_watches)
        end = asyncio.get_running_loop().time() + timeout_s
        try:
            while (left_s := end - asyncio.get_running_loop().time()) > 0:
                batch = [entry for entry in self.log if entry[0] > version][: self.random.randint(1, 4)]
                if batch:
                    version = batch[-1][0]
                    yield self._lines(batch)
                    await self._maybe_break()
                    continue
                self._news.clear()
                try:
                    async with asyncio.timeout(min(left_s, 60)):
                        await self._news.wait()
                except TimeoutError:
                    yield [line("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}).strip()]
        finally:
            self.open_watches -= 1

    def _lines(self, batch: list[tuple[int, str, dict]]) -> list[bytes]:
        lines = [line(kind, item).strip() for _, kind, item in batch]
        if self._fails():  # some again, and some that were told long ago
            lines += self.random.choices(lines, k=2)
            lines += [line(kind, item).strip() for _, kind, item in self.log[: self.random.randint(0, 3)]]
        return lines

    async def _maybe_break(self) -> None:
        if not self._fails():
            return
        match self.random.randrange(4):
            case 0:
                raise TransportError("reset", may_have_acted=True)
            case 1:
                await asyncio.sleep(3600)  # silence
            case 2:
                raise TransportError("torn", may_have_acted=False)
            case _:
                await asyncio.sleep(self.random.random())

    def _fails(self) -> bool:
        return self.random.random() < self.faults

    def _failure(self) -> ModelAnswer:
        match self.random.randrange(4):
            case 0:
                raise TransportError("refused", may_have_acted=False)
            case 1:
                return refusal(429, "TooManyRequests", **{"retry-after": "2"})
            case 2:
                status = {"code": 410, "reason": "Expired"}
                return ModelAnswer(200, b"{}" if self.calls[-1] == "list" else b"", stream=_one(line("ERROR", status)))
            case _:
                return refusal(500, "InternalError")

    def _happen(self, kind: str, item: dict) -> None:
        self.log.append((self.version, kind, item))
        self._news.set()


async def _one(text: bytes) -> AsyncIterator[list[bytes]]:
    yield [text.strip()]
