"""A stub of an API server for ``bench.kube_client``, in a process of its own: it answers and does nothing else.

``python -m bench.kube_stub [CERTIFICATE]`` prints its port. It knows three things: any POST succeeds, pods can be
listed in pages, and a watch sends as many changes as there are pods and ends.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from urllib.parse import parse_qsl, urlsplit

import msgspec

__all__ = ["PODS", "pod"]

PODS = 10_000
_HEADERS = (
    "Audit-Id: 00000000-0000-0000-0000-000000000000\r\n"
    "Cache-Control: no-cache, private\r\n"
    "Content-Type: application/json\r\n"
    "X-Kubernetes-Pf-Flowschema-Uid: 00000000-0000-0000-0000-000000000000\r\n"
    "X-Kubernetes-Pf-Prioritylevel-Uid: 00000000-0000-0000-0000-000000000000\r\n"
    "Date: Sun, 15 Nov 2026 12:00:00 GMT\r\n"
)
_BATCH = 50  # lines of a watch that go out together


def pod(number: int) -> dict[str, object]:
    """Make a pod of about the size that real ones have."""
    fields: dict[str, object] = {"f:metadata": {f"f:field-{part}": {"f:inner": {}} for part in range(40)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "default",
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(1000 + number),
            "labels": {"app": f"app-{number % 100}", "pod-template-hash": "abcdef"},
            "managedFields": [{"manager": "bench", "operation": "Update", "fieldsV1": fields}],
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/image:1",
                    "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}},
                    "terminationMessagePath": "/dev/termination-log",
                }
            ],
            "schedulerName": "hostler-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def _answer(status: int, body: bytes) -> bytes:
    return f"HTTP/1.1 {status} X\r\n{_HEADERS}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _pages(size: int) -> dict[int, bytes]:
    pages: dict[int, bytes] = {}
    for start in range(0, PODS, size):
        token = str(start + size) if start + size < PODS else ""
        metadata = {"resourceVersion": "1000", "continue": token}
        items = [pod(number) for number in range(start, min(start + size, PODS))]
        pages[start] = _answer(200, msgspec.json.encode({"kind": "PodList", "metadata": metadata, "items": items}))
    return pages


def _stream() -> bytes:
    pieces = [f"HTTP/1.1 200 OK\r\n{_HEADERS}Transfer-Encoding: chunked\r\n\r\n".encode()]
    for start in range(0, PODS, _BATCH):
        events = [{"type": "MODIFIED", "object": pod(number)} for number in range(start, start + _BATCH)]
        lines = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
        pieces.append(b"%x\r\n%s\r\n" % (len(lines), lines))
    return b"".join([*pieces, b"0\r\n\r\n"])


class _Stub(asyncio.Protocol):
    bound = _answer(201, b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}')
    pages: dict[int, bytes]
    stream: bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end]
            at = head.lower().find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._received) < end + 4 + size:
                return
            self._received = self._received[end + 4 + size :]
            self._transport.write(self._answer_to(head))

    def _answer_to(self, head: bytes) -> bytes:
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        if method == "POST":
            return self.bound
        query = dict(parse_qsl(urlsplit(target).query))
        return self.stream if "watch" in query else self.pages[int(query.get("continue", 0))]


async def _serve(certificate: str) -> None:
    _Stub.pages, _Stub.stream = _pages(500), _stream()
    tls = None
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    server = await asyncio.get_running_loop().create_server(_Stub, "127.0.0.1", 0, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1] if len(sys.argv) > 1 else ""))
