"""A host can be looked at and acted on whatever its numbers are."""

from __future__ import annotations

import time

import msgspec
import pytest

from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, HostSize, Report
from hostler.control.fleet.hosts.host_body import read_body, with_body
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.model import CPU
from hostler.model.quantities import MAX_AMOUNT
from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_fleet import REGISTER, joined, send

ACTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("cordon", {}),
    ("uncordon", {}),
    ("drain", {}),
    ("undrain", {}),
    ("rotate-credential", {}),
    ("revoke-credential", {}),
    ("force-offline", {"confirm": "a"}),
    ("confirm-dead", {"confirm": "a"}),
)


async def swollen(service: InProcessService) -> None:
    """Let there be a host that is too large by now: its service overcommits more than when it said so."""
    await service.add_hosts("a", "b")

    def work(connection: Connection) -> None:
        row = hosts.get(connection, "id-a")
        body = read_body(row)
        size = msgspec.structs.replace(body.size, cpu_millis=MAX_AMOUNT)
        grown = msgspec.structs.replace(body, size=size, own_overcommit=((CPU, 4_000_000),))
        hosts.save(connection, with_body(msgspec.structs.replace(row, updated_ns=time.time_ns()), grown))

    await service.database.write(work)


async def test_an_agent_cannot_spoil_the_list_of_hosts_by_the_size_that_it_tells() -> None:
    async with open_service() as service:
        me = await joined(service, "north")
        await send(service, me.credential, REGISTER_PATH, REGISTER)
        assert (await service.ask("PATCH", "/v1/hosts/north", json={"overcommit": {"cpu": "4"}})).status_code == 200
        again = await send(service, me.credential, REGISTER_PATH, msgspec.structs.replace(REGISTER, sequence=1))
        report = Report(
            boot=REGISTER.boot,
            agent=REGISTER.agent,
            epoch=again.json()["epoch"],
            sequence=1,
            size=HostSize(cpu_millis=MAX_AMOUNT, memory_bytes=1),
        )
        assert (await send(service, me.credential, REPORT_PATH, report)).status_code == 200
        [shown] = (await service.ask("GET", "/v1/hosts")).json()["items"]
        assert shown["size"]["cpu_millis"] == REGISTER.size.cpu_millis
        assert shown["may_give"]["cpu_millis"] == 4 * REGISTER.size.cpu_millis
        events = (await service.ask("GET", "/v1/events?limit=500")).json()["items"]
        assert [one["subject"] for one in events if "is rejected, and its old size counts" in one["text"]] == [me.host]


async def test_it_is_listed_and_shown_with_the_most_that_can_be_counted() -> None:
    async with open_service() as service:
        await swollen(service)
        listed = await service.ask("GET", "/v1/hosts")
        assert [one["name"] for one in listed.json()["items"]] == ["a", "b"]
        shown = await service.ask("GET", "/v1/hosts/a")
        assert shown.json()["may_give"]["cpu_millis"] == MAX_AMOUNT
        assert (await service.ask("GET", "/v1/hosts/a/scheduling")).status_code == 200


@pytest.mark.parametrize(("verb", "body"), ACTS, ids=[verb for verb, _ in ACTS])
async def test_operators_act_on_it(verb: str, body: dict[str, str]) -> None:
    async with open_service(is_led=False) as service:
        await swollen(service)
        if verb == "confirm-dead":
            await service.set_state("a", "silent")
        answer = await service.ask("POST", f"/v1/hosts/a/{verb}", json=body)
        assert answer.status_code == 200, answer.text


async def test_it_is_labelled_and_made_small_again_but_not_larger() -> None:
    async with open_service(is_led=False) as service:
        await swollen(service)
        labelled = await service.ask("PATCH", "/v1/hosts/a", json={"labels": {"rack": "1"}})
        assert labelled.status_code == 200, labelled.text
        assert (await service.ask("PATCH", "/v1/hosts/a", json={"overcommit": {"cpu": "8"}})).status_code == 400
        assert (await service.ask("PATCH", "/v1/hosts/a", json={"overcommit": {}})).status_code == 200
