"""Credentials that ended on one replica while another still believes in them: nothing is written by them."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.agent.messages import REGISTER_PATH, Join, Register
from hostler.control.access import UnauthenticatedError, tokens
from hostler.control.fleet.errors import HostDeletedError
from hostler.control.fleet.hosts import read_body
from hostler.control.fleet.lockout import lock_out
from hostler.control.fleet.operating import delete_host
from hostler.control.fleet.times import times_for
from hostler.control.store import Connection
from tests.control.fleet.scene import ADMIN, SETTINGS, Scene, scene
from tests.control.fleet.sides import HostSide, Replica

BELIEVING = msgspec.structs.replace(times_for(SETTINGS), roll_s=3600.0)  # what a replica knows it knows for long


def other(world: Scene) -> Replica:
    return next(one for one in world.replicas if one is not world.leader)


async def left_behind(world: Scene, name: str) -> tuple[HostSide, Register]:
    """Return a host whose agent has ended, and its registration by another agent; the other replica knows the host."""
    host = await world.join(name, replica=other(world))
    await host.stop()
    last = [request for request in host.wire.seen if request.path == REGISTER_PATH][-1]
    message = msgspec.json.decode(last.body, type=Register)
    return host, msgspec.structs.replace(message, agent="another-agent", sequence=1)


async def on_the_leader(world: Scene, host: HostSide, work) -> None:
    await world.leader.database.write(work)
    world.leader.fleet.forget(host.id)


def test_a_revoked_credential_registers_nobody_on_a_replica_that_has_not_heard_of_it(shared_url):
    async def story() -> None:
        async with scene(shared_url, replicas=2, times=BELIEVING) as world:
            north, message = await left_behind(world, "north")

            def revoke(connection: Connection) -> None:
                tokens.revoke_credential(connection, north.id, by=ADMIN)
                lock_out(connection, north.id, actor="key:1", now_ns=world.clock.wall())

            await on_the_leader(world, north, revoke)
            before = await world.row("north")
            for _ in range(2):  # by what it knows, and after it has looked again
                with pytest.raises(UnauthenticatedError):
                    await other(world).fleet.register(north.credential, message)
            assert before.state == "offline"
            assert await world.row("north") == before

    asyncio.run(story())


def test_who_joined_anew_is_not_locked_out_by_the_credential_before(shared_url):
    async def story() -> None:
        async with scene(shared_url, replicas=2, times=BELIEVING) as world:
            north, message = await left_behind(world, "north")
            fleet, true = world.leader.fleet, msgspec.structs.replace(message, agent="true-agent")
            joined = await fleet.join(Join(token=await world.token("north"), name="north"))
            await fleet.register(joined.credential, true)
            with pytest.raises(UnauthenticatedError):
                await other(world).fleet.register(north.credential, message)
            body = read_body(await world.row("north"))
            assert "true-agent" not in body.former_agents
            again = msgspec.structs.replace(true, sequence=2)
            assert (await fleet.register(joined.credential, again)).epoch == (await world.row("north")).epoch

    asyncio.run(story())


def test_a_credential_that_was_rotated_registers_within_its_time_and_not_later(shared_url):
    async def story() -> None:
        async with scene(shared_url, replicas=2, times=BELIEVING) as world:
            north, message = await left_behind(world, "north")
            fresh: list[str] = []

            def rotate(connection: Connection) -> None:
                found = tokens.rotate_credential(connection, north.credential, now_ns=world.clock.wall(), random=bytes)
                fresh.append(found[1])

            await on_the_leader(world, north, rotate)
            await world.leader.fleet.orders(fresh[0], 0, 0.0)
            await other(world).fleet.register(north.credential, message)
            world.clock.jump(tokens.OVERLAP_S + 1.0)
            late = msgspec.structs.replace(message, agent="a-later-agent")
            before = await world.row("north")
            with pytest.raises(UnauthenticatedError):
                await other(world).fleet.register(north.credential, late)
            assert await world.row("north") == before

    asyncio.run(story())


def test_of_a_deleted_host_it_is_told_that_it_was_deleted(shared_url):
    async def story() -> None:
        async with scene(shared_url, replicas=2, times=BELIEVING) as world:
            north, message = await left_behind(world, "north")

            def delete(connection: Connection) -> None:
                delete_host(connection, north.id, confirm="north", actor="key:1", now_ns=world.clock.wall())

            await on_the_leader(world, north, delete)
            with pytest.raises(HostDeletedError):
                await other(world).fleet.register(north.credential, message)

    asyncio.run(story())
