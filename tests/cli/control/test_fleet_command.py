"""``hostler dev fleet``: many fake hosts in one process, against a control plane over real HTTP."""

from __future__ import annotations

import asyncio
import signal

import pytest

from hostler.agent.messages import Order
from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import KEY, command, control_plane, secret

LOCAL = ("dev", "fleet", "--server", "http://127.0.0.1:9")


async def test_a_fleet_joins_by_an_admins_key_and_stops_on_a_signal(tmp_path):
    key = secret(tmp_path / "key", KEY)

    async with control_plane() as there:
        there.refusals = 1
        words = ("dev", "fleet", "--server", there.address, "--hosts", "25", "--prefix", "rack-", "--key-file", key)
        more = ("--size", "cpu=4,memory=8Gi", "--label", "zone=a", "--storage", "nas")
        async with command(*words, *more, home=tmp_path) as running:
            await running.until_it_says("25 of 25 hosts joined")
            there.plane.order(Order(vm="a", generation=1, power="running", memory_bytes=2**28))
            await running.until_it_says("25 VMs, 25 of them run")
            code, out, err = await running.end(signal.SIGTERM)
    assert code == 0
    assert out == "stopped: 25 of 25 hosts joined, 25 VMs, 25 of them run\n"
    assert "SIGTERM: stopping" in err
    assert KEY not in err
    assert sorted(wish["host_name"] for wish in there.wishes) == [f"rack-{n:04d}" for n in range(1, 26)]
    assert {wish["ttl_s"] for wish in there.wishes} == {600}
    assert len({registration.agent for registration in there.plane.registrations}) == 25
    assert {registration.size.cpu_millis for registration in there.plane.registrations} == {4000}
    assert {registration.storages for registration in there.plane.registrations} == {("nas",)}


async def test_a_fleet_with_a_folder_comes_back_with_its_vms_and_needs_no_tokens(tmp_path):
    async with control_plane() as there:
        there.plane.order(Order(vm="a", generation=1, power="running", memory_bytes=2**28))
        words = ("dev", "fleet", "--server", there.address, "--hosts", "3", "--state-dir", tmp_path / "fleet")
        async with command(*words, "--key-file", "-", home=tmp_path, stdin=KEY) as running:
            await running.until_it_says("3 VMs, 3 of them run")
            await running.end(signal.SIGINT)
        before = len(there.plane.registrations)
        async with command(*words, "--key-file", "-", home=tmp_path, stdin=KEY) as running:
            await running.until_it_says("3 of 3 hosts joined")
            code, _, _ = await running.end(signal.SIGINT)
        assert code == 0
        assert len(there.wishes) == 3
        assert len({registration.agent for registration in there.plane.registrations[before:]}) == 3
        assert all(len(registration.vms) == 1 for registration in there.plane.registrations[before:])


def test_a_key_that_is_not_an_admins_ends_the_fleet(tmp_path):
    key = secret(tmp_path / "key", "another")

    async def scenario():
        async with control_plane() as there:
            words = ("dev", "fleet", "--server", there.address, "--hosts", "100", "--key-file", key)
            async with command(*words, home=tmp_path) as running:
                return await running.end()

    code, _, err = asyncio.run(scenario())
    assert code == 2
    assert "error: the control plane gives no tokens to this key (403)" in err


async def test_tokens_may_come_from_a_file_and_a_wrong_one_ends_its_host_only(tmp_path):
    async with control_plane() as there:
        there.plane.tokens |= {"t-1", "t-3"}
        tokens = secret(tmp_path / "tokens", "t-1\nforged\nt-3\n")
        words = ("dev", "fleet", "--server", there.address, "--hosts", "3", "--token-file", tokens)
        async with command(*words, home=tmp_path) as running:
            await running.until_it_says("2 of 3 hosts joined, 1 ended")
            code, out, err = await running.end(signal.SIGTERM)
    assert code == 0
    assert out == "stopped: 2 of 3 hosts joined, 1 ended\n"
    assert "host=host-0002" in err
    assert "forged" not in err


REFUSED = {
    "no-key": (LOCAL, "--key-file"),
    "both": ((*LOCAL, "--key-file", "a", "--token-file", "b"), "--key-file"),
    "no-hosts": ((*LOCAL, "--key-file", "a", "--hosts", "0"), "hosts"),
    "prefix": ((*LOCAL, "--key-file", "a", "--prefix", "a b"), "a b"),
    "size": ((*LOCAL, "--key-file", "a", "--size", "8"), "8"),
    "fail-rate": ((*LOCAL, "--key-file", "a", "--fail-rate", "2"), "fail-rate"),
    "key-file": ((*LOCAL, "--key-file", "nowhere"), "nowhere"),
    "plain": (("dev", "fleet", "--server", "http://10.0.0.1", "--key-file", "a"), "not encrypted"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_can_never_work_is_refused_before_anything_starts(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = hostler(*words)
    assert result.code == 2
    assert said in result.error


def test_too_few_tokens_are_refused(tmp_path):
    result = hostler(*LOCAL, "--hosts", "3", "--token-file", secret(tmp_path / "tokens", "a\nb\n"))
    assert result.code == 2
    assert "2 tokens are too few for 3 hosts" in result.error


def test_more_hosts_than_files_can_be_open_are_refused(tmp_path):
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); "
        "from hostler.cli.main import main; sys.exit(main())"
    )
    words = (*LOCAL, "--hosts", "1000", "--key-file", secret(tmp_path / "key", KEY))

    async def scenario():
        async with command(*words, home=tmp_path, program=program) as running:
            return await running.end()

    code, _, err = asyncio.run(scenario())
    assert code == 2
    assert "open files" in err
