"""What is wrong with a host, and what unknown VMs take of it, where people look: REST and the host's page."""

from __future__ import annotations

import asyncio

import msgspec

from hostler.agent.messages import REGISTER_PATH, HostSize, Taken
from hostler.control.store import Connection, hosts
from hostler.model.quantities import MAX_AMOUNT
from hostler.web.pages import mount
from tests.control.api.house import GIB, House, open_house
from tests.control.api.test_fleet import REGISTER, joined, send
from tests.control.api.test_sessions_ended import log_in
from tests.control.api.test_watched import page

CROWDED = msgspec.structs.replace(
    REGISTER,
    unknown=("guest@17",),
    taken=(Taken(vm="guest@17", cpu_millis=3000, memory_bytes=2 * GIB),),
)


async def forget_agent(house: House, host: str) -> None:
    """Let a host be as a restore leaves it."""

    def work(connection: Connection) -> None:
        row = hosts.get(connection, host)
        hosts.save(connection, msgspec.structs.replace(row, agent="", boot=""))

    await house.database.write(work)


def test_what_unknown_vms_take_is_shown_and_not_given_away() -> None:
    async def story() -> None:
        async with open_house() as house:
            mount(house.app, house.context)
            me, cookie = await joined(house, "node-1"), await log_in(house)
            answer = await send(house, me.credential, REGISTER_PATH, CROWDED)
            assert answer.json()["limit"] is None, "agents count what they find by themselves"
            host = (await house.ask("GET", "/v1/hosts/node-1")).json()
            assert host["unknown_use"] == {"cpu_millis": 3000, "memory_bytes": 2 * GIB, "disk_bytes": 0}
            assert host["size"]["cpu_millis"] == 4000
            assert (host["may_give"]["cpu_millis"], host["may_give"]["memory_bytes"]) == (1000, 6 * GIB)
            assert (host["registered"], host["trouble"]) == (True, "")
            assert "They take CPU 3, memory 2 GiB and disk 0 B of this host" in await page(house, cookie)
            await house.create("large", spec={"cpu": "2"})
            await house.caught_up()
            [waiting] = (await house.ask("GET", "/v1/vms?name=large")).json()["items"]
            assert (waiting["state"], waiting["host"]) == ("pending", None)

    asyncio.run(story())


def test_a_size_that_is_not_taken_is_told_with_the_host() -> None:
    async def story() -> None:
        async with open_house() as house:
            mount(house.app, house.context)
            me, cookie = await joined(house, "node-1"), await log_in(house)
            await send(house, me.credential, REGISTER_PATH, REGISTER)
            await house.ask("PATCH", "/v1/hosts/node-1", json={"overcommit": {"cpu": "4"}})
            huge = HostSize(cpu_millis=MAX_AMOUNT, memory_bytes=GIB)
            message = msgspec.structs.replace(REGISTER, sequence=1, size=huge)
            assert (await send(house, me.credential, REGISTER_PATH, message)).status_code == 200
            [host] = (await house.ask("GET", "/v1/hosts")).json()["items"]
            assert "not taken, and it counts as large as before" in host["trouble"]
            assert "lower its overcommitment" in host["trouble"]
            assert "not taken, and it counts as large as before" in await page(house, cookie)
            await send(house, me.credential, REGISTER_PATH, msgspec.structs.replace(REGISTER, sequence=2))
            assert (await house.ask("GET", "/v1/hosts/node-1")).json()["trouble"] == ""

    asyncio.run(story())


def test_a_host_that_did_not_register_since_a_restore_says_so() -> None:
    async def story() -> None:
        async with open_house() as house:
            mount(house.app, house.context)
            me, cookie = await joined(house, "node-1"), await log_in(house)
            assert (await house.ask("GET", "/v1/hosts/node-1")).json()["registered"] is False
            await send(house, me.credential, REGISTER_PATH, REGISTER)
            assert (await house.ask("GET", "/v1/hosts/node-1")).json()["registered"] is True
            await forget_agent(house, me.host)
            host = (await house.ask("GET", "/v1/hosts/node-1")).json()
            assert (host["state"], host["registered"]) == ("ready", False)
            assert "not registered since the restore" in host["trouble"]
            words = await page(house, cookie)
            assert "node-1 unregistered" in words
            assert "not registered since the restore" in words
            again = msgspec.structs.replace(REGISTER, agent="agent-2")
            await send(house, me.credential, REGISTER_PATH, again)
            host = (await house.ask("GET", "/v1/hosts/node-1")).json()
            assert (host["registered"], host["trouble"]) == (True, "")

    asyncio.run(story())
