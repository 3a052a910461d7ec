"""A watchdog proves no more than it can do: what a host says of the VMs that it stops in time bounds both sides."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import Report
from hostler.control.fleet.hosts.host_body import HostBody, host_of, read_body
from hostler.control.fleet.hosts.silence import count_watched
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms.state import state_of
from hostler.model import GUESTS, amount_of
from tests.control.fleet.control_plane import is_running, run_control_plane, spec
from tests.control.fleet.test_silence import RESTART, unknown
from tests.control.fleet.test_watchdog_margin import LONG_S
from tests.wait import until


async def is_known(control, name, watched_vms):
    async def look():
        return read_body(await control.row(name)).watched_vms == watched_vms

    await until(look)


@pytest.mark.parametrize(("watched_vms", "is_proof"), [(3, True), (2, False)], ids=["as many", "more than it can"])
async def test_host_with_more_vms_than_its_watchdog_stops_is_not_proved_dead(url, watched_vms, is_proof):
    """Three VMs run on a host whose watchdog stops so many in time; then the host falls silent for good."""

    async with run_control_plane(url) as control:
        north = await control.join("north", watchdog=True)
        vms = [await control.create_running(RESTART) for _ in range(3)]
        north.watched_vms = watched_vms
        await is_known(control, "north", watched_vms)
        await control.pass_silently(north)
        for vm in vms:
            await north.driver.stop(vm, grace_s=0.0)  # what the watchdog does, in its time
        await control.pass_silently(north, seconds=LONG_S)
        found = [await control.vm(vm) for vm in vms]
        assert all(unknown(vm) for vm in found) is not is_proof
        assert all(vm.home is None for vm in found) is is_proof


def test_agent_that_does_not_say_it_is_trusted_with_one_vm():
    """What older agents send, and what older rows hold, says nothing of it: their watchdogs stop VMs one by one."""
    report = msgspec.json.decode(b'{"boot":"b","agent":"a","epoch":1,"sequence":1,"is_watched":true}', type=Report)
    body = msgspec.json.decode(b'{"is_watched":true}', type=HostBody)
    assert (report.watched_vms, body.watched_vms) == (1, 1)


@pytest.mark.parametrize(
    ("body", "most"),
    [
        (HostBody(is_watched=True, watched_vms=64), 64),
        (HostBody(is_watched=True, watched_vms=2**63), 2**62),
        (HostBody(is_watched=True), 0),
        (HostBody(is_watched=False, watched_vms=0), 0),
    ],
    ids=["watched", "absurd", "of an older agent", "not watched"],
)
def test_engine_knows_how_many_vms_a_watched_host_may_hold(body, most):
    host = host_of(HostRow(id="h", name="h", state="ready", agent="a"), body)
    assert amount_of(host.capacity, GUESTS) == most, "0: any number"


async def test_no_more_vms_are_placed_than_the_watchdog_stops_in_time(url):
    async with run_control_plane(url) as control:
        north = await control.join("north", watchdog=True)
        north.watched_vms = 2
        await is_known(control, "north", 2)
        for _ in range(2):
            await control.create_running(RESTART)
        third = await control.create("third", RESTART)
        await control.until_vm(third, lambda vm: state_of(vm) == "pending")
        await control.join("south")
        assert (await control.until_vm(third, is_running)).home.name == "south"


def test_remains_and_strangers_count_for_the_watchdog():
    assert count_watched((), HostBody(remains=("a",), strangers=("b", "c"))) == 3
    assert spec().when_lost != "restart"
