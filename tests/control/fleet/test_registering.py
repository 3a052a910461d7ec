"""Joining and registering: names, protocols, agents that restart, hosts that lost or kept more than they were told."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.agent.drivers.fake import FakeVm
from hostler.agent.link import RejectedError
from hostler.agent.messages import PROTOCOL, REGISTER_PATH, Join, Order, Register
from hostler.control.access.errors import HostExistsError, JoinRefusedError
from hostler.control.fleet.errors import UnsupportedProtocolError
from hostler.control.fleet.hosts import read_body
from hostler.control.vms import wishes
from tests.control.fleet.scene import is_running, scene
from tests.wait import until


def test_a_token_lets_one_host_join_once(url):
    async def story() -> None:
        async with scene(url) as world:
            fleet, token = world.leader.fleet, await world.token()
            joined = await fleet.join(Join(token=token, name="north"))
            assert joined.credential
            with pytest.raises(JoinRefusedError):
                await fleet.join(Join(token=token, name="south"))
            with pytest.raises(HostExistsError):
                await fleet.join(Join(token=await world.token(), name="north"))
            again = await fleet.join(Join(token=await world.token("north"), name="north"))
            assert again.host == joined.host
            assert again.credential != joined.credential
            assert (await world.row("north")).state == "joined"

    asyncio.run(story())


def test_versions_n_and_n_minus_one_are_spoken_and_no_others(url):
    async def story() -> None:
        async with scene(url, protocols=range(2, 4)) as world:
            fleet = world.leader.fleet
            for name, spoken, chosen in (("a", (2,), 2), ("b", (3,), 3), ("c", (1, 2, 3, 4), 3)):
                joined = await fleet.join(Join(token=await world.token(), name=name, protocols=spoken))
                assert joined.protocol == chosen
            token = await world.token()
            for foreign in [(1,), (4,), (1, 4), ()]:
                with pytest.raises(UnsupportedProtocolError):
                    await fleet.join(Join(token=token, name="d", protocols=foreign))
            await fleet.join(Join(token=token, name="d", protocols=(3,)))  # the token was not used up

    asyncio.run(story())


def test_an_agent_of_a_version_that_was_given_up_is_told_to_upgrade(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            await north.stop()
            world.leader.fleet._protocols = range(PROTOCOL + 1, PROTOCOL + 3)  # a newer control plane
            north.start()
            error = await north.ended()
            assert isinstance(error, RejectedError)
            assert "426" in error.message

    asyncio.run(story())


def test_an_agent_that_was_upgraded_says_so_by_registering_and_need_not_join_again(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            await north.stop()
            fleet = world.leader.fleet
            last = [request for request in north.wire.seen if request.path == REGISTER_PATH][-1]
            message = msgspec.json.decode(last.body, type=Register)
            fleet._protocols = range(PROTOCOL + 1, PROTOCOL + 3)  # a newer control plane
            for number, spoken in enumerate([(), (PROTOCOL,), (PROTOCOL + 3,)]):
                old = msgspec.structs.replace(message, agent=f"old-{number}", protocols=spoken)
                with pytest.raises(UnsupportedProtocolError):
                    await fleet.register(north.credential, old)
            assert read_body(await world.row("north")).protocol == PROTOCOL
            newer = (PROTOCOL, PROTOCOL + 1)
            await fleet.register(north.credential, msgspec.structs.replace(message, agent="new", protocols=newer))
            assert read_body(await world.row("north")).protocol == PROTOCOL + 1
            silent = msgspec.structs.replace(message, agent="newer", protocols=())
            await fleet.register(north.credential, silent)
            found = read_body(await world.row("north")).protocol
            assert found == PROTOCOL + 1, "who does not say speaks what he spoke before"

    asyncio.run(story())


def test_an_agent_that_restarts_adopts_its_vms(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            north = await world.join("north")
            vm = await world.create_running()
            epoch = (await world.row("north")).epoch
            await north.stop()
            await world.wish(vm, wishes.restart)
            north.start()
            await world.until_vm(vm, is_running)
            assert (await world.row("north")).epoch > epoch
            assert [verb for verb, _ in north.driver.log].count("create") == 1
            assert north.driver.vms[vm].runs == 2
            await world.check_agreement()

    asyncio.run(story())


def test_a_vm_that_a_host_lost_is_made_there_again_and_one_to_be_deleted_is_gone(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            lost, doomed = await world.create_running(), await world.create_running()
            await north.stop()
            north.driver.vms.clear()
            north.manifest.records.clear()
            await world.wish(doomed, wishes.delete)
            north.start()
            await world.until_vm(doomed, lambda vm: vm.is_gone)
            await until(lambda: north.power(lost) == "running")
            await world.until_vm(lost, is_running)
            await world.check_agreement()

    asyncio.run(story())


def test_a_vm_to_be_deleted_that_an_agent_found_without_knowing_it_is_not_taken_for_gone(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running()
            await north.stop()
            north.manifest.records.clear()  # the disk with its records was replaced
            await world.wish(vm, wishes.delete)
            north.driver._delays_s = {"delete": 0.3}
            north.start()
            await world.until_vm(vm, lambda one: one.is_gone)
            assert vm not in north.driver.vms

    asyncio.run(story())


def test_vms_that_nobody_ordered_are_told_of_and_never_touched(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            north.driver.vms["pet"] = FakeVm(order=Order(vm="pet", generation=1, power="running"), power="running")

            async def told() -> bool:
                return read_body(await world.row("north")).unknown == ("pet",)

            await until(told)
            await north.stop()
            north.start()
            await world.create_running()
            assert north.power("pet") == "running"

    asyncio.run(story())


def test_a_new_order_ends_a_poll_and_nothing_new_ends_it_in_time(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            fleet = world.leader.fleet
            everything = await fleet.orders(north.credential, 0, 0.0)
            assert everything.is_full
            assert await fleet.orders(north.credential, everything.version, 0.01) is None
            poll = asyncio.ensure_future(fleet.orders(north.credential, everything.version, 50.0))
            vm = await world.create()
            found = await poll
            assert [order.vm for order in found.orders] == [vm]
            assert found.version > everything.version

    asyncio.run(story())
