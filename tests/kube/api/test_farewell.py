"""Nothing is left of a stream when its loop ends, even if the server does not shut down TLS."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator

from hostler.kube.api.http import AiohttpTransport
from hostler.runtime.transport import Request
from tests.kube.api.certificates import Authority, server_tls
from tests.kube.api.scripted_server import access_to

_PATIENCE_S = 30.0


@contextlib.contextmanager
def silent_server(tls: ssl.SSLContext) -> Iterator[int]:
    """Serve one stream that never ends, in a thread that does nothing more, as a server under load; give the port."""
    is_over = threading.Event()

    def serve() -> None:
        plain, _ = listening.accept()
        with tls.wrap_socket(plain, server_side=True) as connection:
            connection.recv(2**16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
            is_over.wait(_PATIENCE_S)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(_PATIENCE_S)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            is_over.set()
            thread.join()


def test_abandoned_stream_closes_its_connection_without_server_help():
    authority = Authority()

    async def main(port: int) -> None:
        transport = AiohttpTransport(access_to(port, scheme="https", authority=authority.pem))
        response = await transport.send(Request(method="GET", path="/x?watch=1", is_stream=True, timeout_s=_PATIENCE_S))
        async for lines in response.line_batches():
            assert lines == [b"{}"]
            break
        await response.close()
        await transport.close()

    with silent_server(server_tls(authority.sign("server", "127.0.0.1"))) as port:
        asyncio.run(main(port))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gc.collect()
    assert [str(warning.message) for warning in caught] == []
