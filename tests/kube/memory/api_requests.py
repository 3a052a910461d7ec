"""Shortcuts for tests of the server in memory: objects and requests."""

import msgspec

from hostler.runtime.transport import Request

PODS = "/api/v1/namespaces/default/pods"


def pod(name, cpu="1", **spec):
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": containers, **spec},
    }


def node(name, cpu="4"):
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "pods": "110"}}}


async def send(transport, method, path, body=None, **more):
    """Send and return status and JSON."""
    data = b"" if body is None else msgspec.json.encode(body)
    response = await transport.send(Request(method=method, path=path, body=data, **more))
    return response.status, msgspec.json.decode(await response.read())


async def bind(transport, name, uid, to, timeout_s=1.0):
    body = {"metadata": {"name": name, "uid": uid}, "target": {"name": to}}
    path = f"{PODS}/{name}/binding?timeout={timeout_s:g}s"
    status, _ = await send(transport, "POST", path, body, timeout_s=timeout_s)
    return status


async def watch(transport, version, more=""):
    path = f"/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion={version}{more}"
    return await transport.send(Request(method="GET", path=path, is_stream=True))


async def events(response):
    return [msgspec.json.decode(line) async for batch in response.line_batches() for line in batch]
