"""What is wrong with a host, and what unknown VMs take of it, where people look: REST and the host's page."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import REGISTER_PATH, HostSize, Taken
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.model.quantities import MAX_AMOUNT
from hostler.web.routes import mount
from tests.control.api.service_in_process import GIB, InProcessService, open_service
from tests.control.api.test_fleet import REGISTER, joined, send
from tests.control.api.test_sessions_ended import log_in
from tests.control.api.test_watchdog_views import page

CROWDED = msgspec.structs.replace(
    REGISTER,
    unknown=("guest@17",),
    taken=(Taken(vm="guest@17", cpu_millis=3000, memory_bytes=2 * GIB),),
)


async def forget_agent(service: InProcessService, host: str) -> None:
    """Let a host be as a restore leaves it."""

    def work(connection: Connection) -> None:
        row = hosts.get(connection, host)
        hosts.save(connection, msgspec.structs.replace(row, agent="", boot=""))

    await service.database.write(work)


async def test_what_unknown_vms_take_is_shown_and_not_given_away() -> None:
    async with open_service() as service:
        mount(service.app, service.context)
        me, cookie = await joined(service, "node-1"), await log_in(service)
        answer = await send(service, me.credential, REGISTER_PATH, CROWDED)
        assert answer.json()["limit"] is None, "agents count what they find by themselves"
        host = (await service.ask("GET", "/v1/hosts/node-1")).json()
        assert host["unknown_use"] == {"cpu_millis": 3000, "memory_bytes": 2 * GIB, "disk_bytes": 0}
        assert host["size"]["cpu_millis"] == 4000
        assert (host["may_give"]["cpu_millis"], host["may_give"]["memory_bytes"]) == (1000, 6 * GIB)
        assert (host["registered"], host["trouble"]) == (True, "")
        assert "They take CPU 3, memory 2 GiB and disk 0 B of this host" in await page(service, cookie)
        await service.create("large", spec={"cpu": "2"})
        await service.caught_up()
        [waiting] = (await service.ask("GET", "/v1/vms?name=large")).json()["items"]
        assert (waiting["state"], waiting["host"]) == ("pending", None)


async def test_a_size_that_is_not_taken_is_reported_with_the_host() -> None:
    async with open_service() as service:
        mount(service.app, service.context)
        me, cookie = await joined(service, "node-1"), await log_in(service)
        await send(service, me.credential, REGISTER_PATH, REGISTER)
        await service.ask("PATCH", "/v1/hosts/node-1", json={"overcommit": {"cpu": "4"}})
        huge = HostSize(cpu_millis=MAX_AMOUNT, memory_bytes=GIB)
        message = msgspec.structs.replace(REGISTER, sequence=1, size=huge)
        assert (await send(service, me.credential, REGISTER_PATH, message)).status_code == 200
        [host] = (await service.ask("GET", "/v1/hosts")).json()["items"]
        assert "is rejected, and its old size counts" in host["trouble"]
        assert "lower its overcommitment" in host["trouble"]
        assert "is rejected, and its old size counts" in await page(service, cookie)
        await send(service, me.credential, REGISTER_PATH, msgspec.structs.replace(REGISTER, sequence=2))
        assert (await service.ask("GET", "/v1/hosts/node-1")).json()["trouble"] == ""


async def test_a_host_that_did_not_register_since_a_restore_says_so() -> None:
    async with open_service() as service:
        mount(service.app, service.context)
        me, cookie = await joined(service, "node-1"), await log_in(service)
        assert (await service.ask("GET", "/v1/hosts/node-1")).json()["registered"] is False
        await send(service, me.credential, REGISTER_PATH, REGISTER)
        assert (await service.ask("GET", "/v1/hosts/node-1")).json()["registered"] is True
        await forget_agent(service, me.host)
        host = (await service.ask("GET", "/v1/hosts/node-1")).json()
        assert (host["state"], host["registered"]) == ("ready", False)
        assert "not registered since the restore" in host["trouble"]
        words = await page(service, cookie)
        assert "node-1 ready not registered" in words
        assert "not registered since the restore" in words
        again = msgspec.structs.replace(REGISTER, agent="agent-2")
        await send(service, me.credential, REGISTER_PATH, again)
        host = (await service.ask("GET", "/v1/hosts/node-1")).json()
        assert (host["registered"], host["trouble"]) == (True, "")
