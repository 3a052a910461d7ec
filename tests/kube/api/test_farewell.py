"""What is left of a stream when its loop ends: nothing, even where the server says no farewell."""

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
from hostler.kube.api.transport import Request
from tests.kube.api.certificates import Authority, server_tls
from tests.kube.api.scripted import access_to

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


def test_a_stream_that_is_left_leaves_no_connection_behind_though_the_server_does_not_react():
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
