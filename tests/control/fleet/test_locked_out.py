"""Credentials that are revoked or rotated: who is locked out, who comes back, and answers that got lost."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.agent.connection.credentials import MemoryCredentials
from hostler.agent.connection.link import AgentRejectedError, ServerResponse
from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, Join, Register, Registered
from hostler.control.access import UnauthenticatedError, tokens
from hostler.control.fleet import operator_actions
from hostler.control.fleet.operator_actions import lock_out
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.vms.state import state_of
from hostler.runtime.transport import Request, TransportError
from tests.control.fleet.control_plane import ADMIN, ControlPlane, is_running, run_control_plane, spec
from tests.control.fleet.replicas_and_hosts import AgentWire, HostWithAgent
from tests.wait import until


def shut(connection: Connection, host: str, control: ControlPlane) -> None:
    tokens.revoke_credential(connection, host, by=ADMIN)
    lock_out(connection, host, actor="key:1", now_ns=control.clock.wall())


async def revoke(control: ControlPlane, host: HostWithAgent) -> None:
    """Lock an agent out as the service does."""
    await control.leader.database.write(lambda connection: shut(connection, host.id, control))
    control.leader.fleet.forget(host.id)


async def test_an_agent_that_is_locked_out_ends_and_its_vms_run_on(either_url):
    async with run_control_plane(either_url) as control:
        north = await control.join("north")
        vm = await control.create_running()
        await revoke(control, north)
        error = await north.ended()
        assert isinstance(error, AgentRejectedError)
        assert "401" in error.message
        assert (await control.row("north")).state == "offline"
        assert state_of(await control.vm(vm)) == "unknown"
        assert north.power(vm) == "running"
        for path in (REGISTER_PATH, REPORT_PATH):
            old = next(request for request in north.wire.seen if request.path == path)
            assert (await north.wire.replica.send(old)).status == 401


async def test_a_new_token_for_that_host_lets_it_join_again_with_its_vms(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running()
        identity = north.id
        await revoke(control, north)
        await north.ended()
        north.credentials, north.token = MemoryCredentials(), await control.token("north")
        north.start()
        await control.until_host("north", "ready")
        assert north.id == identity
        await control.until_vm(vm, is_running)


async def test_another_replica_locks_it_out_as_soon_as_it_has_read_the_roll_again(shared_url):
    async with run_control_plane(shared_url, replicas=2) as control:
        there = next(one for one in control.replicas if one is not control.leader)
        north = await control.join("north", replica=there)
        await until(lambda: (REPORT_PATH, 200) in north.wire.answers)
        await revoke(control, north)
        control.clock.jump(control.times.roll_s + 1.0)
        assert isinstance(await north.ended(), AgentRejectedError)


async def test_nothing_is_placed_on_a_host_whose_agent_is_locked_out(url):
    async with run_control_plane(url) as control:
        north, south = await control.join("north"), await control.join("south")
        await revoke(control, north)
        vms = [await control.create_running(spec()) for _ in range(3)]
        assert [control.runs_on(vm) for vm in vms] == [[south.name]] * 3
        await north.ended()


async def test_a_poll_that_waits_gets_no_orders_after_its_credential_was_revoked(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        row = await control.row("north")
        north.wire.holds_polls = True
        waiting = asyncio.ensure_future(control.leader.fleet.orders(north.credential, row.generation, 30.0))
        await until(lambda: bool(control.leader.books.subscriptions._by_key.get(("host", north.id))))
        await revoke(control, north)
        with pytest.raises(UnauthenticatedError):
            await waiting
        await north.ended()


async def test_a_host_that_never_registered_can_be_locked_out(url):
    async with run_control_plane(url) as control:
        joined = await control.leader.fleet.join(Join(token=await control.token(), name="north"))
        await control.leader.database.write(lambda connection: shut(connection, joined.host, control))
        control.leader.fleet.forget(joined.host)
        assert (await control.row("north")).state == "joined"
        with pytest.raises(UnauthenticatedError):
            await control.leader.fleet.orders(joined.credential, 0, 0.0)


async def until_used(control: ControlPlane, name: str) -> None:
    """Wait until the newest credential of a host was used, so that the one before has an end."""

    async def look() -> bool:
        rows = await control.database.read(hosts.list_credentials)
        return not any(tokens.is_new_credential_unused(row.old_credential_until_ns) for row in rows if row.name == name)

    await until(look)


class _Forgetful(AgentWire):
    """A wire that loses the answers which hold a new credential, so many of them."""

    losses = 1

    async def send(self, request: Request) -> ServerResponse:
        response = await super().send(request)
        is_fresh = request.path == REGISTER_PATH and response.status == 200
        if is_fresh and self.losses and msgspec.json.decode(response.body, type=Registered).credential:
            self.losses -= 1
            raise TransportError("the answer was lost")
        return response


async def test_agent_that_lost_its_new_credential_gets_another(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await north.stop()
        north.wire = _Forgetful(control.leader)
        north.start()
        await until(lambda: (REPORT_PATH, 200) in north.wire.answers)
        first = north.credential
        await control.operate(operator_actions.rotate, north)
        await until(lambda: north.credential != first)
        assert north.wire.losses == 0
        await until_used(control, "north")
        control.clock.jump(tokens.OVERLAP_S + 1.0)
        await control.until_host("north", "ready")
        await control.create_running()
        assert north.error is None
        with pytest.raises(UnauthenticatedError):
            await control.leader.fleet.orders(first, 0, 0.0)


async def test_agent_killed_before_saving_credential_gets_another(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        first = north.credential
        await north.stop()
        await control.operate(operator_actions.rotate, north)
        last = [request for request in north.wire.seen if request.path == REGISTER_PATH][-1]
        message = msgspec.structs.replace(msgspec.json.decode(last.body, type=Register), sequence=2)
        lost = (await control.leader.fleet.register(first, message)).credential
        assert lost, "it was given, and is known to nobody"
        control.clock.jump(100 * tokens.OVERLAP_S)
        north.start()
        await until(lambda: north.credential not in (first, lost))
        await until_used(control, "north")
        await control.until_host("north", "ready")
        assert north.error is None
        for gone in (lost, first):
            with pytest.raises(UnauthenticatedError):
                await control.leader.fleet.orders(gone, 0, 0.0)
            control.clock.jump(tokens.OVERLAP_S + 1.0)
