"""A fleet of agents in one process, in virtual time: its pace, its faults, its end."""

from __future__ import annotations

import asyncio

import pytest

from hostler.agent.connection.link import (
    AgentRejectedError,
    ControlPlaneBusyError,
    MessageRejectedError,
    ServerResponse,
)
from hostler.agent.messages import JOIN_PATH, REGISTER_PATH, HostSize, Order
from hostler.agent.simulated_fleet import FleetPlan, SimulatedFleet, tokens_from_list, tokens_from_server
from hostler.errors import InputError
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from hostler.runtime.transport import TransportError
from tests.agent.fake_control_plane import TOKEN, FakeControlPlane
from tests.async_tests import run_with
from tests.recorded_log import recorded_log

NAMES = tuple(f"host-{number}" for number in range(10))
TOKENS = tokens_from_list(NAMES, [TOKEN] * len(NAMES))


class PlaneWithDoor(FakeControlPlane):
    """A control plane that can hold registrations back, and counts those that wait."""

    def __init__(self):
        super().__init__()
        self.opened = asyncio.Event()
        self.waiting = 0
        self.joins = 0

    async def send(self, request):
        self.joins += request.path == JOIN_PATH
        if request.path == REGISTER_PATH:
            self.waiting += 1
            await self.opened.wait()
            self.waiting -= 1
        return await super().send(request)


def new_fleet(control_plane, plan, tokens, **options):
    return SimulatedFleet(control_plane, plan, tokens, clock=SimClock().now, **options)


def simulate(scenario):
    return run_simulation(scenario, 1, limit_s=20_000)


async def started(fleet, stopping):
    return asyncio.get_running_loop().create_task(fleet.run(stopping))


@run_with(simulate)
async def test_only_so_many_hosts_are_on_their_way_in_at_once():
    control_plane, stopping = PlaneWithDoor(), asyncio.Event()
    fleet = new_fleet(control_plane, FleetPlan(names=NAMES, at_once=3), TOKENS)
    task = await started(fleet, stopping)
    await asyncio.sleep(5)
    assert (control_plane.waiting, control_plane.joins, fleet.came) == (3, 3, set())
    control_plane.opened.set()
    await asyncio.sleep(5)
    assert fleet.came == set(NAMES)
    stopping.set()
    await task


@run_with(simulate)
async def test_a_fleet_stops_while_its_hosts_are_still_outside():
    control_plane, stopping = PlaneWithDoor(), asyncio.Event()
    task = await started(new_fleet(control_plane, FleetPlan(names=NAMES, at_once=3), TOKENS), stopping)
    await asyncio.sleep(5)
    stopping.set()
    await task
    assert control_plane.joins == 3


@run_with(simulate)
async def test_a_fleet_stops_while_it_waits_for_tokens():
    async def nothing(name):
        raise TransportError("nobody there")

    stopping, warned = asyncio.Event(), list[str]()
    fleet = new_fleet(FakeControlPlane(), FleetPlan(names=NAMES), nothing, log=recorded_log(warned))
    task = await started(fleet, stopping)
    await asyncio.sleep(100)
    stopping.set()
    await task
    assert "no token yet" in warned
    assert fleet.ended == {}


@run_with(simulate)
async def test_fleet_with_all_hosts_rejected_ends_with_the_reason():
    fleet = new_fleet(FakeControlPlane(), FleetPlan(names=NAMES), tokens_from_list(NAMES, ["forged"] * 10))
    with pytest.raises(AgentRejectedError):
        await fleet.run(asyncio.Event())
    assert set(fleet.ended) == set(NAMES)


@run_with(simulate)
async def test_tokens_that_are_refused_for_good_end_the_fleet():
    async def refused(name):
        if name == NAMES[-1]:
            raise InputError("no")
        return TOKEN

    with pytest.raises(InputError):
        await new_fleet(FakeControlPlane(), FleetPlan(names=NAMES), refused).run(asyncio.Event())


@run_with(simulate)
async def test_a_bug_in_one_host_is_not_kept_secret():
    async def broken(name):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await new_fleet(FakeControlPlane(), FleetPlan(names=NAMES), broken).run(asyncio.Event())


@run_with(simulate)
async def test_injected_faults_are_retried_until_they_pass():
    control_plane, stopping = FakeControlPlane(), asyncio.Event()
    size = HostSize(cpu_millis=4000, memory_bytes=2**32)
    fleet = new_fleet(control_plane, FleetPlan(names=NAMES, size=size, fail_rate=0.5), TOKENS)
    task = await started(fleet, stopping)
    control_plane.order(Order(vm="a", generation=1, power="running", memory_bytes=2**28))
    await asyncio.sleep(20_000 / 4)
    troubled = [report for one in control_plane.reports for report in one.vms if report.trouble is not None]
    assert troubled
    assert [driver.vms["a"].power for driver in fleet.drivers.values()] == ["running"] * 10
    stopping.set()
    await task


@run_with(simulate)
async def test_hosts_of_a_fleet_can_send_vms_to_each_other():
    control_plane, stopping = FakeControlPlane(), asyncio.Event()
    fleet = new_fleet(control_plane, FleetPlan(names=NAMES), TOKENS)
    task = await started(fleet, stopping)
    await asyncio.sleep(5)
    assert all(registration.capabilities.live_migration for registration in control_plane.registrations)
    stopping.set()
    await task


class FixedAnswers:
    """A server that always answers the same."""

    def __init__(self, status, body):
        self._response = ServerResponse(status=status, body=body)

    async def send(self, request):
        return self._response

    async def close(self):
        pass


def test_of_a_token_the_secret_is_taken():
    assert (
        asyncio.run(tokens_from_server(FixedAnswers(201, b'{"token": {"id": "1"}, "secret": "t"}'), "key")("host"))
        == "t"
    )


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (403, b"", InputError),
        (404, b"", InputError),
        (200, b"<html>", InputError),
        (201, b'{"token": {"id": "1"}}', InputError),
        (409, b"{}", MessageRejectedError),
        (429, b"", ControlPlaneBusyError),
        (503, b"", ControlPlaneBusyError),
    ],
)
def test_answer_without_token_says_whether_waiting_helps(status, body, error):
    with pytest.raises(error):
        asyncio.run(tokens_from_server(FixedAnswers(status, body), "key")("host"))
