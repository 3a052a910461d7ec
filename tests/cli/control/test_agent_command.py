"""``hostler agent`` as a process, against a control plane over real HTTP; and all that it refuses before it starts."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import stat

import pytest
from aiohttp import web

from hostler.agent.messages import Order
from hostler.agent.startup import AgentFolder, connect
from hostler.errors import ConflictError, InputError
from hostler.runtime.transport import Request
from tests.agent.fake_control_plane import TOKEN
from tests.agent.test_http import echo, server
from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import command, control_plane, secret
from tests.wait import until

FAKE = ("--driver", "fake", "--name", "one", "--size", "cpu=8,memory=16Gi,disk=500Gi,gpu=2")
NEW_TOKEN = "(umask 077; hostler token create --host one > token)"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO |WARN ) .+")


def vm(name="a", power="running", generation=1):
    return Order(vm=name, power=power, generation=generation, memory_bytes=2**28)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_agent_joins_works_and_stops_on_a_signal_while_its_vms_run_on(number, tmp_path):
    token = secret(tmp_path / "token", TOKEN + "\n")

    async with control_plane() as there:
        there.plane.order(vm())
        words = ("agent", "--server", there.address, *FAKE, "--label", "zone=b", "--label", "disk=ssd")
        async with command(
            *words, "--storage", "nas=/nas", "--bridge", "br0", "--token-file", token, home=tmp_path
        ) as first:
            await until(lambda: "a" in there.plane.vms and there.plane.vms["a"].state == "running")
            code, out, err = await first.end(number)
        assert (code, out) == (0, "")
        assert all(LINE.fullmatch(line) for line in err.splitlines()), err
        for said in ("agent starts", "joined", "registered", f"{number.name}: stopping; VMs run on", "stopped"):
            assert said in err
        assert "secret-1" not in err
        assert TOKEN not in err
        (registration,) = there.plane.registrations
        assert registration.labels == (("disk", "ssd"), ("zone", "b"))
        assert not registration.is_watched
        assert not any(report.is_watched for report in there.plane.reports), "nothing outside stops a fake VM"
        assert not (tmp_path / "hostler" / "agents" / "one" / "watchdog.lock").exists()
        assert (registration.storages, registration.bridges) == (("nas",), ("br0",))
        assert (registration.size.cpu_millis, len(registration.size.devices)) == (8000, 2)

        async with command(*words, home=tmp_path) as second:
            await until(lambda: len(there.plane.registrations) == 2)
            code, _, _ = await second.end(number)
        assert code == 0
        assert [report.state for report in there.plane.registrations[1].vms] == ["running"]
    credential = tmp_path / "hostler" / "agents" / "one" / "credential.json"
    assert stat.S_IMODE(credential.stat().st_mode) == 0o600
    assert stat.S_IMODE(credential.parent.stat().st_mode) == 0o700


async def test_a_second_signal_ends_at_once(tmp_path):
    program = (
        "import asyncio\n"
        "from hostler.agent.startup import stop_on_signals\n"
        "async def main():\n"
        "    stopping = asyncio.Event()\n"
        "    stop_on_signals(stopping, lambda line: print(line, flush=True))\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.sleep(3600)\n"
        "asyncio.run(main())\n"
    )

    async with command(home=tmp_path, program=program) as running:
        assert await running.process.stdout.readline() == b"ready\n"
        running.process.send_signal(signal.SIGTERM)
        assert b"SIGTERM" in await running.process.stdout.readline()
        code, _, _ = await running.end(signal.SIGTERM)
        assert code == 130


async def test_the_token_may_come_by_standard_input_and_the_log_as_json(tmp_path):
    async with control_plane() as there:
        words = ("agent", "--server", there.address, *FAKE, "--token-file", "-", "--log-format", "json")
        async with command(*words, "--state-dir", tmp_path / "d", home=tmp_path, stdin=TOKEN) as running:
            await until(lambda: there.plane.registrations)
            code, _, err = await running.end(signal.SIGTERM)
        assert code == 0
        lines = [json.loads(line) for line in err.splitlines()]
        assert lines[0]["message"] == "agent starts"
        assert lines[0]["name"] == "one"
    assert (tmp_path / "d" / "credential.json").exists()


# A host of libvirt's test hypervisor; the one of test:///default is full, by a domain larger than itself.
NODE = """<node><cpu><mhz>3000</mhz><model>x</model><active>4</active><nodes>1</nodes><sockets>1</sockets>
<cores>4</cores><threads>1</threads></cpu><memory>8388608</memory><domain type='test'><name>theirs</name>
<memory>1048576</memory><vcpu>1</vcpu><os><type>hvm</type></os></domain></node>"""


async def test_an_agent_on_libvirt_carries_out_orders_and_reports_strangers(tmp_path):
    pytest.importorskip("libvirt")
    token = secret(tmp_path / "token", TOKEN)
    (tmp_path / "node.xml").write_text(NODE)

    async with control_plane() as there:
        there.plane.order(vm())
        words = ("agent", "--server", there.address, "--token-file", token, "--driver", "libvirt")
        more = ("--libvirt-uri", f"test://{tmp_path / 'node.xml'}", "--name", "one")
        async with command(*words, *more, home=tmp_path) as running:
            await until(lambda: "a" in there.plane.vms and there.plane.vms["a"].state == "running")
            assert len(there.plane.unknown) == 1
            there.plane.order(vm(power="absent", generation=2))
            await until(lambda: "a" not in there.plane.vms)
            code, _, _ = await running.end(signal.SIGTERM)
        assert code == 0
        assert there.plane.registrations[0].driver == "libvirt"
        assert not there.plane.registrations[0].capabilities.live_migration


def ended(tmp_path, *words):
    """Run an agent that ends by itself."""

    async def scenario():
        async with (
            control_plane() as there,
            command("agent", "--server", there.address, *words, home=tmp_path) as running,
        ):
            return await running.end()

    return asyncio.run(scenario())


def test_a_token_that_is_not_accepted_ends_the_agent(tmp_path):
    token = secret(tmp_path / "token", "forged")
    code, _, err = ended(tmp_path, *FAKE, "--token-file", token)
    assert code == 2
    assert "error: the control plane rejects this agent (401)" in err
    assert f"hint: to join, have an admin make a token: {NEW_TOKEN}; start the agent with --token-file token\n" in err
    assert "forged" not in err


def test_agent_with_revoked_credential_ends_with_a_join_command_hint(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    secret(folder / "credential.json", '{"host": "h", "credential": "revoked-secret"}')
    code, _, err = ended(tmp_path, *FAKE, "--state-dir", folder)
    assert code == 2
    steps = f"{NEW_TOKEN}; move {folder / 'credential.json'} away, and start the agent with --token-file token"
    assert f"hint: to join, have an admin make a token: {steps}\n" in err
    assert "revoked-secret" not in err


def test_an_agent_that_is_too_old_is_not_sent_for_a_token(tmp_path):
    async def newer(request):
        return web.json_response({"code": "unsupported_protocol", "detail": "protocols 8 to 9 are spoken"}, status=426)

    async def scenario():
        token = secret(tmp_path / "token", TOKEN)
        async with server(newer) as address:
            words = ("agent", "--server", address, *FAKE, "--token-file", token)
            async with command(*words, home=tmp_path) as running:
                return await running.end()

    code, _, err = asyncio.run(scenario())
    assert code == 2
    assert "error: the control plane rejects this agent (426): protocols 8 to 9 are spoken" in err
    assert "hint: bring the agent to the control plane's version\n" in err


def test_agent_that_never_joined_gets_token_command_hint(tmp_path):
    result = hostler(*LOCAL, *FAKE, "--state-dir", tmp_path / "state")
    assert result.hint == f"give --token-file with a join token; an admin makes one: {NEW_TOKEN}"


def test_a_hypervisor_that_is_not_there_is_unavailable(tmp_path):
    pytest.importorskip("libvirt")
    token = secret(tmp_path / "token", TOKEN)
    uri = "qemu+unix:///system?socket=/nowhere/at-all"
    code, _, err = ended(tmp_path, "--driver", "libvirt", "--libvirt-uri", uri, "--token-file", token)
    assert code == 3
    assert "error: the driver cannot be used" in err


def test_a_folder_that_cannot_be_written_to_is_no_bug(tmp_path):
    folder = tmp_path / "state"
    (folder / "lease.json.new").mkdir(parents=True)
    code, _, err = ended(tmp_path, *FAKE, "--state-dir", folder, "--token-file", secret(tmp_path / "token", TOKEN))
    assert code == 3
    assert "error: the agent cannot continue" in err
    assert str(folder) in err


def test_plain_http_beyond_this_machine_works_where_it_was_asked_for():
    async def scenario():
        runner = web.ServerRunner(web.Server(echo), shutdown_timeout=0.1)
        await runner.setup()
        there = web.TCPSite(runner, "127.0.0.2", 0)
        await there.start()
        address = f"http://127.0.0.2:{there._server.sockets[0].getsockname()[1]}"
        transport = connect(address, is_insecure=True)
        try:
            return await transport.send(Request(method="GET", path="/a"))
        finally:
            await transport.close()
            await runner.cleanup()

    assert asyncio.run(scenario()).body.startswith(b"GET /a")


def test_two_agents_do_not_share_a_folder(tmp_path):
    with AgentFolder(tmp_path / "state").held():
        result = hostler(*LOCAL, *FAKE, "--state-dir", tmp_path / "state")
        assert result.code == ConflictError.exit_code
        assert "another agent" in result.error
    with AgentFolder(tmp_path / "state").held():
        pass  # and it is free again


LOCAL = ("agent", "--server", "http://127.0.0.1:9")
LIBVIRT = ("--driver", "libvirt")
REFUSED = {
    "no-driver": (LOCAL, "no driver"),
    "unknown-driver": ((*LOCAL, "--driver", "xen"), "xen"),
    "no-token": ((*LOCAL, *FAKE), "has not joined"),
    "no-token-file": ((*LOCAL, *FAKE, "--token-file", "nowhere"), "nowhere"),
    "no-address": (("agent", "--server", "somewhere", *FAKE), "not the address"),
    "secret-in-address": (("agent", "--server", "https://u:p@h", *FAKE), "not the address"),
    "not-encrypted": (("agent", "--server", "http://10.0.0.1", *FAKE), "not encrypted"),
    "authority-for-nothing": ((*LOCAL, *FAKE, "--ca-file", "ca.pem"), "encrypted"),
    "no-authority": (("agent", "--server", "https://h", *FAKE, "--ca-file", "nowhere.pem"), "nowhere.pem"),
    "name": ((*LOCAL, *FAKE, "--name", "a/b"), "a/b"),
    "label": ((*LOCAL, *FAKE, "--label", "zone"), "zone"),
    "label-twice": ((*LOCAL, *FAKE, "--label", "zone=a", "--label", "zone=b"), "twice"),
    "label-key": ((*LOCAL, *FAKE, "--label", "a b=c"), "a b"),
    "storage": ((*LOCAL, *FAKE, "--storage", "nas"), "nas"),
    "image-origin": ((*LOCAL, *FAKE, "--image-origin", "ftp://nowhere"), "ftp://nowhere"),
    "image-cache": ((*LOCAL, *FAKE, "--image-cache", "much"), "much"),
    "image-root": ((*LOCAL, *FAKE, "--image-root", "/nowhere/at-all"), "/nowhere/at-all"),
    "size": ((*LOCAL, "--driver", "fake", "--size", "cpu=8"), "memory"),
    "size-part": ((*LOCAL, "--driver", "fake", "--size", "cpu=8,ram=1Gi"), "ram"),
    "size-amount": ((*LOCAL, "--driver", "fake", "--size", "cpu=many,memory=1Gi"), "many"),
    "size-of-libvirt": ((*LOCAL, *LIBVIRT, "--size", "cpu=8,memory=1Gi"), "libvirt"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_can_never_work_is_refused_before_anything_starts(words, said, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = hostler(*words)
    assert result.code == 2
    assert said in result.error
    assert result.hint


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_token_file_is_refused(content, tmp_path):
    token = secret(tmp_path / "token", content)
    result = hostler(*LOCAL, *FAKE, "--state-dir", tmp_path / "d", "--token-file", token)
    assert result.code == 2
    assert "is empty" in result.error


def test_a_token_that_others_may_read_is_refused(tmp_path):
    token = secret(tmp_path / "token", TOKEN)
    token.chmod(0o644)
    result = hostler(*LOCAL, *FAKE, "--state-dir", tmp_path / "d", "--token-file", token)
    assert result.code == 2
    assert "others" in result.error
    assert result.hint == f"chmod 600 {token}"


def test_plain_http_beyond_this_machine_needs_to_be_asked_for():
    with pytest.raises(InputError) as caught:
        connect("http://10.0.0.1:80")
    assert "--insecure" in caught.value.hint
    connect("http://10.0.0.1:80", is_insecure=True)
    with pytest.raises(InputError):
        connect("ftp://10.0.0.1:80", is_insecure=True)


def test_help_shows_examples_and_takes_no_secret_as_an_argument():
    result = hostler("agent", "--help")
    assert result.code == 0
    assert "Examples:" in result.out
    assert "--token-file" in result.out
    assert "--token " not in result.out
