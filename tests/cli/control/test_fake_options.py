"""Fake hosts that take their time and fail on purpose, as ``hostler agent`` and ``hostler dev fleet`` are told to."""

from __future__ import annotations

import signal

import pytest

from hostler.agent.drivers.fake import DEEDS, Fault
from hostler.agent.messages import Order
from hostler.cli.control.local.agent_options import read_delays, read_faults
from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import KEY, command, control_plane, secret
from tests.wait import until

AGENT = ("agent", "--server", "http://127.0.0.1:9", "--driver", "fake", "--name", "one")
FLEET = ("dev", "fleet", "--server", "http://127.0.0.1:9", "--key-file", "key")
WRONG = {
    "no deed": (("--delay", "0.5"), "names no action"),
    "unknown deed": (("--delay", "reboot=1"), "reboot"),
    "no time": (("--delay", "create=soon"), "soon"),
    "too long": (("--delay", "create=3601"), "3601"),
    "not a number": (("--delay", "create=nan"), "nan"),
    "twice": (("--delay", "create=1", "--delay", "create=2"), "twice"),
    "no chance": (("--fault", "create=1.5"), "1.5"),
    "negative": (("--fault", "create=-1"), "-1"),
    "unknown kind": (("--fault", "create=1:bad"), "create=1:bad"),
    "unknown moment": (("--fault", "create=1:blocked:before"), "is not a fault"),
}


@pytest.mark.parametrize("start", [AGENT, FLEET], ids=["agent", "fleet"])
@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_what_is_no_delay_or_fault_is_refused_before_anything_starts(start, words, said, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = hostler(*start, *words)
    assert result.code == 2
    assert said in result.error
    assert result.hint


@pytest.mark.parametrize("start", [AGENT, FLEET], ids=["agent", "fleet"])
def test_what_is_no_amount_of_a_size_is_named_with_its_option(start, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = hostler(*start, "--size", "cpu=2x,memory=8Gi")
    assert result.code == 2
    assert result.error == "--size: cpu: amount '2x' is not a quantity"
    assert result.hint == 'write it as 2, "1500m" or "0.5"'


@pytest.mark.parametrize("words", [("--delay", "create=1"), ("--fault", "create=1")])
def test_real_hosts_neither_wait_nor_fail_on_purpose(words, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    result = hostler("agent", "--server", "http://127.0.0.1:9", "--driver", "qemu", "--name", "one", *words)
    assert result.code == 2
    assert f"{words[0]} is not for the driver qemu" in result.error


def test_a_deed_by_its_name_beats_any():
    assert dict(read_delays(["any=1", "create=0.5"])) == dict.fromkeys(DEEDS, 1.0) | {"create": 0.5}
    assert read_delays([]) == ()


def test_fault_option_has_kind_and_order():
    assert read_faults(["create=0.1", "start=1:blocked", "stop=1:permanent:after"]) == (
        Fault(verb="create", chance=0.1),
        Fault(verb="start", kind="blocked"),
        Fault(verb="stop", kind="permanent", is_after=True),
    )
    assert [fault.verb for fault in read_faults(["any=0.1"])] == list(DEEDS)


async def test_an_agent_reports_what_it_was_told_to_fail_at(tmp_path):
    async with control_plane() as there:
        there.plane.order(Order(vm="a", generation=1, power="running", memory_bytes=2**28))
        token = secret(tmp_path / "token", "t-1")
        there.plane.tokens.add("t-1")
        words = ("agent", "--server", there.address, "--driver", "fake", "--name", "one", "--token-file", token)
        async with command(*words, "--delay", "create=0.01", "--fault", "start=1:permanent", home=tmp_path) as one:
            await until(lambda: "a" in there.plane.vms and there.plane.vms["a"].trouble is not None)
            code, _, _ = await one.end(signal.SIGTERM)
        assert code == 0
        found = there.plane.vms["a"]
        assert (found.state, found.trouble.kind) == ("stopped", "permanent")
        assert "start of a failed on purpose" in found.trouble.message


def troubled(plane):
    """Return the agents that have told of trouble."""
    return {report.agent for report in plane.reports if any(vm.trouble for vm in report.vms)}


async def test_each_host_of_a_fleet_fails_by_itself(tmp_path):
    key = secret(tmp_path / "key", KEY)

    async with control_plane() as there:
        there.plane.order(Order(vm="a", generation=1, power="running", memory_bytes=2**28))
        words = ("dev", "fleet", "--server", there.address, "--hosts", "3", "--key-file", key)
        async with command(*words, "--fault", "create=1:permanent", home=tmp_path) as fleet:
            await until(lambda: len(troubled(there.plane)) == 3)
            code, out, _ = await fleet.end(signal.SIGTERM)
    assert (code, out) == (0, "stopped: 3 of 3 hosts joined\n")
