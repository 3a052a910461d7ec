"""An operation that another wish takes back before it came true has failed, and says what overtook it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.control.api.service_in_process import InProcessService, open_service


def by(what: str) -> str:
    return f"superseded by {what}"


async def ended(service: InProcessService, operation: str) -> tuple[str, str]:
    """Return how an operation is, and its error."""
    found = (await service.ask("GET", f"/v1/operations/{operation}")).json()
    return found["state"], found["error"]


async def asked(service: InProcessService, method: str, path: str, **more: Any) -> str:
    """Ask for a change, and return its operation."""
    answer = await service.ask(method, path, **more)
    assert answer.is_success, answer.text
    return str(answer.json()["operation"]["id"])


async def resized(service: InProcessService, vm: str, **spec: Any) -> str:
    return await asked(service, "PATCH", f"/v1/vms/{vm}", json={"spec": spec})


async def one_that_runs(service: InProcessService) -> str:
    await service.add_hosts("a", cpu=4)
    vm = str((await service.create("web")).json()["vm"]["id"])
    await service.settle()
    return vm


async def test_a_growth_that_waits_for_room_is_overtaken_by_another_resize() -> None:
    async with open_service() as service:
        vm = await one_that_runs(service)
        huge = await resized(service, vm, cpu="64")
        await service.settle()
        small = await resized(service, vm, cpu="2")
        await service.settle()
        assert await ended(service, huge) == ("failed", by("another resize"))
        assert await ended(service, small) == ("done", "")


async def test_a_resize_of_something_else_overtakes_nothing() -> None:
    async with open_service() as service:
        vm = await one_that_runs(service)
        first = await resized(service, vm, cpu="4")
        for spec in ({"labels": {"tier": "gold"}}, {"memory": "2Gi"}):
            await resized(service, vm, **spec)
        await service.settle()
        assert await ended(service, first) == ("done", "")


async def test_labels_set_during_growth_stay_when_growth_is_undone() -> None:
    async with open_service() as service:
        vm = await one_that_runs(service)
        await resized(service, vm, cpu="64")
        labels = await resized(service, vm, labels={"tier": "gold"})
        await resized(service, vm, cpu="1")
        await service.settle()
        assert await ended(service, labels) == ("done", "")


@pytest.mark.parametrize(
    ("method", "path", "what"), [("POST", "/stop", "a stop"), ("DELETE", "", "a deletion")], ids=["stop", "delete"]
)
async def test_a_create_that_never_got_a_place_is_overtaken(method: str, path: str, what: str) -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=4)
        made = (await service.create("huge", spec={"cpu": "64"})).json()
        await service.settle()
        later = await asked(service, method, f"/v1/vms/{made['vm']['id']}{path}")
        await service.settle()
        assert await ended(service, made["operation"]["id"]) == ("failed", by(what))
        assert await ended(service, later) == ("done", "")


async def test_a_start_that_waits_for_room_is_overtaken_by_a_stop() -> None:
    async with open_service() as service:
        vm = await one_that_runs(service)
        await asked(service, "POST", f"/v1/vms/{vm}/stop")
        await service.settle()
        await resized(service, vm, cpu="64")
        await service.settle()
        start = await asked(service, "POST", f"/v1/vms/{vm}/start")
        await service.settle()
        await asked(service, "POST", f"/v1/vms/{vm}/stop")
        assert await ended(service, start) == ("failed", by("a stop"))


async def test_a_stop_that_its_host_has_not_carried_out_is_overtaken_by_a_start() -> None:
    async with open_service() as service:
        vm = await one_that_runs(service)
        stop = await asked(service, "POST", f"/v1/vms/{vm}/stop")
        start = await asked(service, "POST", f"/v1/vms/{vm}/start")
        await service.settle()
        assert await ended(service, stop) == ("failed", by("a start"))
        assert await ended(service, start) == ("done", "")


async def test_restart_during_waiting_growth_is_done_and_growth_is_not() -> None:
    async with open_service() as service:
        vm = await one_that_runs(service)
        huge = await resized(service, vm, cpu="64")
        restart = await asked(service, "POST", f"/v1/vms/{vm}/restart")
        await service.settle()
        await asked(service, "DELETE", f"/v1/vms/{vm}")
        await service.settle()
        assert await ended(service, restart) == ("done", "")
        assert await ended(service, huge) == ("failed", by("a deletion"))


async def test_what_came_true_stays_done_whatever_is_wanted_later() -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=4)
        made = (await service.create("web")).json()
        vm, operations = made["vm"]["id"], [made["operation"]["id"]]
        await service.settle()
        operations.append(await resized(service, vm, cpu="2"))
        await service.settle()
        operations.append(await resized(service, vm, cpu="1"))
        await service.settle()
        operations.append(await asked(service, "POST", f"/v1/vms/{vm}/stop"))
        await service.settle()
        operations.append(await asked(service, "DELETE", f"/v1/vms/{vm}"))
        await service.settle()
        assert [await ended(service, one) for one in operations] == [("done", "")] * 5


async def test_a_wish_that_changes_nothing_overtakes_nothing() -> None:
    async with open_service() as service:
        vm = await one_that_runs(service)
        huge = await resized(service, vm, cpu="64")
        again = await resized(service, vm, cpu="64")
        assert [(await ended(service, one))[0] for one in (huge, again)] == ["pending", "pending"]
