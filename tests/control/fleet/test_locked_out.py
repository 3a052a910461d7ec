"""Credentials that are revoked or rotated: who is locked out, who comes back, and answers that got lost."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.agent.credentials import MemoryCredentials
from hostler.agent.link import RejectedError
from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, Join, Register, Registered
from hostler.agent.transport import Request, Response, TransportError
from hostler.control.access import UnauthenticatedError, tokens
from hostler.control.fleet import operating
from hostler.control.fleet.lockout import lock_out
from hostler.control.store import Connection, hosts
from hostler.control.vms.state import state_of
from tests.control.fleet.scene import ADMIN, Scene, is_running, scene, spec
from tests.control.fleet.sides import HostSide, Wire
from tests.wait import until


def shut(connection: Connection, host: str, world: Scene) -> None:
    tokens.revoke_credential(connection, host, by=ADMIN)
    lock_out(connection, host, actor="key:1", now_ns=world.clock.wall())


async def revoke(world: Scene, host: HostSide) -> None:
    """Lock an agent out as the service does."""
    await world.leader.database.write(lambda connection: shut(connection, host.id, world))
    world.leader.fleet.forget(host.id)


def test_an_agent_that_is_locked_out_ends_and_its_vms_run_on(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            north = await world.join("north")
            vm = await world.create_running()
            await revoke(world, north)
            error = await north.ended()
            assert isinstance(error, RejectedError)
            assert "401" in error.message
            assert (await world.row("north")).state == "offline"
            assert state_of(await world.vm(vm)) == "unknown"
            assert north.power(vm) == "running"
            for path in (REGISTER_PATH, REPORT_PATH):
                old = next(request for request in north.wire.seen if request.path == path)
                assert (await north.wire.replica.send(old)).status == 401

    asyncio.run(story())


def test_a_new_token_for_that_host_lets_it_join_again_with_its_vms(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running()
            identity = north.id
            await revoke(world, north)
            await north.ended()
            north.credentials, north.token = MemoryCredentials(), await world.token("north")
            north.start()
            await world.until_host("north", "ready")
            assert north.id == identity
            await world.until_vm(vm, is_running)

    asyncio.run(story())


def test_another_replica_locks_it_out_as_soon_as_it_has_read_the_roll_anew(shared_url):
    async def story() -> None:
        async with scene(shared_url, replicas=2) as world:
            there = next(one for one in world.replicas if one is not world.leader)
            north = await world.join("north", replica=there)
            await until(lambda: (REPORT_PATH, 200) in north.wire.answers)
            await revoke(world, north)
            world.clock.jump(world.times.roll_s + 1.0)
            assert isinstance(await north.ended(), RejectedError)

    asyncio.run(story())


def test_nothing_is_placed_on_a_host_whose_agent_is_locked_out(url):
    async def story() -> None:
        async with scene(url) as world:
            north, south = await world.join("north"), await world.join("south")
            await revoke(world, north)
            vms = [await world.create_running(spec()) for _ in range(3)]
            assert [world.runs_on(vm) for vm in vms] == [[south.name]] * 3
            await north.ended()

    asyncio.run(story())


def test_a_poll_that_waits_gets_no_orders_after_its_credential_was_revoked(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            row = await world.row("north")
            north.wire.holds_polls = True
            waiting = asyncio.ensure_future(world.leader.fleet.orders(north.credential, row.generation, 30.0))
            await until(lambda: bool(world.leader.books.watchers._by_key.get(("host", north.id))))
            await revoke(world, north)
            with pytest.raises(UnauthenticatedError):
                await waiting
            await north.ended()

    asyncio.run(story())


def test_a_host_that_never_registered_can_be_locked_out(url):
    async def story() -> None:
        async with scene(url) as world:
            joined = await world.leader.fleet.join(Join(token=await world.token(), name="north"))
            await world.leader.database.write(lambda connection: shut(connection, joined.host, world))
            world.leader.fleet.forget(joined.host)
            assert (await world.row("north")).state == "joined"
            with pytest.raises(UnauthenticatedError):
                await world.leader.fleet.orders(joined.credential, 0, 0.0)

    asyncio.run(story())


async def until_used(world: Scene, name: str) -> None:
    """Wait until the newest credential of a host was used, so that the one before has an end."""

    async def look() -> bool:
        rows = await world.database.read(hosts.roll)
        return not any(tokens.is_awaited(row.old_credential_until_ns) for row in rows if row.name == name)

    await until(look)


class _Forgetful(Wire):
    """A wire that loses the answers which hold a new credential, so many of them."""

    losses = 1

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        is_fresh = request.path == REGISTER_PATH and response.status == 200
        if is_fresh and self.losses and msgspec.json.decode(response.body, type=Registered).credential:
            self.losses -= 1
            raise TransportError("the answer was lost")
        return response


def test_an_agent_whose_new_credential_got_lost_on_the_way_is_given_another(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            await north.stop()
            north.wire = _Forgetful(world.leader)
            north.start()
            await until(lambda: (REPORT_PATH, 200) in north.wire.answers)
            first = north.credential
            await world.operate(operating.rotate, north)
            await until(lambda: north.credential != first)
            assert north.wire.losses == 0
            await until_used(world, "north")
            world.clock.jump(tokens.OVERLAP_S + 1.0)
            await world.until_host("north", "ready")
            await world.create_running()
            assert north.error is None
            with pytest.raises(UnauthenticatedError):
                await world.leader.fleet.orders(first, 0, 0.0)

    asyncio.run(story())


def test_an_agent_that_was_killed_before_it_kept_its_new_credential_is_given_another_however_late(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            first = north.credential
            await north.stop()
            await world.operate(operating.rotate, north)
            last = [request for request in north.wire.seen if request.path == REGISTER_PATH][-1]
            message = msgspec.structs.replace(msgspec.json.decode(last.body, type=Register), sequence=2)
            lost = (await world.leader.fleet.register(first, message)).credential
            assert lost, "it was given, and is known to nobody"
            world.clock.jump(100 * tokens.OVERLAP_S)
            north.start()
            await until(lambda: north.credential not in (first, lost))
            await until_used(world, "north")
            await world.until_host("north", "ready")
            assert north.error is None
            for gone in (lost, first):
                with pytest.raises(UnauthenticatedError):
                    await world.leader.fleet.orders(gone, 0, 0.0)
                world.clock.jump(tokens.OVERLAP_S + 1.0)

    asyncio.run(story())
