"""An encrypted way to a service, and who is trusted at its other end."""

from __future__ import annotations

import pytest

from hostler.control.client import Client, ServerTarget
from hostler.control.client.errors import UnreachableError
from hostler.control.service import Tls
from hostler.errors import InputError
from tests.cli.control.control_plane_thread import plane
from tests.kube.api.certificates import Authority


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A control plane with a certificate of an authority that no machine knows, which lies in ``ca.pem``."""
    folder = tmp_path_factory.mktemp("plane")
    authority = Authority()
    pair = authority.sign("control plane", "127.0.0.1")
    for name, content in (("ca.pem", authority.pem), ("server.pem", pair.certificate), ("server-key.pem", pair.key)):
        (folder / name).write_bytes(content)
    with plane(folder, tls=Tls(folder / "server.pem", folder / "server-key.pem")) as running:
        yield running


def test_client_that_knows_the_authority_connects(served):
    target = ServerTarget(server=served.address, key=served.key, ca_file=served.folder / "ca.pem")
    assert target.server.startswith("https://")
    with Client(target) as client:
        assert client.whoami().role == "admin"


def test_a_stranger_is_not_shown_the_key(served):
    pauses: list[float] = []
    target = ServerTarget(server=served.address, key=served.key)
    with Client(target, sleep=pauses.append) as client, pytest.raises(UnreachableError) as caught:
        client.whoami()
    assert "--ca-file" in caught.value.hint
    assert pauses == []


def test_a_file_without_certificates_is_no_authority(served, tmp_path):
    (tmp_path / "empty.pem").write_text("")
    for name in ("empty.pem", "missing.pem"):
        with pytest.raises(InputError, match="has no certificates"):
            Client(ServerTarget(server=served.address, ca_file=tmp_path / name))
