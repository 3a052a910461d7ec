"""Ids and credentials of agents: whoever has an id first keeps it, and of two agents of one host one is believed."""

from __future__ import annotations

import asyncio
import uuid

import msgspec
import pytest

from hostler.agent.drivers.fake import FakeDriver
from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, Register
from hostler.control.fleet.errors import AgentInUseError, StaleReportError
from hostler.control.fleet.sessions import Session, Sessions
from hostler.control.store import log
from tests.control.fleet.scene import SIZE, Scene, scene
from tests.control.fleet.sides import HostSide, Replica
from tests.control.fleet.test_refusals import last_report, reports_of
from tests.wait import until


def registration_of(host: HostSide) -> Register:
    last = [request for request in host.wire.seen if request.path == REGISTER_PATH][-1]
    return msgspec.json.decode(last.body, type=Register)


def test_a_host_that_registers_with_the_id_of_anothers_agent_is_refused_and_the_first_is_heard_on(url):
    async def story() -> None:
        async with scene(url) as world:
            north, south = await world.join("north"), await world.join("south")
            await until(lambda: bool(reports_of(north)))
            north.wire.is_cut = south.wire.is_cut = True
            taken = last_report(north).agent
            before = await world.everything()
            forged = msgspec.structs.replace(registration_of(south), agent=taken, sequence=100)
            with pytest.raises(AgentInUseError):
                await world.leader.fleet.register(south.credential, forged)
            assert await world.everything() == before
            good = msgspec.structs.replace(last_report(north), sequence=10_000)
            await world.leader.fleet.report(north.credential, good)

    asyncio.run(story())


def test_the_id_of_another_hosts_agent_is_refused_on_a_replica_that_never_heard_that_agent(shared_url):
    async def story() -> None:
        async with scene(shared_url, replicas=2) as world:
            north, south = await world.join("north"), await world.join("south", replica=other(world))
            await until(lambda: bool(reports_of(north)))
            north.wire.is_cut = south.wire.is_cut = True
            before = await world.everything()
            forged = msgspec.structs.replace(registration_of(south), agent=last_report(north).agent, sequence=100)
            with pytest.raises(AgentInUseError):
                await other(world).fleet.register(south.credential, forged)
            assert await world.everything() == before

    asyncio.run(story())


def test_an_id_is_free_again_when_its_host_registered_with_another_or_was_deleted(url):
    async def story() -> None:
        async with scene(url) as world:
            north, south = await world.join("north"), await world.join("south")
            await until(lambda: bool(reports_of(north)))
            taken = last_report(north).agent
            await north.stop()
            north.wire.answers.clear()
            north.start()
            await until(lambda: registration_of(north).agent != taken and (REPORT_PATH, 200) in north.wire.answers)
            south.wire.is_cut = True
            message = msgspec.structs.replace(registration_of(south), agent=taken, sequence=100)
            assert (await world.leader.fleet.register(south.credential, message)).epoch

    asyncio.run(story())


def other(world: Scene) -> Replica:
    return next(one for one in world.replicas if one is not world.leader)


def twin_of(world: Scene, host: HostSide, replica: Replica) -> HostSide:
    """Return a second machine with a copy of a host's credential, whose agent talks to a replica."""
    driver = FakeDriver(host.name, size=SIZE, wires=world.wires)
    twin = HostSide(world.clock, host.name, driver=driver, replica=replica, settings=host.settings)
    twin.credentials.save(host.credentials.load())
    world.hosts[f"{host.name} {uuid.uuid4().hex}"] = twin
    return twin


def test_of_two_agents_with_one_credential_on_two_replicas_the_last_to_register_is_believed(shared_url):
    async def story() -> None:
        async with scene(shared_url, replicas=2) as world:
            first = await world.join("north")
            vm = await world.create_running()
            twin = twin_of(world, first, other(world))
            twin.start()
            await until(lambda: (REPORT_PATH, 200) in twin.wire.answers)
            await until(lambda: "another agent has taken this host over" in " ".join(first.told))
            await until(lambda: not first.wire.in_flight)  # what it said before it was told
            answers = len(first.wire.answers)
            await until(lambda: len(first.wire.answers) > answers)
            assert (REPORT_PATH, 200) not in first.wire.answers[answers:]
            await world.until_vm(vm, lambda one: one.reported == "running")
            assert (await world.row("north")).agent == registration_of(twin).agent
            assert twin.error is None

    asyncio.run(story())


def test_a_heartbeat_to_a_replica_is_refused_once_it_has_news_of_a_registration_with_another(shared_url):
    async def story() -> None:
        async with scene(shared_url, replicas=2) as world:
            first, there = await world.join("north", replica=other(world)), other(world)
            await until(lambda: bool(reports_of(first)))
            first.wire.is_cut = True
            await until(lambda: not first.wire.in_flight)
            head = await world.database.read(log.head)
            await until(lambda: there.books.seq >= head)  # it knows of all registrations so far
            beat = msgspec.structs.replace(last_report(first), sequence=10_000)
            known = there.books.watchers.news_of(first.id)
            message = msgspec.structs.replace(registration_of(first), agent="a second one", sequence=1)
            await world.leader.fleet.register(first.credential, message)
            await until(lambda: there.books.watchers.news_of(first.id) > known)
            with pytest.raises(StaleReportError):
                await there.fleet.report(first.credential, beat)

    asyncio.run(story())


def test_orders_are_given_under_the_registration_that_counts_and_no_other(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            north, fleet = await world.join("north"), world.leader.fleet
            await world.create_running()
            north.wire.is_cut = True
            await until(lambda: not north.wire.polling)
            old = (await world.row("north")).epoch
            waiting = asyncio.ensure_future(fleet.orders(north.credential, 0, 0.0, epoch=old))
            assert (await waiting).orders
            generation = (await world.row("north")).generation
            waiting = asyncio.ensure_future(fleet.orders(north.credential, generation, 60.0, epoch=old))
            message = msgspec.structs.replace(registration_of(north), agent="a second one", sequence=1)
            new = (await fleet.register(north.credential, message)).epoch
            with pytest.raises(StaleReportError):  # the news of it ends a poll that waits
                await waiting
            assert (await fleet.orders(north.credential, 0, 0.0, epoch=new)).orders

    asyncio.run(story())


def session(host: str, agent: str, epoch: int = 1) -> Session:
    return Session(host=host, boot="b", agent=agent, epoch=epoch, since=0, generation=1, is_watched=False)


def test_an_older_registration_does_not_count_beside_a_newer_one():
    sessions = Sessions()
    sessions.open(session("north", "y", epoch=2))
    sessions.open(session("north", "x", epoch=1))
    found = sessions.find("north")
    assert found is not None
    assert found.agent == "y"
