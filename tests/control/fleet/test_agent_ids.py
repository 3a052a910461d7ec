"""Ids and credentials of agents: the first agent with an id keeps it, and of two agents of one host one counts."""

from __future__ import annotations

import asyncio
import uuid

import msgspec
import pytest

from hostler.agent.drivers.fake import FakeDriver
from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, Register
from hostler.control.fleet.agents.sessions import AgentSession, AgentSessions
from hostler.control.fleet.errors import AgentInUseError, StaleReportError
from hostler.control.store.history import log
from tests.control.fleet.control_plane import SIZE, ControlPlane, run_control_plane
from tests.control.fleet.replicas_and_hosts import FleetReplica, HostWithAgent
from tests.control.fleet.test_refusals import last_report, reports_of
from tests.wait import until


def registration_of(host: HostWithAgent) -> Register:
    last = [request for request in host.wire.seen if request.path == REGISTER_PATH][-1]
    return msgspec.json.decode(last.body, type=Register)


async def test_registration_with_another_hosts_agent_id_is_rejected(url):
    async with run_control_plane(url) as control:
        north, south = await control.join("north"), await control.join("south")
        await until(lambda: bool(reports_of(north)))
        north.wire.is_cut = south.wire.is_cut = True
        taken = last_report(north).agent
        before = await control.everything()
        forged = msgspec.structs.replace(registration_of(south), agent=taken, sequence=100)
        with pytest.raises(AgentInUseError):
            await control.leader.fleet.register(south.credential, forged)
        assert await control.everything() == before
        good = msgspec.structs.replace(last_report(north), sequence=10_000)
        await control.leader.fleet.report(north.credential, good)


async def test_foreign_agent_id_is_rejected_on_replica_that_never_heard_it(shared_url):
    async with run_control_plane(shared_url, replicas=2) as control:
        north, south = await control.join("north"), await control.join("south", replica=other(control))
        await until(lambda: bool(reports_of(north)))
        north.wire.is_cut = south.wire.is_cut = True
        before = await control.everything()
        forged = msgspec.structs.replace(registration_of(south), agent=last_report(north).agent, sequence=100)
        with pytest.raises(AgentInUseError):
            await other(control).fleet.register(south.credential, forged)
        assert await control.everything() == before


async def test_agent_id_is_free_after_reregistration_or_deletion(url):
    async with run_control_plane(url) as control:
        north, south = await control.join("north"), await control.join("south")
        await until(lambda: bool(reports_of(north)))
        taken = last_report(north).agent
        await north.stop()
        north.wire.answers.clear()
        north.start()
        await until(lambda: registration_of(north).agent != taken and (REPORT_PATH, 200) in north.wire.answers)
        south.wire.is_cut = True
        message = msgspec.structs.replace(registration_of(south), agent=taken, sequence=100)
        assert (await control.leader.fleet.register(south.credential, message)).epoch


def other(control: ControlPlane) -> FleetReplica:
    return next(one for one in control.replicas if one is not control.leader)


def twin_of(control: ControlPlane, host: HostWithAgent, replica: FleetReplica) -> HostWithAgent:
    """Return a second machine with a copy of a host's credential, whose agent talks to a replica."""
    driver = FakeDriver(host.name, size=SIZE, wires=control.wires)
    twin = HostWithAgent(control.clock, host.name, driver=driver, replica=replica, settings=host.settings)
    twin.credentials.save(host.credentials.load())
    control.hosts[f"{host.name} {uuid.uuid4().hex}"] = twin
    return twin


async def test_last_of_two_agents_with_one_credential_is_believed(shared_url):
    async with run_control_plane(shared_url, replicas=2) as control:
        first = await control.join("north")
        vm = await control.create_running()
        twin = twin_of(control, first, other(control))
        twin.start()
        await until(lambda: (REPORT_PATH, 200) in twin.wire.answers)
        await until(lambda: "another agent has taken this host over" in " ".join(first.told))
        await until(lambda: not first.wire.in_flight)  # what it said before it was told
        answers = len(first.wire.answers)
        await until(lambda: len(first.wire.answers) > answers)
        assert (REPORT_PATH, 200) not in first.wire.answers[answers:]
        await control.until_vm(vm, lambda one: one.reported == "running")
        assert (await control.row("north")).agent == registration_of(twin).agent
        assert twin.error is None


async def test_heartbeat_is_rejected_after_registration_elsewhere(shared_url):
    async with run_control_plane(shared_url, replicas=2) as control:
        first, there = await control.join("north", replica=other(control)), other(control)
        await until(lambda: bool(reports_of(first)))
        first.wire.is_cut = True
        await until(lambda: not first.wire.in_flight)
        head = await control.database.read(log.head)
        await until(lambda: there.books.seq >= head)  # it knows of all registrations so far
        beat = msgspec.structs.replace(last_report(first), sequence=10_000)
        known = there.books.subscriptions.count_notices(first.id)
        message = msgspec.structs.replace(registration_of(first), agent="a second one", sequence=1)
        await control.leader.fleet.register(first.credential, message)
        await until(lambda: there.books.subscriptions.count_notices(first.id) > known)
        with pytest.raises(StaleReportError):
            await there.fleet.report(first.credential, beat)


async def test_orders_are_given_under_the_registration_that_counts_and_no_other(either_url):
    async with run_control_plane(either_url) as control:
        north, fleet = await control.join("north"), control.leader.fleet
        await control.create_running()
        north.wire.is_cut = True
        await until(lambda: not north.wire.polling)
        old = (await control.row("north")).epoch
        waiting = asyncio.ensure_future(fleet.orders(north.credential, 0, 0.0, epoch=old))
        assert (await waiting).orders
        generation = (await control.row("north")).generation
        waiting = asyncio.ensure_future(fleet.orders(north.credential, generation, 60.0, epoch=old))
        message = msgspec.structs.replace(registration_of(north), agent="a second one", sequence=1)
        new = (await fleet.register(north.credential, message)).epoch
        with pytest.raises(StaleReportError):  # the news of it ends a poll that waits
            await waiting
        assert (await fleet.orders(north.credential, 0, 0.0, epoch=new)).orders


def session(host: str, agent: str, epoch: int = 1) -> AgentSession:
    return AgentSession(host=host, boot="b", agent=agent, epoch=epoch, since=0, generation=1, is_watched=False)


def test_an_older_registration_does_not_count_beside_a_newer_one():
    sessions = AgentSessions()
    sessions.open(session("north", "y", epoch=2))
    sessions.open(session("north", "x", epoch=1))
    found = sessions.find("north")
    assert found is not None
    assert found.agent == "y"
