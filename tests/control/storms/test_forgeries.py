"""Agents' messages that are replayed, changed, or sent by another agent: rejected, and nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec

from hostler.agent.messages import ORDERS_PATH, REGISTER_PATH, REPORT_PATH, Register, Report, VmReport
from tests.control.storms.clients import ServiceClients, connect_clients
from tests.control.storms.database_audit import DatabaseReader
from tests.control.storms.hosts import StormHost, fleet, size_of
from tests.control.storms.service import ServiceProcess
from tests.wait import until

_change = msgspec.structs.replace


class Forger:
    """Sends what it likes to the service, by the credential of any host."""

    def __init__(
        self, client: httpx.AsyncClient, hosts: Sequence[StormHost], people: ServiceClients, reader: DatabaseReader
    ) -> None:
        self.client = client
        self.hosts = hosts
        self.people = people
        self.reader = reader

    async def send(self, message: Any, credential: str, path: str = REPORT_PATH) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {credential}"}
        answer = await self.client.post(path, json=msgspec.to_builtins(message), headers=headers)
        return answer.status_code, answer.json().get("code", "")

    async def refused(self, message: Any, credential: str, expected: tuple[int, str], path: str = REPORT_PATH) -> None:
        """Send something; it must be refused, and change nothing."""
        before = self.reader.everything()
        assert await self.send(message, credential, path) == expected, message
        assert self.reader.everything() == before, message


def credential_of(host: StormHost) -> str:
    identity = host.credentials.load()
    assert identity is not None
    return identity.credential


def reports_of(host: StormHost) -> list[Report]:
    return [msgspec.json.decode(sent.body, type=Report) for sent, _ in host.way.sent if sent.path == REPORT_PATH]


def registration_of(host: StormHost) -> Register:
    sent = [request for request, _ in host.way.sent if request.path == REGISTER_PATH]
    return msgspec.json.decode(sent[0].body, type=Register)


async def is_quiet(reader: DatabaseReader) -> bool:
    before = reader.everything()
    await asyncio.sleep(0.5)
    return reader.everything() == before


def play(folder: Path, url: str, story: Callable[[Forger], Awaitable[None]]) -> None:
    """Let two hosts have VMs, some already gone; then the forger begins."""

    async def whole() -> None:
        await service.start()
        async with (
            fleet([service], ["honest", "other"], size_of(8)) as hosts,
            connect_clients([service], 3, heads=2) as people,
            httpx.AsyncClient(base_url=service.address, timeout=120) as client,
        ):
            for _ in range(6):
                await people.create()
            await people.settled()
            await people.change(people.owned[0], "delete")
            await people.change(people.owned[1], "stop")
            await people.settled()
            with DatabaseReader(url) as reader:
                await until(lambda: is_quiet(reader), "nothing happens any more")
                await story(Forger(client, hosts, people, reader))
            told = {vm["id"]: vm["host"] for vm in await people.settled()}
            on = {vm: host.name for host in hosts for vm in host.driver.vms}
            assert {vm: host for vm, host in told.items() if host} == on
            assert len(told) == 5

    service = ServiceProcess(folder, url, options=("--heartbeat", "300", "--silent-after", "1000"))
    try:
        asyncio.run(whole())
    finally:
        service.kill()


async def sent_before(forger: Forger) -> None:
    for host in forger.hosts:
        assert reports_of(host), host.name
        for report in reports_of(host):
            await forger.refused(report, credential_of(host), (409, "stale_report"))
        await forger.refused(registration_of(host), credential_of(host), (409, "stale_report"), REGISTER_PATH)


async def of_another_epoch_boot_or_agent(forger: Forger) -> None:
    host = forger.hosts[0]
    last = _change(reports_of(host)[-1], sequence=10_000)
    for epoch in (0, last.epoch - 1, last.epoch + 1, 2**40):
        await forger.refused(_change(last, epoch=epoch), credential_of(host), (409, "stale_report"))
    await forger.refused(_change(last, boot="another"), credential_of(host), (409, "stale_report"))
    await forger.refused(_change(last, agent="another"), credential_of(host), (409, "stale_report"))


async def by_somebody_else(forger: Forger) -> None:
    host, other = forger.hosts
    last = _change(reports_of(host)[-1], sequence=10_000)
    await forger.refused(last, credential_of(other), (403, "forbidden"))
    await forger.refused(last, "nobody", (401, "unauthenticated"))
    key = forger.people.client().headers["Authorization"].removeprefix("Bearer ")
    await forger.refused(last, key, (401, "unauthenticated"))  # an administrator is no host
    before = forger.reader.everything()
    answer = await forger.client.get(ORDERS_PATH, headers={"Authorization": "Bearer nobody"})
    assert answer.status_code == 401
    assert forger.reader.everything() == before


def test_replayed_and_foreign_messages_are_rejected(tmp_path: Path, sqlite_url: str):
    async def story(forger: Forger) -> None:
        await sent_before(forger)
        await of_another_epoch_boot_or_agent(forger)
        await by_somebody_else(forger)

    play(tmp_path, sqlite_url, story)


def test_a_host_can_say_nothing_about_the_vms_of_others(tmp_path: Path, sqlite_url: str):
    async def story(forger: Forger) -> None:
        host, other = forger.hosts
        theirs = sorted(other.driver.vms)
        last = _change(reports_of(host)[-1], vms=(), gone=())
        lies = [
            _change(last, gone=tuple(theirs)),
            _change(last, vms=tuple(VmReport(vm=vm, state="absent", generation=9) for vm in theirs)),
            _change(last, gone=("no-such-vm",), vms=(VmReport(vm="nor-this", state="running", generation=1),)),
            _change(last, vms=tuple(VmReport(vm=vm, state="stopped", generation=1) for vm in theirs)),
        ]
        known = "SELECT * FROM vms ORDER BY id", "SELECT * FROM placements ORDER BY vm", "SELECT seq FROM log_head"
        for number, lie in enumerate(lies):
            # Of VMs that nobody knows, or that are elsewhere, the host itself is said to have them, and that is logged.
            before = [forger.reader.rows(statement) for statement in known[: 2 if number >= 2 else 3]]
            assert await forger.send(_change(lie, sequence=10_000 + number), credential_of(host)) == (200, "")
            assert [forger.reader.rows(statement) for statement in known[: 2 if number >= 2 else 3]] == before, lie

    play(tmp_path, sqlite_url, story)


def test_a_registration_of_an_agent_that_was_replaced_is_refused(tmp_path: Path, sqlite_url: str):
    async def story(forger: Forger) -> None:
        host = forger.hosts[0]
        old = registration_of(host)
        vms = tuple(VmReport(vm=vm, state="running", generation=1) for vm in host.driver.vms)
        successor = _change(old, agent="the next one", vms=vms)
        assert (await forger.send(successor, credential_of(host), REGISTER_PATH))[0] == 200
        late = _change(old, sequence=99)
        await forger.refused(late, credential_of(host), (409, "stale_report"), REGISTER_PATH)

    play(tmp_path, sqlite_url, story)


def test_a_host_that_was_forged_comes_back_by_itself(tmp_path: Path, sqlite_url: str):
    async def story(forger: Forger) -> None:
        host = forger.hosts[0]
        sent = len(host.way.sent)
        mine = sorted(host.driver.vms)
        lie = _change(reports_of(host)[-1], sequence=10_000, gone=(), vms=(VmReport(vm=mine[0], state="stopped"),))
        assert (await forger.send(lie, credential_of(host)))[0] == 200  # it has the credential, so it is the host
        for one in forger.people.owned:
            if one.is_alive and one.power == "running":
                await forger.people.change(one, "restart")

        async def has_registered() -> bool:
            return any(request.path == REGISTER_PATH for request, _ in host.way.sent[sent:])

        await until(has_registered, "it registered again")

    play(tmp_path, sqlite_url, story)
