"""Sizes that agents tell and nobody can count with: they are not taken, and nothing fails for them."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import REGISTER_PATH, HostSize, Register, Report
from hostler.control.fleet import operator_actions
from hostler.control.fleet.hosts.host_body import HostBody, host_of, limit_of, read_body
from hostler.control.fleet.operator_actions import HostUpdate
from hostler.control.settings import ControlSettings
from hostler.control.store.history import log
from hostler.control.store.rows.hosts import HostRow
from hostler.model import CPU
from hostler.model.quantities import MAX_AMOUNT
from tests.control.fleet.control_plane import SETTINGS, SIZE, ControlPlane, run_control_plane
from tests.control.fleet.replicas_and_hosts import HostWithAgent

FOUR = ((CPU, 4_000_000),)
HUGE = msgspec.structs.replace(SIZE, cpu_millis=MAX_AMOUNT)
LARGER = msgspec.structs.replace(SIZE, cpu_millis=2 * SIZE.cpu_millis)


async def left(control: ControlPlane) -> tuple[HostWithAgent, Register]:
    """Return a host that may give four times its cpu, and the last registration of its agent, which has ended."""
    north = await control.join("north")
    await control.operate(
        operator_actions.change_host, north, wish=HostUpdate(overcommit=FOUR), settings=control.settings
    )
    await north.stop()
    last = [request for request in north.wire.seen if request.path == REGISTER_PATH][-1]
    return north, msgspec.structs.replace(msgspec.json.decode(last.body, type=Register), agent="x", sequence=1)


async def notes(control: ControlPlane, north: HostWithAgent) -> str:
    entries = await control.database.read(lambda connection: log.read_after(connection, 0, 10_000))
    return "\n".join(one.body.decode() for one in entries if one.kind == "note" and one.subject == north.id)


def report(message: Register, epoch: int, sequence: int, size: HostSize) -> Report:
    return Report(boot=message.boot, agent=message.agent, epoch=epoch, sequence=sequence, size=size)


async def test_report_with_uncountable_size_leaves_host_as_before(either_url):
    async with run_control_plane(either_url) as control:
        north, message = await left(control)
        fleet = control.leader.fleet
        epoch = (await fleet.register(north.credential, message)).epoch
        for number in (1, 2):
            await fleet.report(north.credential, report(message, epoch, number, HUGE))
            body = read_body(await control.row("north"))
            assert body.size == SIZE
            assert "2^62" in body.refused_size
        assert (await notes(control, north)).count("is rejected, and its old size counts") == 1
        await fleet.report(north.credential, report(message, epoch, 3, LARGER))
        body = read_body(await control.row("north"))
        assert (body.size, body.refused_size) == (LARGER, "")


async def test_registration_with_too_large_size_counts_and_learns_its_limit(url):
    async with run_control_plane(url) as control:
        north, message = await left(control)
        answer = await control.leader.fleet.register(north.credential, msgspec.structs.replace(message, size=HUGE))
        row = await control.row("north")
        assert (row.state, row.cpu_millis) == ("ready", SIZE.cpu_millis)
        assert answer.limit is not None
        assert answer.limit.cpu_millis == 4 * SIZE.cpu_millis
        assert (await notes(control, north)).count("is rejected, and its old size counts") == 1


def test_host_learns_its_limit_when_its_size_was_rejected():
    row = HostRow(id="h", name="h", state="ready")
    body = HostBody(size=SIZE, refused_size="too much")
    assert limit_of(row, body, ControlSettings()) == SIZE
    assert limit_of(row, msgspec.structs.replace(body, refused_size=""), ControlSettings()) is None


async def test_the_overcommitment_of_the_service_counts_too(url):
    settings = msgspec.structs.replace(SETTINGS, overcommit=FOUR)
    async with run_control_plane(url, settings=settings) as control:
        await control.join("north", size=HUGE)
        row = await control.row("north")
        assert (row.state, row.cpu_millis) == ("ready", 0)
        assert "2^62" in read_body(row).refused_size


def test_what_a_host_may_give_can_be_told_whatever_its_numbers_are():
    row = HostRow(id="h", name="h", state="ready")
    body = HostBody(size=HUGE, own_overcommit=FOUR)
    limit = limit_of(row, body, ControlSettings())
    assert limit is None
    assert host_of(row, body).overcommit == FOUR
