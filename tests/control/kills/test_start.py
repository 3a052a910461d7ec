"""From exec to the first answer: a service with ten thousand VMs, and one whose leader died with its lease."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from pathlib import Path

import httpx
import pytest

from hostler.agent.messages import HostSize
from hostler.control.books import ledger
from hostler.control.books.books import Books
from hostler.control.fleet.hosts.host_body import HostBody
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.services import first_start
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, Database, open_database
from hostler.control.store.history import lease
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms import desired_state
from hostler.control.vms.spec import VmSpec
from tests.control.storms.database_audit import DatabaseReader
from tests.control.storms.hosts import GIB
from tests.control.storms.service import CALM, ServiceProcess
from tests.wait import until

pytestmark = pytest.mark.early

HOSTS, VMS, BATCH = 1_000, 10_000, 500
SIZE = HostSize(cpu_millis=16_000, memory_bytes=64 * GIB, disk_bytes=1024 * GIB)


def add_hosts(connection: Connection) -> None:
    now_ns = time.time_ns()
    for number in range(HOSTS):
        row = hosts.insert(connection, HostRow(id=f"h{number}", name=f"host-{number}", state="joined"))
        ready = HostRow(**{**{name: getattr(row, name) for name in row.__struct_fields__}, "state": "ready"})
        announce(connection, row, ready, HostBody(size=SIZE, driver="fake"), actor="test", now_ns=now_ns)


def add_vms(connection: Connection, first: int) -> None:
    now_ns = time.time_ns()
    for number in range(first, first + BATCH):
        spec = VmSpec(cpu=1, memory=f"{1 + number % 4}Gi")
        change = desired_state.create(f"{number:032x}", "default", f"vm-{number}", spec)
        ledger.insert(connection, change, actor="test", now_ns=now_ns)


async def fill(database: Database) -> str:
    """Make a database in which every VM has its place, as a service would leave it that was killed then."""
    secret = await database.write(lambda connection: first_start.prepare(connection, time.time_ns(), os.urandom))
    assert secret is not None
    await database.write(add_hosts)
    for first in range(0, VMS, BATCH):
        await database.write(partial(add_vms, first=first))
    books, stopping = Books(database, ControlSettings(lease_ttl_s=1000.0)), asyncio.Event()
    await books.open()
    running = asyncio.ensure_future(books.run(stopping))

    async def all_placed() -> bool:
        found = await database.read(lambda connection: ledger.load_many(connection, [f"{VMS - 1:032x}"]))
        return all(one.vm.home is not None for one in found.values())

    await until(all_placed, "all VMs are placed")
    books.leadership.held = None  # so that nothing is saved or given back at the end
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await books.close()
    return secret


def test_ten_thousand_vms_are_known_at_the_first_answer(tmp_path: Path, sqlite_url: str):
    database = open_database(sqlite_url)
    try:
        key = asyncio.run(fill(database))
    finally:
        database.close()
    service = ServiceProcess(tmp_path, sqlite_url, options=CALM)  # of its hosts no agent is there to be heard

    async def story() -> None:
        began = time.monotonic()
        service.exec()
        await service.ready()
        print(f"\n{HOSTS} hosts and {VMS} VMs: {time.monotonic() - began:.2f} s from exec to the first answer")
        client = httpx.AsyncClient(
            base_url=service.address, headers={"Authorization": f"Bearer {key}"}, timeout=240, verify=False
        )
        async with client:
            asked = {"vms": [{"name": "next", "spec": {"cpu": 1, "memory": "1Gi"}}]}
            plan = (await client.post("/v1/plan", json=asked)).json()
            with DatabaseReader(sqlite_url) as reader:
                assert plan["seq"] >= reader.rows("SELECT MAX(seq) FROM log WHERE kind = 'fact'")[0][0]
                assert reader.rows("SELECT COUNT(*) FROM placements")[0][0] == VMS
            assert plan["placements"][0]["host"]
            whole = {"vms": [{"name": "all", "count": 1000, "spec": {"cpu": 16, "memory": "1Gi"}}]}
            planned = (await client.post("/v1/plan", json=whole)).json()["placements"]
            assert not any(one["host"] for one in planned), "some host counts as empty"
            page = (await client.get("/v1/vms", params={"limit": 1, "name": f"vm-{VMS - 1}"})).json()
            assert page["items"][0]["host"]

    try:
        asyncio.run(story())
    finally:
        service.kill()


def test_a_service_on_a_file_does_not_wait_for_a_dead_leader(tmp_path: Path, sqlite_url: str):
    database = open_database(sqlite_url)
    try:
        database.submit(lambda connection: lease.take(connection, "a dead replica", 100_000.0)).result()
    finally:
        database.close()
    service = ServiceProcess(tmp_path, sqlite_url)

    async def story() -> None:
        service.exec()
        await service.ready(leads=True)

    try:
        asyncio.run(story())
    finally:
        service.kill()
