"""Credentials that change at run time."""

from __future__ import annotations

import asyncio
import datetime
import json
import sys
from pathlib import Path

import pytest

from hostler.errors import UnavailableError
from hostler.kube.api.client import KubeClient
from hostler.kube.api.credentials import ClientIdentity, ExecPlugin, FixedCredential, TokenFile
from hostler.kube.api.failures import ApiError
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.api.kubeconfig import EnvironmentEntry, ExecSettings
from hostler.runtime.transport import TransportError
from tests.kube.api.certificates import Authority, server_tls
from tests.kube.api.scripted_server import ReceivedCall, Wire, access_to, serving

V1 = "client.authentication.k8s.io/v1"


def with_tokens(credential, work, *good: str):
    """Run work against a server that knows only some tokens; return the tokens that it received."""

    async def script(call: ReceivedCall, wire: Wire) -> None:
        if call.headers.get("authorization") in [f"Bearer {token}" for token in good]:
            await wire.answer(200, {})
        else:
            await wire.refuse(401, "Unauthorized")

    async def main() -> list[str]:
        async with serving(script) as server:
            client = KubeClient(AiohttpTransport(access_to(server.port, credential)))
            try:
                await work(client)
            finally:
                await client.close()
            return [call.headers["authorization"].removeprefix("Bearer ") for call in server.calls]

    return asyncio.run(main())


def plugin(folder: Path, body: str, **settings) -> ExecSettings:
    """Write a credential plugin in Python that counts how often it ran."""
    script = folder / "plugin.py"
    script.write_text(
        "import json, os, sys, time, pathlib\n"
        f"ran = pathlib.Path({str(folder / 'ran')!r})\n"
        "count = int(ran.read_text()) + 1 if ran.exists() else 1\n"
        "ran.write_text(str(count))\n"
        "def answer(**status):\n"
        f"    print(json.dumps({{'apiVersion': {V1!r}, 'kind': 'ExecCredential', 'status': status}}))\n" + body
    )
    return ExecSettings(command=sys.executable, api_version=V1, args=(str(script),), **settings)


def runs(folder: Path) -> int:
    return int((folder / "ran").read_text())


def renewal_error(settings: ExecSettings, folder: Path, **arguments) -> UnavailableError:
    with pytest.raises(UnavailableError) as caught:
        asyncio.run(ExecPlugin(settings, folder, {}, **arguments).renew())
    return caught.value


def test_changed_token_file_is_read_again_when_old_token_is_rejected(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")

    async def work(client: KubeClient) -> None:
        await client.read("/a")
        path.write_text("new\n")
        with_new.append("new")
        await client.read("/b")

    with_new = ["old"]
    credential = TokenFile(path)

    async def script(call: ReceivedCall, wire: Wire) -> None:
        is_good = call.headers["authorization"] == f"Bearer {with_new[-1]}"
        await (wire.answer(200, {}) if is_good else wire.refuse(401, "Unauthorized"))

    async def main() -> list[str]:
        async with serving(script) as server:
            client = KubeClient(AiohttpTransport(access_to(server.port, credential)))
            try:
                await work(client)
            finally:
                await client.close()
            return [call.headers["authorization"] for call in server.calls]

    assert asyncio.run(main()) == ["Bearer old", "Bearer old", "Bearer new"]


async def test_a_token_file_is_read_each_minute(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    credential = TokenFile(path)

    assert credential.is_due()
    await credential.renew()
    assert not credential.is_due()


def test_a_token_file_that_vanished_leaves_the_old_token_in_use(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    credential = TokenFile(path)
    path.unlink()
    asyncio.run(credential.renew())
    assert credential.identity.token == "old"


def test_a_fixed_token_that_is_refused_is_shown_once():
    credential = FixedCredential(ClientIdentity(token="bad"))
    with pytest.raises(ApiError, match="401"):
        with_tokens(credential, lambda client: client.read("/a"), "good")
    assert "bad" not in repr(credential.identity)


def test_a_plugin_runs_once_while_its_answer_is_good(tmp_path):
    settings = plugin(tmp_path, "answer(token='from-plugin')\n")

    async def work(client: KubeClient) -> None:
        await asyncio.gather(*(client.read("/a") for _ in range(8)))

    shown = with_tokens(ExecPlugin(settings, tmp_path, {}), work, "from-plugin")
    assert shown == ["from-plugin"] * 8
    assert runs(tmp_path) == 1


def test_a_plugin_runs_again_when_its_answer_expires(tmp_path):
    soon = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=3)).isoformat()
    settings = plugin(tmp_path, f"answer(token='t', expirationTimestamp={soon!r})\n")

    async def work(client: KubeClient) -> None:
        await client.read("/a")
        await client.read("/b")

    with_tokens(ExecPlugin(settings, tmp_path, {}), work, "t")
    assert runs(tmp_path) == 2


def test_a_plugin_whose_answer_lasts_is_not_asked_again(tmp_path):
    later = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).isoformat()
    settings = plugin(tmp_path, f"answer(token='t', expirationTimestamp={later!r})\n")

    async def work(client: KubeClient) -> None:
        await client.read("/a")
        await client.read("/b")

    with_tokens(ExecPlugin(settings, tmp_path, {}), work, "t")
    assert runs(tmp_path) == 1


def test_a_refused_token_of_a_plugin_is_renewed_once_for_all_calls(tmp_path):
    settings = plugin(tmp_path, "answer(token=f'token-{count}')\n")

    async def work(client: KubeClient) -> None:
        await asyncio.gather(*(client.read("/a") for _ in range(8)))

    shown = with_tokens(ExecPlugin(settings, tmp_path, {}), work, "token-2")
    assert shown.count("token-2") == 8
    assert runs(tmp_path) == 2


def test_a_user_who_stays_refused_does_not_run_the_plugin_each_time(tmp_path):
    settings = plugin(tmp_path, "answer(token=f'token-{count}')\n")

    async def work(client: KubeClient) -> None:
        for _ in range(5):
            with pytest.raises(ApiError, match="401"):
                await client.read("/a")

    with_tokens(ExecPlugin(settings, tmp_path, {}), work, "another")
    assert runs(tmp_path) == 2


def test_a_plugin_gets_its_variables_and_the_cluster(tmp_path):
    body = (
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "spec = info['spec']\n"
        "answer(token='-'.join([os.environ['WHO'], spec['cluster']['server'], str(spec['interactive'])]))\n"
    )
    settings = plugin(tmp_path, body, env=(EnvironmentEntry("WHO", "me"),), provide_cluster_info=True)
    credential = ExecPlugin(settings, tmp_path, {"server": "there", "certificate-authority-data": b"pem"})
    asyncio.run(credential.renew())
    assert credential.identity.token == "me-there-False"


def test_a_command_with_a_slash_is_relative_to_the_kubeconfig(tmp_path):
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "login"
    answer = json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "t"}})
    command.write_text(f"#!/bin/sh\necho '{answer}'\n")
    command.chmod(0o755)
    credential = ExecPlugin(ExecSettings(command="./bin/login", api_version=V1), tmp_path, {})
    asyncio.run(credential.renew())
    assert credential.identity.token == "t"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit('please log in first')\n", "ended with status 1: please log in first"),
        ("print('secret-word')\n", "not an ExecCredential"),
        ("print(json.dumps({'kind': 'ExecCredential', 'apiVersion': 'x', 'secret-word': 1}))\n", "did not print"),
        ("answer()\n", "neither a token nor a certificate"),
        ("answer(clientCertificateData='secret-word')\n", "without its key"),
    ],
)
def test_a_plugin_that_fails_says_why_and_tells_no_secret(tmp_path, body, message):
    error = renewal_error(plugin(tmp_path, body), tmp_path)
    assert message in error.message
    assert "secret-word" not in error.message + error.hint


def test_a_plugin_that_does_not_exist_shows_its_install_hint(tmp_path):
    error = renewal_error(
        ExecSettings(command="no-such-plugin-here", api_version=V1, install_hint="get it there"), tmp_path
    )
    assert "cannot be started" in error.message
    assert error.hint == "get it there"


def test_a_plugin_that_hangs_is_ended(tmp_path):
    error = renewal_error(plugin(tmp_path, "time.sleep(60)\n"), tmp_path, timeout_s=0.3)
    assert "gave no answer within 0.3 s" in error.message


def test_a_failing_plugin_fails_the_call_and_nothing_was_sent(tmp_path):
    settings = plugin(tmp_path, "sys.exit('not today')\n")
    with pytest.raises(TransportError, match="not today") as caught:
        with_tokens(ExecPlugin(settings, tmp_path, {}), lambda client: client.read("/a"))
    assert not caught.value.may_have_acted


def test_a_plugin_may_give_a_certificate(tmp_path):
    authority = Authority()
    pair = authority.sign("me")
    body = f"answer(clientCertificateData={pair.certificate.decode()!r}, clientKeyData={pair.key.decode()!r})\n"
    credential = ExecPlugin(plugin(tmp_path, body), tmp_path, {})

    async def script(call: ReceivedCall, wire: Wire) -> None:
        await wire.answer(200, {"peer": str(wire.writer.get_extra_info("peercert")["subject"])})

    async def main() -> bytes:
        async with serving(script, server_tls(authority.sign("server", "127.0.0.1"), authority)) as server:
            client = KubeClient(AiohttpTransport(access_to(server.port, credential, "https", authority=authority.pem)))
            try:
                return await client.read("/a")
            finally:
                await client.close()

    assert b"'me'" in asyncio.run(main())
