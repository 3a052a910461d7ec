"""A fleet of agents in one process, in virtual time: its pace, its faults, its end."""

from __future__ import annotations

import asyncio

import pytest

from hostler.agent.fleet import Fleet, FleetPlan, asked_tokens, listed_tokens
from hostler.agent.link import BusyError, RefusedError, RejectedError
from hostler.agent.messages import JOIN_PATH, REGISTER_PATH, HostSize, Order
from hostler.agent.transport import Response, TransportError
from hostler.errors import InputError
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from tests.agent.plane import TOKEN, Plane

NAMES = tuple(f"host-{number}" for number in range(10))
TOKENS = listed_tokens(NAMES, [TOKEN] * len(NAMES))


class Door(Plane):
    """A plane whose door may be shut: whoever wants to register waits, and is counted."""

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


def new_fleet(plane, plan, tokens, **options):
    return Fleet(plane, plan, tokens, clock=SimClock().now, **options)


def simulate(scenario):
    return run_simulation(scenario, 1, limit_s=20_000)


async def started(fleet, stopping):
    return asyncio.get_running_loop().create_task(fleet.run(stopping))


def test_only_so_many_hosts_are_on_their_way_in_at_once():
    async def scenario():
        plane, stopping = Door(), asyncio.Event()
        fleet = new_fleet(plane, FleetPlan(names=NAMES, at_once=3), TOKENS)
        task = await started(fleet, stopping)
        await asyncio.sleep(5)
        assert (plane.waiting, plane.joins, fleet.came) == (3, 3, set())
        plane.opened.set()
        await asyncio.sleep(5)
        assert fleet.came == set(NAMES)
        stopping.set()
        await task

    simulate(scenario)


def test_a_fleet_stops_while_its_hosts_are_still_outside():
    async def scenario():
        plane, stopping = Door(), asyncio.Event()
        task = await started(new_fleet(plane, FleetPlan(names=NAMES, at_once=3), TOKENS), stopping)
        await asyncio.sleep(5)
        stopping.set()
        await task
        assert plane.joins == 3

    simulate(scenario)


def test_a_fleet_stops_while_it_waits_for_tokens():
    async def nothing(name):
        raise TransportError("nobody there")

    async def scenario():
        stopping, warned = asyncio.Event(), []
        fleet = new_fleet(
            Plane(), FleetPlan(names=NAMES), nothing, warn=lambda message, **fields: warned.append(message)
        )
        task = await started(fleet, stopping)
        await asyncio.sleep(100)
        stopping.set()
        await task
        assert "no token yet" in warned
        assert fleet.ended == {}

    simulate(scenario)


def test_a_fleet_of_which_all_are_rejected_ends_with_the_reason():
    async def scenario():
        fleet = new_fleet(Plane(), FleetPlan(names=NAMES), listed_tokens(NAMES, ["forged"] * 10))
        with pytest.raises(RejectedError):
            await fleet.run(asyncio.Event())
        assert set(fleet.ended) == set(NAMES)

    simulate(scenario)


def test_tokens_that_are_refused_for_good_end_the_fleet():
    async def refused(name):
        if name == NAMES[-1]:
            raise InputError("no")
        return TOKEN

    async def scenario():
        with pytest.raises(InputError):
            await new_fleet(Plane(), FleetPlan(names=NAMES), refused).run(asyncio.Event())

    simulate(scenario)


def test_a_bug_in_one_host_is_not_kept_secret():
    async def broken(name):
        raise ZeroDivisionError

    async def scenario():
        with pytest.raises(ZeroDivisionError):
            await new_fleet(Plane(), FleetPlan(names=NAMES), broken).run(asyncio.Event())

    simulate(scenario)


def test_deeds_fail_as_often_as_asked_for_and_are_tried_again_until_they_work():
    async def scenario():
        plane, stopping = Plane(), asyncio.Event()
        size = HostSize(cpu_millis=4000, memory_bytes=2**32)
        fleet = new_fleet(plane, FleetPlan(names=NAMES, size=size, fail_rate=0.5), TOKENS)
        task = await started(fleet, stopping)
        plane.order(Order(vm="a", generation=1, power="running", memory_bytes=2**28))
        await asyncio.sleep(20_000 / 4)
        troubled = [report for one in plane.reports for report in one.vms if report.trouble is not None]
        assert troubled
        assert [driver.vms["a"].power for driver in fleet.drivers.values()] == ["running"] * 10
        stopping.set()
        await task

    simulate(scenario)


def test_hosts_of_a_fleet_can_send_vms_to_each_other():
    async def scenario():
        plane, stopping = Plane(), asyncio.Event()
        fleet = new_fleet(plane, FleetPlan(names=NAMES), TOKENS)
        task = await started(fleet, stopping)
        await asyncio.sleep(5)
        assert all(registration.capabilities.live_migration for registration in plane.registrations)
        stopping.set()
        await task

    simulate(scenario)


class Answers:
    """A server that always answers the same."""

    def __init__(self, status, body):
        self._response = Response(status=status, body=body)

    async def send(self, request):
        return self._response

    async def close(self):
        pass


def test_of_a_token_the_secret_is_taken():
    assert asyncio.run(asked_tokens(Answers(201, b'{"token": {"id": "1"}, "secret": "t"}'), "key")("host")) == "t"


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (403, b"", InputError),
        (404, b"", InputError),
        (200, b"<html>", InputError),
        (201, b'{"token": {"id": "1"}}', InputError),
        (409, b"{}", RefusedError),
        (429, b"", BusyError),
        (503, b"", BusyError),
    ],
)
def test_an_answer_without_a_token_is_an_error_that_says_whether_waiting_helps(status, body, error):
    with pytest.raises(error):
        asyncio.run(asked_tokens(Answers(status, body), "key")("host"))
