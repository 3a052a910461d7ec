"""Joining and registering: names, protocols, agents that restart, hosts that lost or kept more than they were told."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.agent.connection.link import AgentRejectedError
from hostler.agent.drivers.fake import FakeVm
from hostler.agent.messages import PROTOCOL, REGISTER_PATH, Join, Order, Register
from hostler.control.access.errors import HostExistsError, JoinRejectedError
from hostler.control.fleet.errors import UnsupportedProtocolError
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.vms import desired_state
from tests.control.fleet.control_plane import is_running, run_control_plane
from tests.wait import until


async def test_a_token_lets_one_host_join_once(url):
    async with run_control_plane(url) as control:
        fleet, token = control.leader.fleet, await control.token()
        joined = await fleet.join(Join(token=token, name="north"))
        assert joined.credential
        with pytest.raises(JoinRejectedError):
            await fleet.join(Join(token=token, name="south"))
        with pytest.raises(HostExistsError):
            await fleet.join(Join(token=await control.token(), name="north"))
        again = await fleet.join(Join(token=await control.token("north"), name="north"))
        assert again.host == joined.host
        assert again.credential != joined.credential
        assert (await control.row("north")).state == "joined"


async def test_versions_n_and_n_minus_one_are_spoken_and_no_others(url):
    async with run_control_plane(url, protocols=range(2, 4)) as control:
        fleet = control.leader.fleet
        for name, spoken, chosen in (("a", (2,), 2), ("b", (3,), 3), ("c", (1, 2, 3, 4), 3)):
            joined = await fleet.join(Join(token=await control.token(), name=name, protocols=spoken))
            assert joined.protocol == chosen
        token = await control.token()
        for foreign in [(1,), (4,), (1, 4), ()]:
            with pytest.raises(UnsupportedProtocolError):
                await fleet.join(Join(token=token, name="d", protocols=foreign))
        await fleet.join(Join(token=token, name="d", protocols=(3,)))  # the token was not used up


async def test_an_agent_of_a_version_that_was_given_up_is_asked_to_upgrade(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await north.stop()
        control.leader.fleet._protocols = range(PROTOCOL + 1, PROTOCOL + 3)  # a newer control plane
        north.start()
        error = await north.ended()
        assert isinstance(error, AgentRejectedError)
        assert "426" in error.message


async def test_upgraded_agent_registers_without_joining_again(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await north.stop()
        fleet = control.leader.fleet
        last = [request for request in north.wire.seen if request.path == REGISTER_PATH][-1]
        message = msgspec.json.decode(last.body, type=Register)
        fleet._protocols = range(PROTOCOL + 1, PROTOCOL + 3)  # a newer control plane
        for number, spoken in enumerate([(), (PROTOCOL,), (PROTOCOL + 3,)]):
            old = msgspec.structs.replace(message, agent=f"old-{number}", protocols=spoken)
            with pytest.raises(UnsupportedProtocolError):
                await fleet.register(north.credential, old)
        assert read_body(await control.row("north")).protocol == PROTOCOL
        newer = (PROTOCOL, PROTOCOL + 1)
        await fleet.register(north.credential, msgspec.structs.replace(message, agent="new", protocols=newer))
        assert read_body(await control.row("north")).protocol == PROTOCOL + 1
        silent = msgspec.structs.replace(message, agent="newer", protocols=())
        await fleet.register(north.credential, silent)
        found = read_body(await control.row("north")).protocol
        assert found == PROTOCOL + 1, "who does not say speaks what he spoke before"


async def test_an_agent_that_restarts_adopts_its_vms(either_url):
    async with run_control_plane(either_url) as control:
        north = await control.join("north")
        vm = await control.create_running()
        epoch = (await control.row("north")).epoch
        await north.stop()
        await control.wish(vm, desired_state.restart)
        north.start()
        await control.until_vm(vm, is_running)
        assert (await control.row("north")).epoch > epoch
        assert [verb for verb, _ in north.driver.log].count("create") == 1
        assert north.driver.vms[vm].runs == 2
        await control.check_agreement()


async def test_vm_lost_by_host_is_rebuilt_or_gone_if_to_be_deleted(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        lost, doomed = await control.create_running(), await control.create_running()
        await north.stop()
        north.driver.vms.clear()
        north.manifest.records.clear()
        await control.wish(doomed, desired_state.delete)
        north.start()
        await control.until_vm(doomed, lambda vm: vm.is_gone)
        await until(lambda: north.power(lost) == "running")
        await control.until_vm(lost, is_running)
        await control.check_agreement()


async def test_vm_to_delete_that_agent_does_not_know_is_not_taken_for_gone(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running()
        await north.stop()
        north.manifest.records.clear()  # the disk with its records was replaced
        await control.wish(vm, desired_state.delete)
        north.driver._delays_s = {"delete": 0.3}
        north.start()
        await control.until_vm(vm, lambda one: one.is_gone)
        assert vm not in north.driver.vms


async def test_vms_that_nobody_ordered_are_told_of_and_never_touched(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        north.driver.vms["pet"] = FakeVm(order=Order(vm="pet", generation=1, power="running"), power="running")

        async def told() -> bool:
            return read_body(await control.row("north")).unknown == ("pet",)

        await until(told)
        await north.stop()
        north.start()
        await control.create_running()
        assert north.power("pet") == "running"


async def test_a_new_order_ends_a_poll_and_nothing_new_ends_it_in_time(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        fleet = control.leader.fleet
        everything = await fleet.orders(north.credential, 0, 0.0)
        assert everything.is_full
        assert await fleet.orders(north.credential, everything.version, 0.01) is None
        poll = asyncio.ensure_future(fleet.orders(north.credential, everything.version, 50.0))
        vm = await control.create()
        found = await poll
        assert [order.vm for order in found.orders] == [vm]
        assert found.version > everything.version
