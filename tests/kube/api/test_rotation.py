"""Certificates that are replaced at run time: ours, and the trusted authorities."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest

from hostler.kube.api import credentials, tls
from hostler.kube.api.access import read_access
from hostler.kube.api.client import KubeClient
from hostler.kube.api.credentials import FileCredential
from hostler.kube.api.http import AiohttpTransport
from hostler.runtime.transport import TransportError
from tests.kube.api.certificates import Authority, server_tls
from tests.kube.api.scripted_server import ReceivedCall, Wire, serving


@pytest.fixture(autouse=True)
def at_every_call(monkeypatch):
    """Make files be read again at every call, without the minute between."""
    monkeypatch.setattr(credentials, "REREAD_S", 0.0)
    monkeypatch.setattr(tls, "REREAD_S", 0.0)


def kubeconfig(folder: Path, port: int) -> Path:
    """Write a kubeconfig that names files for the authority, the certificate and the key."""
    content = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca"}}],
        "users": [{"name": "u", "user": {"client-certificate": "crt", "client-key": "key"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(content))
    return path


def show(folder: Path, pair) -> None:
    (folder / "crt").write_bytes(pair.certificate)
    (folder / "key").write_bytes(pair.key)


async def who(call: ReceivedCall, wire: Wire) -> None:
    """Answer with the name of the client."""
    ((_, name),) = wire.writer.get_extra_info("peercert")["subject"][0]
    await wire.answer(200, {"you": name})


def asking(folder: Path, work, authority: Authority):
    """Run work with a client of a server that requires certificates of an authority."""

    async def main():
        async with serving(who, server_tls(authority.sign("server", "127.0.0.1"), authority)) as server:
            client = KubeClient(AiohttpTransport(read_access(kubeconfig(folder, server.port))))

            async def ask(write: bool = False) -> str:
                answer = await (client.post("/a", {}) if write else client.read("/a"))
                return json.loads(answer)["you"]

            try:
                return await work(ask)
            finally:
                await client.close()

    return asyncio.run(main())


@pytest.mark.parametrize("write", [False, True], ids=["reads", "writes"])
def test_a_client_certificate_that_was_replaced_is_shown_by_the_next_call(tmp_path, write):
    authority = Authority()
    (tmp_path / "ca").write_bytes(authority.pem)
    show(tmp_path, authority.sign("old"))

    async def work(ask):
        before = await ask(write)
        show(tmp_path, authority.sign("new"))
        return before, await ask(write)

    assert asking(tmp_path, work, authority) == ("old", "new")


def test_while_half_of_a_new_pair_is_written_the_old_one_stays_in_use(tmp_path):
    authority = Authority()
    (tmp_path / "ca").write_bytes(authority.pem)
    show(tmp_path, authority.sign("old"))
    new = authority.sign("new")

    async def work(ask):
        seen = []
        for change in (
            lambda: (tmp_path / "crt").write_bytes(new.certificate),
            lambda: (tmp_path / "key").unlink(),
            lambda: (tmp_path / "key").write_bytes(b"nonsense"),
            lambda: (tmp_path / "key").write_bytes(new.key),
        ):
            change()
            seen.append(await ask())
        return seen

    assert asking(tmp_path, work, authority) == ["old", "old", "old", "new"]


def test_an_authority_that_was_replaced_is_believed_by_the_next_call(tmp_path):
    ours, another = Authority("ours"), Authority("another")
    (tmp_path / "ca").write_bytes(another.pem)
    show(tmp_path, ours.sign("me"))

    async def work(ask):
        with pytest.raises(TransportError, match="not trusted"):
            await ask()
        (tmp_path / "ca").write_bytes(another.pem + ours.pem)
        return await ask(), await ask(write=True)

    assert asking(tmp_path, work, ours) == ("me", "me")


def test_an_authority_that_cannot_be_read_is_left_aside(tmp_path):
    authority = Authority()
    (tmp_path / "ca").write_bytes(authority.pem)
    show(tmp_path, authority.sign("me"))

    async def work(ask):
        seen = []
        for text in (b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nno\n"):
            (tmp_path / "ca").write_bytes(text)
            seen.append(await ask())
        (tmp_path / "ca").unlink()
        return [*seen, await ask()]

    assert asking(tmp_path, work, authority) == ["me"] * 4


def test_pod_service_account_renews_its_token_and_authority(tmp_path):
    authority = Authority()
    (tmp_path / "token").write_text("one")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    access = read_access(environment=environment, home=tmp_path, service_account=tmp_path)
    renewed = Authority()
    (tmp_path / "ca.crt").write_bytes(renewed.pem)
    assert access.read_authority is not None
    assert access.read_authority() == renewed.pem
    (tmp_path / "token").write_text("two")
    asyncio.run(access.credential.renew())
    assert access.credential.identity.token == "two"


def test_a_token_with_odd_characters_does_not_replace_a_good_one(tmp_path):
    token = tmp_path / "token"
    token.write_text("good")
    credential = FileCredential(lambda: credentials.ClientIdentity(token=token.read_text()))
    token.write_text("bad\x07")
    asyncio.run(credential.renew())
    assert credential.identity.token == "good"


# -- credentials that stand in the kubeconfig itself


def embedded(folder: Path, port: int, authority: bytes, pair=None, *, current="c", host="127.0.0.1", **user) -> Path:
    """Write a kubeconfig with the authority and the credentials in it, and a second context."""

    def text(pem: bytes) -> str:
        return base64.b64encode(pem).decode()

    if pair is not None:
        user |= {"client-certificate-data": text(pair.certificate), "client-key-data": text(pair.key)}
    cluster = {"server": f"https://{host}:{port}", "certificate-authority-data": text(authority)}
    content = {
        "current-context": current,
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}, {"name": "other", "user": {"token": "of-another-user"}}],
        "contexts": [
            {"name": "c", "context": {"cluster": "c", "user": "u"}},
            {"name": "d", "context": {"cluster": "c", "user": "other"}},
        ],
    }
    path = folder / "config"
    path.with_suffix(".new").write_text(json.dumps(content))
    return path.with_suffix(".new").rename(path)


def asking_embedded(folder: Path, work, authority: Authority, trusted: bytes, name: str):
    """Run work with a client whose kubeconfig has everything in it; ``rewrite`` replaces the file."""

    async def main():
        async with serving(who, server_tls(authority.sign("server", "127.0.0.1"), authority)) as server:
            path = embedded(folder, server.port, trusted, authority.sign(name))
            client = KubeClient(AiohttpTransport(read_access(path)))

            async def ask(write: bool = False) -> str:
                answer = await (client.post("/a", {}) if write else client.read("/a"))
                return json.loads(answer)["you"]

            def rewrite(*words, host="127.0.0.1", port=server.port, **more):
                embedded(folder, port, *words, host=host, **more)

            try:
                return await work(ask, rewrite)
            finally:
                await client.close()

    return asyncio.run(main())


@pytest.mark.parametrize("write", [False, True], ids=["reads", "writes"])
def test_embedded_certificate_that_was_replaced_is_used(tmp_path, write):
    authority = Authority()

    async def work(ask, rewrite):
        before = await ask(write)
        rewrite(authority.pem, authority.sign("new"))
        return before, await ask(write)

    assert asking_embedded(tmp_path, work, authority, authority.pem, "old") == ("old", "new")


def test_embedded_authority_that_was_replaced_is_used(tmp_path):
    ours, another = Authority("ours"), Authority("another")

    async def work(ask, rewrite):
        with pytest.raises(TransportError, match="not trusted"):
            await ask()
        rewrite(another.pem + ours.pem, ours.sign("me"))
        return await ask(), await ask(write=True)

    assert asking_embedded(tmp_path, work, ours, another.pem, "me") == ("me", "me")


def test_embedded_token_that_was_replaced_is_used(tmp_path):
    access = read_access(embedded(tmp_path, 6443, Authority().pem, token="one"))
    embedded(tmp_path, 6443, Authority().pem, token="two")
    asyncio.run(access.credential.renew())
    assert access.credential.identity.token == "two"


@pytest.mark.parametrize("wrong", ["half", "gone", "no user", "another server", "plugin", "nothing"])
def test_kubeconfig_that_is_no_longer_ours_changes_nothing(tmp_path, wrong):
    authority = Authority()

    async def work(ask, rewrite):
        path = tmp_path / "config"
        if wrong == "half":
            path.write_text(path.read_text()[:200])
        elif wrong == "gone":
            path.unlink()
        elif wrong == "no user":
            path.write_text(path.read_text().replace('"u"', '"v"', 1))
        elif wrong == "another server":
            rewrite(authority.pem, authority.sign("new"), host="10.0.0.1")
        elif wrong == "plugin":
            rewrite(authority.pem, exec={"command": "true", "apiVersion": "client.authentication.k8s.io/v1"})
        else:
            rewrite(authority.pem)
        seen = await ask()
        rewrite(authority.pem, authority.sign("new"))
        return seen, await ask()

    assert asking_embedded(tmp_path, work, authority, authority.pem, "old") == ("old", "new")


def test_another_current_context_does_not_move_a_client(tmp_path):
    authority = Authority()

    async def work(ask, rewrite):
        rewrite(authority.pem, authority.sign("new"), current="d")
        return await ask()

    assert asking_embedded(tmp_path, work, authority, authority.pem, "old") == "new"


def test_unchanged_kubeconfig_is_not_parsed_again(tmp_path, monkeypatch):
    access = read_access(embedded(tmp_path, 6443, Authority().pem, token="one"))
    files = []
    monkeypatch.setattr(Path, "read_bytes", lambda path: files.append(path))
    asyncio.run(access.credential.renew())
    assert files == []
    assert access.credential.identity.token == "one"
