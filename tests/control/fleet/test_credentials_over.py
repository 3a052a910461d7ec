"""Credentials that ended on one replica while another still believes in them: nothing is written by them."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import REGISTER_PATH, Join, Register
from hostler.control.access import UnauthenticatedError, tokens
from hostler.control.fleet.errors import HostDeletedError
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.fleet.operator_actions import delete_host, lock_out
from hostler.control.fleet.times import times_for
from hostler.control.store import Connection
from tests.control.fleet.control_plane import ADMIN, SETTINGS, ControlPlane, run_control_plane
from tests.control.fleet.replicas_and_hosts import FleetReplica, HostWithAgent

BELIEVING = msgspec.structs.replace(times_for(SETTINGS), roll_s=3600.0)  # what a replica knows it knows for long


def other(control: ControlPlane) -> FleetReplica:
    return next(one for one in control.replicas if one is not control.leader)


async def left_behind(control: ControlPlane, name: str) -> tuple[HostWithAgent, Register]:
    """Return a host whose agent has ended, and its registration by another agent; the other replica knows the host."""
    host = await control.join(name, replica=other(control))
    await host.stop()
    last = [request for request in host.wire.seen if request.path == REGISTER_PATH][-1]
    message = msgspec.json.decode(last.body, type=Register)
    return host, msgspec.structs.replace(message, agent="another-agent", sequence=1)


async def on_the_leader(control: ControlPlane, host: HostWithAgent, work) -> None:
    await control.leader.database.write(work)
    control.leader.fleet.forget(host.id)


async def test_revoked_credential_is_rejected_on_replica_that_missed_it(shared_url):
    async with run_control_plane(shared_url, replicas=2, times=BELIEVING) as control:
        north, message = await left_behind(control, "north")

        def revoke(connection: Connection) -> None:
            tokens.revoke_credential(connection, north.id, by=ADMIN)
            lock_out(connection, north.id, actor="key:1", now_ns=control.clock.wall())

        await on_the_leader(control, north, revoke)
        before = await control.row("north")
        for _ in range(2):  # by what it knows, and after it has looked again
            with pytest.raises(UnauthenticatedError):
                await other(control).fleet.register(north.credential, message)
        assert before.state == "offline"
        assert await control.row("north") == before


async def test_who_joined_again_is_not_locked_out_by_the_credential_before(shared_url):
    async with run_control_plane(shared_url, replicas=2, times=BELIEVING) as control:
        north, message = await left_behind(control, "north")
        fleet, true = control.leader.fleet, msgspec.structs.replace(message, agent="true-agent")
        joined = await fleet.join(Join(token=await control.token("north"), name="north"))
        await fleet.register(joined.credential, true)
        with pytest.raises(UnauthenticatedError):
            await other(control).fleet.register(north.credential, message)
        body = read_body(await control.row("north"))
        assert "true-agent" not in body.former_agents
        again = msgspec.structs.replace(true, sequence=2)
        assert (await fleet.register(joined.credential, again)).epoch == (await control.row("north")).epoch


async def test_rotated_credential_registers_only_within_its_time(shared_url):
    async with run_control_plane(shared_url, replicas=2, times=BELIEVING) as control:
        north, message = await left_behind(control, "north")
        fresh: list[str] = []

        def rotate(connection: Connection) -> None:
            found = tokens.rotate_credential(connection, north.credential, now_ns=control.clock.wall(), random=bytes)
            fresh.append(found[1])

        await on_the_leader(control, north, rotate)
        await control.leader.fleet.orders(fresh[0], 0, 0.0)
        await other(control).fleet.register(north.credential, message)
        control.clock.jump(tokens.OVERLAP_S + 1.0)
        late = msgspec.structs.replace(message, agent="a-later-agent")
        before = await control.row("north")
        with pytest.raises(UnauthenticatedError):
            await other(control).fleet.register(north.credential, late)
        assert await control.row("north") == before


async def test_of_a_deleted_host_it_learns_that_it_was_deleted(shared_url):
    async with run_control_plane(shared_url, replicas=2, times=BELIEVING) as control:
        north, message = await left_behind(control, "north")

        def delete(connection: Connection) -> None:
            delete_host(connection, north.id, confirm="north", actor="key:1", now_ns=control.clock.wall())

        await on_the_leader(control, north, delete)
        with pytest.raises(HostDeletedError):
            await other(control).fleet.register(north.credential, message)
