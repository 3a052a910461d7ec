import asyncio

import msgspec

from hostler.kube.api.transport import Request
from hostler.testing.apiserver import ApiServer
from hostler.testing.loop import run_simulation


def _pod(name, **spec):
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def _send(transport, method, path, body=None, **more):
    response = await transport.send(
        Request(method=method, path=path, body=b"" if body is None else msgspec.json.encode(body), **more)
    )
    return response.status, msgspec.json.decode(await response.read())


def test_a_pod_is_created_watched_and_bound():
    async def main():
        server = ApiServer()
        transport = server.transport("me")
        status, pod = await _send(transport, "POST", "/api/v1/namespaces/default/pods", _pod("a"))
        assert (status, pod["status"]["phase"]) == (201, "Pending")
        watch = await transport.send(
            Request(
                method="GET",
                path=f"/api/v1/pods?watch=1&resourceVersion={pod['metadata']['resourceVersion']}&timeoutSeconds=5",
                is_stream=True,
            )
        )
        body = {"metadata": {"name": "a", "uid": pod["metadata"]["uid"]}, "target": {"name": "n1"}}
        status, _ = await _send(transport, "POST", "/api/v1/namespaces/default/pods/a/binding?timeout=1s", body)
        assert status == 201
        lines = [msgspec.json.decode(line) async for batch in watch.line_batches() for line in batch]
        assert [(line["type"], line["object"]["spec"]["nodeName"]) for line in lines] == [("MODIFIED", "n1")]
        assert asyncio.get_running_loop().time() >= 5
        entry = server.log[-1]
        assert (entry.is_bind, entry.user, entry.status, entry.told) == (True, "me", 201, 201)
        assert entry.sent < entry.arrived == entry.committed < entry.told_at

    run_simulation(main, 1)
