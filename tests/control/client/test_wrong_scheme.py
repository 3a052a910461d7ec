"""An address with the wrong scheme: it is said which one the server speaks."""

from __future__ import annotations

import pytest

from hostler.control.client import Client, ServerTarget
from hostler.control.client.errors import UnreachableError
from hostler.control.service import Tls
from tests.cli.control.control_plane_thread import plane
from tests.kube.api.certificates import Authority


def refused(server, pauses):
    """Return the error of a server."""
    with (
        Client(ServerTarget(server=server, key="a-key"), sleep=pauses.append) as client,
        pytest.raises(UnreachableError) as caught,
    ):
        client.whoami()
    return caught.value


def test_https_to_a_server_that_speaks_http(tmp_path):
    with plane(tmp_path) as served:
        pauses: list[float] = []
        address = served.address.replace("http://", "https://")
        error = refused(address, pauses)
        assert error.message == f"{address} answers, but not in https"
        assert error.hint == f"it seems to speak plain http: {served.address}"
        assert pauses == [], "asking again does not help"


def test_http_to_a_server_that_speaks_https(tmp_path):
    authority = Authority()
    pair = authority.sign("control plane", "127.0.0.1")
    for name, content in (("server.pem", pair.certificate), ("server-key.pem", pair.key)):
        (tmp_path / name).write_bytes(content)
    with plane(tmp_path, tls=Tls(tmp_path / "server.pem", tmp_path / "server-key.pem")) as served:
        address = served.address.replace("https://", "http://")
        error = refused(address, [])
        assert error.message == f"{address} answers, but not in http"
        assert error.hint == f"it speaks https: {served.address}"
