"""Plain requests for the contract: JSON in, a status and JSON out; each part has its own namespace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from hostler.kube.api.client import ApiTransport
from hostler.runtime.transport import Request

__all__ = ["JSON_PATCH", "MERGE", "STRATEGIC", "ApiSession", "Stream", "binding", "pod"]

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def pod(name: str, **spec: object) -> Json:
    """Return a pod that every server accepts."""
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"own": "1"}},
        "spec": {"containers": containers, **spec},
    }


def binding(name: str, node: str, uid: str = "", **annotations: str) -> Json:
    """Return a Binding object."""
    metadata: Json = {"name": name}
    metadata |= {"uid": uid} if uid else {}
    metadata |= {"annotations": annotations} if annotations else {}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


class Stream:
    """A watch, read event by event."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._batches: AsyncIterator[list[bytes]] = response.line_batches()
        self._waiting: list[Json] = []
        self.status: int = response.status

    async def next(self, within_s: float = 20.0) -> Json | None:
        """Return the next event, or None at the end."""
        while not self._waiting:
            try:
                async with asyncio.timeout(within_s):
                    lines = await anext(self._batches)
            except StopAsyncIteration:
                return None
            self._waiting = [msgspec.json.decode(line) for line in lines]
        return self._waiting.pop(0)

    async def rest(self) -> list[Json]:
        """Return all events until the end."""
        events: list[Json] = []
        while True:
            event = await self.next()
            if event is None:
                return events
            events.append(event)

    async def close(self) -> None:
        """End it."""
        await self._response.close()


class ApiSession:
    """One part of the contract, in its own namespace."""

    def __init__(self, transport: ApiTransport) -> None:
        self.transport = transport
        self.namespace = ""

    async def begin(self) -> None:
        """Create the namespace, and the account that some servers require."""
        body: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "contract-"}}
        _, space = await self.call("POST", "/api/v1/namespaces", body)
        self.namespace = space["metadata"]["name"]
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await self.call("POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts", body)

    @property
    def pods(self) -> str:
        """Return the path of the pods here."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def leases(self) -> str:
        """Return the path of the leases here."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def budgets(self) -> str:
        """Return the path of the disruption budgets here."""
        return f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"

    async def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Send a request and return the status and the body."""
        data = b"" if body is None else msgspec.json.encode(body)
        request = Request(method=method, path=path, body=data, content_type=content_type)
        response = await self.transport.send(request)
        try:
            text = await response.read()
        finally:
            await response.close()
        try:
            return response.status, msgspec.json.decode(text)
        except msgspec.DecodeError:
            return response.status, text.decode()

    async def make(self, item: Json, path: str = "") -> Json:
        """Create an object, a pod unless a path says otherwise, and return it."""
        status, made = await self.call("POST", path or self.pods, item)
        assert status == 201, made
        result: Json = made
        return result

    async def get(self, name: str) -> Json:
        """Return a pod."""
        status, found = await self.call("GET", f"{self.pods}/{name}")
        assert status == 200, found
        result: Json = found
        return result

    async def bind(self, name: str, node: str, uid: str = "", **annotations: str) -> tuple[int, Json]:
        """Bind a pod."""
        return await self.call("POST", f"{self.pods}/{name}/binding", binding(name, node, uid, **annotations))

    async def settle(self, name: str, node: str) -> None:
        """Bind a pod as a precondition; a busy server may fail a few times, and reports its delays as conflicts."""
        for _ in range(60):
            answer = await self.bind(name, node)
            if (await self.get(name))["spec"].get("nodeName") == node:
                return
            await asyncio.sleep(0.5)
        raise AssertionError(answer)

    async def watch(self, version: str, *, path: str = "", seconds: int = 10, more: str = "") -> Stream:
        """Watch the pods here from a version on."""
        query = f"watch=1&resourceVersion={version}&timeoutSeconds={seconds}{more}"
        request = Request(method="GET", path=f"{path or self.pods}?{query}", is_stream=True)
        return Stream(await self.transport.send(request))
