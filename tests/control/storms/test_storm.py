"""Two hundred clients create and delete VMs at once, more than the fleet can hold; nothing is ever promised twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.control.storms.clients import ServiceClients, connect_clients
from tests.control.storms.database_audit import DatabaseReader, audit, twin_of
from tests.control.storms.hosts import StormHost, fleet, size_of
from tests.control.storms.service import CALM, ServiceProcess
from tests.wait import until

pytestmark = pytest.mark.early

CLIENTS, OPERATIONS = 200, 3
HOSTS, VMS_PER_HOST = 20, 5
SIZE = size_of(VMS_PER_HOST)
SLOW = {"delete": 0.3}  # what is promised again before a host has let go of it is seen there
SEED = 7


async def one_client(people: ServiceClients, number: int) -> None:
    """Create, and then create more or let something go, with no pause."""
    mine = [await people.create(number)]
    for _ in range(OPERATIONS - 1):
        alive = [one for one in mine if one.is_alive]
        if alive and people.random.random() < 0.6:
            await people.change(people.random.choice(alive), "delete", number)
        else:
            mine.append(await people.create(number))


async def watch(reader: DatabaseReader, seen: list[int]) -> None:
    """Look at the books from outside all the time."""
    while True:
        for host, (cpu, memory, _) in reader.use().items():
            assert cpu <= SIZE.cpu_millis, f"{host} has promised {cpu} of its cpu"
            assert memory <= SIZE.memory_bytes, f"{host} has promised {memory} of its memory"
        seen.append(1)
        await asyncio.sleep(0.02)


def check_hosts(hosts: Sequence[StormHost]) -> None:
    for host in hosts:
        assert host.driver.peak_cpu_millis <= SIZE.cpu_millis, host.name
        assert host.driver.peak_memory_bytes <= SIZE.memory_bytes, host.name
        assert host.refused_for_room() == [], host.name


async def check_people(people: ServiceClients, hosts: Sequence[StormHost]) -> int:
    """Judge the end of the storm; return how many VMs wait."""
    assert people.unanswered == 0
    assert people.answers >= CLIENTS * OPERATIONS

    def judge(vms: list[dict[str, Any]]) -> None:
        on = {vm: host.name for host in hosts for vm in host.driver.vms}
        assert {vm["id"]: vm["host"] for vm in vms if vm["host"]} == on
        assert {vm["id"] for vm in vms} == {one.id for one in people.owned if one.is_alive}
        assert {vm["state"] for vm in vms} <= {"running", "pending"}

    vms = await people.judged(judge)
    return sum(vm["state"] == "pending" for vm in vms)


async def let_all_go(people: ServiceClients, hosts: Sequence[StormHost], reader: DatabaseReader) -> None:
    await asyncio.gather(*(people.change(one, "delete") for one in people.owned if one.is_alive))
    assert await people.settled() == []
    assert reader.use() == {}
    assert all(host.driver.vms == {} for host in hosts)

    async def nobody_waits() -> bool:
        return await people.pages("/v1/queue") == []

    async def all_fit() -> bool:
        asked = {"vms": [{"name": "all", "count": HOSTS * VMS_PER_HOST, "spec": {"cpu": 1, "memory": "1Gi"}}]}
        planned = (await people.client().post("/v1/plan", json=asked)).json()["placements"]
        return all(one["host"] for one in planned)

    await until(nobody_waits, "every replica knows that nobody waits")
    await until(all_fit, "the whole fleet is free again")


async def storm(services: Sequence[ServiceProcess], seed: int) -> None:
    for service in services:
        await service.start()
    names = [f"host-{number}" for number in range(HOSTS)]
    seen: list[int] = []
    async with (
        fleet(services, names, SIZE, seed=seed, delays_s=SLOW) as hosts,
        connect_clients(services, seed, heads=CLIENTS) as people,
    ):
        with DatabaseReader(services[0].url) as reader:
            watching = asyncio.create_task(watch(reader, seen))
            await asyncio.gather(*(one_client(people, number) for number in range(CLIENTS)))
            assert await check_people(people, hosts) > 0, "the fleet was never full"
            await let_all_go(people, hosts, reader)
            assert not watching.done(), watching.exception()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            check_hosts(hosts)
            entries = reader.entries()
    assert len(seen) > 20
    assert audit(entries) >= HOSTS * VMS_PER_HOST / 2
    twin = twin_of(entries)
    assert list(twin.engine.guests()) == []
    assert not twin.refusals


def play(services: Sequence[ServiceProcess]) -> None:
    try:
        asyncio.run(storm(services, SEED))
    except BaseException:
        print(f"seed {SEED}")
        raise
    finally:
        for service in services:
            service.kill()


def test_a_storm_on_a_file(tmp_path: Path, sqlite_url: str):
    play([ServiceProcess(tmp_path, sqlite_url, options=CALM)])


def test_a_storm_on_postgresql(tmp_path: Path, postgres_url: str):
    play([ServiceProcess(tmp_path, postgres_url, options=CALM)])


def test_a_storm_on_two_replicas(tmp_path: Path, postgres_url: str):
    play([ServiceProcess(tmp_path, postgres_url, name=name, options=CALM) for name in ("first", "second")])


def test_an_audit_sees_a_host_that_promised_too_much(tmp_path: Path, sqlite_url: str):
    async def story() -> list:
        await service.start()
        async with fleet([service], ["only"], size_of(2)) as _, connect_clients([service], SEED) as people:
            for _ in range(2):
                await people.create(cpu=1)
            await people.settled()
            with DatabaseReader(sqlite_url) as reader:
                return reader.entries()

    service = ServiceProcess(tmp_path, sqlite_url, options=CALM)
    try:
        entries = asyncio.run(story())
    finally:
        service.kill()
    assert audit(entries) == 2
    smaller = [
        type(entry)(**{**{name: getattr(entry, name) for name in entry.__struct_fields__}, "body": body})
        for entry in entries
        for body in [entry.body.replace(b'["cpu",2000]', b'["cpu",1000]')]
    ]
    with pytest.raises(AssertionError, match="promised 2000"):
        audit(smaller)
