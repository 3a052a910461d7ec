"""Replicas of an old program run on while a newer one has added to the tables; none of the old ones starts any more.

Migrations first add and only a release later remove, so this is how every update passes: replica by replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from tests.control.storms.clients import ServiceClients, connect_clients
from tests.control.storms.database_audit import DatabaseReader
from tests.control.storms.hosts import StormHost, fleet, size_of
from tests.control.storms.service import CALM, ServiceProcess
from tests.wait import until

pytestmark = pytest.mark.early

LATER = "9999_later"


def expand(url: str) -> list[str]:
    """Do to a database what a newer program's first migration may do; return the tables that got columns."""
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.connect() as connection, connection.begin():
            tables = [name for name in sa.inspect(connection).get_table_names() if name != "alembic_version"]
            do = Operations(MigrationContext.configure(connection))
            for table in tables:
                do.add_column(table, sa.Column("later", sa.Text, nullable=True))
                do.add_column(table, sa.Column("counted", sa.Integer, nullable=False, server_default="7"))
            do.create_table("colors", sa.Column("name", sa.Text, primary_key=True))
            do.create_index("ix_vms_later", "vms", ["later"])
            connection.execute(sa.text("UPDATE alembic_version SET version_num = :it"), {"it": LATER})
    finally:
        engine.dispose()
    return tables


async def use(people: ServiceClients, hosts: Sequence[StormHost]) -> None:
    """Do everything that users do, and see it come true."""
    made = [await people.create(at, cpu=1) for at in range(6)]
    await people.settled()
    for at, verb in enumerate(("stop", "restart", "migrate", "delete")):
        await people.change(made[at], verb, at)
    await people.settled()
    await people.change(made[0], "start")
    for at, (method, path, body) in enumerate(
        [
            ("PATCH", f"/v1/vms/{made[4].id}", {"spec": {"labels": {"color": "red"}}}),
            ("POST", "/v1/tokens", {"host_name": f"h{people.answers}"}),
            ("POST", "/v1/keys", {"name": f"k{people.answers}", "role": "viewer"}),
            ("POST", "/v1/projects", {"name": f"p{people.answers}"}),
            ("POST", "/v1/quotas", {"project": f"p{people.answers}", "max": {"cpu": 4}}),
            ("GET", "/v1/events", None),
            ("GET", "/v1/operations", None),
        ]
    ):
        answer = await people.client(at).request(method, path, json=body)
        assert answer.status_code in (200, 201, 202), answer.text

    def judge(told: list[dict[str, object]]) -> None:
        on = {vm: host.name for host in hosts for vm in host.driver.vms}
        assert {vm["id"]: vm["host"] for vm in told if vm["host"]} == on
        assert {vm["id"] for vm in told} == {one.id for one in people.owned if one.is_alive}

    await people.judged(judge)


def check_new_rows(url: str, tables: Sequence[str]) -> None:
    """See that rows were written since, by programs that know nothing of the new columns."""
    with DatabaseReader(url) as reader:
        assert {"vms", "hosts", "log", "operations"} <= set(tables)
        for table in ("vms", "placements", "log", "operations"):
            assert set(reader.rows(f"SELECT DISTINCT later, counted FROM {table}")) == {(None, 7)}
        head = reader.rows("SELECT MAX(seq), COUNT(*) FROM log")[0]
        assert head[0] == head[1]


async def refused(service: ServiceProcess) -> None:
    """Start an old program on the expanded database: it says why it does not, and changes nothing."""
    service.exec()

    async def has_ended() -> bool:
        return service.exit_code() is not None

    await until(has_ended, "it ends")
    assert service.exit_code() not in (0, None)
    assert f"at revision {LATER}, which is newer" in service.log.read_text()
    with DatabaseReader(service.url) as reader:
        assert reader.rows("SELECT version_num FROM alembic_version") == [(LATER,)]
    service.kill()


def test_a_service_on_a_file_runs_on_and_does_not_start_again(tmp_path: Path, sqlite_url: str):
    async def story() -> None:
        await service.start()
        async with fleet([service], ["a", "b"], size_of(8)) as hosts, connect_clients([service], 1, heads=4) as people:
            await use(people, hosts)
            tables = expand(sqlite_url)
            await use(people, hosts)
            check_new_rows(sqlite_url, tables)
        service.stop()
        await refused(service)

    service = ServiceProcess(tmp_path, sqlite_url, options=CALM)
    try:
        asyncio.run(story())
    finally:
        service.kill()


def hold_lease(url: str, seconds: int) -> None:
    """Let the lease be good for so long since it was renewed last: no pause of its holder hands it on before."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE lease SET ttl_ms = %s", [seconds * 1000])


def test_old_replicas_run_on_and_take_over_from_each_other(tmp_path: Path, postgres_url: str):
    async def story() -> None:
        first, second = services
        await first.start()
        await first.ready(leads=True)
        hold_lease(postgres_url, 3600)
        await second.start()
        async with fleet(services, ["a", "b"], size_of(8)) as hosts, connect_clients([second], 1, heads=4) as people:
            await use(people, hosts)
            tables = expand(postgres_url)
            await use(people, hosts)
            assert (await first.ready())["is_leader"], "one old replica writes, the other decides"
            first.kill()
            hold_lease(postgres_url, 3)
            await second.ready(leads=True)
            await use(people, hosts)
            check_new_rows(postgres_url, tables)
            await refused(first)
            await use(people, hosts)

    services = [ServiceProcess(tmp_path, postgres_url, name=name, options=CALM) for name in ("first", "second")]
    try:
        asyncio.run(story())
    finally:
        for service in services:
            service.kill()
