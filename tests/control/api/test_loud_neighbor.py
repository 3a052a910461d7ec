"""One project's gangs are searched for over many steps; VMs of another project are placed in between."""

from __future__ import annotations

import asyncio

from hostler.control.store.history import log
from hostler.control.vms.status_texts import BEHIND_OTHERS, describe_gang_search
from tests.control.api.service_in_process import SMALL, InProcessService, open_service
from tests.wait import until

HOSTS = 11
SEARCHED = describe_gang_search("default/crew")
FEW = 2  # steps from a VM's arrival to its place: one that began before it, and the next


def member(number: int, gang: str = "crew") -> dict[str, object]:
    rule = {"topology": "kubernetes.io/hostname", "selector": {"app": gang}}
    spec = {**SMALL, "gang": gang, "labels": {"app": gang}, "anti_affinity": [rule]}
    return {"project": "default", "name": f"{gang}-{number}", "spec": spec}


async def until_searching(service: InProcessService) -> None:
    books = service.context.books
    while not (await books.ask(lambda engine: any(map(engine.view.gangs.is_searched, engine.view.gangs.known))))[0]:
        await asyncio.sleep(0.01)


def test_vm_is_placed_while_gangs_of_another_project_are_searched_for() -> None:
    """Eleven hosts for twelve members that stay apart: nothing but a long search finds out that it cannot be."""

    async def story() -> None:
        async with open_service() as service:
            await service.add_hosts(*(f"h{number}" for number in range(HOSTS)))
            assert (await service.ask("POST", "/v1/projects", json={"name": "quiet"})).status_code == 201
            await add_gang(service, "crew")
            await until_searching(service)
            made = await service.ask("POST", "/v1/vms", json={"project": "quiet", "name": "web", "spec": SMALL})
            identity = made.json()["vm"]["id"]
            while (await service.ask("GET", f"/v1/vms/{identity}")).json()["host"] is None:
                await asyncio.sleep(0.001)
            entries = service.database.read_now(lambda connection: log.read_after(connection, 0, 10_000))
            arrived, bound = [one.seq for one in entries if one.kind == "fact" and one.subject == identity][:2]
            assert sum(one.kind == "step" for one in entries if arrived < one.seq < bound) <= FEW
            said = (await service.ask("GET", "/v1/vms?project=default")).json()["items"]
            assert {vm["state"] for vm in said} == {"pending"}
            assert {vm["why"] for vm in said} == {SEARCHED}

    asyncio.run(asyncio.wait_for(story(), 60))


def test_members_say_that_their_gang_is_searched_for_or_is_next() -> None:
    """Their rows had no reason until the search ended; a second gang of the project waits behind the first."""

    async def story() -> None:
        async with open_service() as service:
            await service.add_hosts(*(f"h{number}" for number in range(HOSTS)))
            await add_gang(service, "crew")
            await until_searching(service)
            await add_gang(service, "next")
            for path in ("/v1/vms", "/v1/queue"):
                for gang, why in (("crew", SEARCHED), ("next", BEHIND_OTHERS)):
                    await until(lambda path=path, gang=gang, why=why: reasons(service, path, gang, {why}))

    asyncio.run(asyncio.wait_for(story(), 60))


def test_gang_says_that_it_is_searched_for_or_is_next() -> None:
    """The gang, its members and the queue have the same sentence, and the same word for programs."""

    async def story() -> None:
        async with open_service() as service:
            await service.add_hosts(*(f"h{number}" for number in range(HOSTS)))
            await add_gang(service, "crew")
            await until_searching(service)
            await add_gang(service, "next")
            for gang, why in (("crew", SEARCHED), ("next", BEHIND_OTHERS)):
                await until(lambda gang=gang, why=why: reasons(service, "/v1/gangs", gang, {why}))
                one = (await service.ask("GET", f"/v1/gangs/default/{gang}")).json()
                assert (one["why"], one["reason"]) == (why, "searching")
            queued = (await service.ask("GET", "/v1/queue")).json()["items"]
            assert {one["reason"] for one in queued} == {"searching"}
            members = (await service.ask("GET", "/v1/vms?gang=crew")).json()["items"]
            assert {one["conditions"][0]["reason"] for one in members} == {"searching"}

    asyncio.run(asyncio.wait_for(story(), 60))


def test_search_of_a_gang_with_a_stopped_member_is_not_about_that() -> None:
    async def story() -> None:
        async with open_service() as service:
            await service.add_hosts(*(f"h{number}" for number in range(HOSTS)))
            assert (await service.ask("POST", "/v1/vms", json=member(99))).status_code == 202
            [spare] = (await service.ask("GET", "/v1/vms")).json()["items"]
            assert (await service.ask("POST", f"/v1/vms/{spare['id']}/stop")).is_success
            await add_gang(service, "crew")
            await until_searching(service)
            await until(lambda: reasons(service, "/v1/queue", "crew", {SEARCHED}))
            one = (await service.ask("GET", "/v1/gangs/default/crew")).json()
            assert (one["why"], one["reason"]) == (f"{SEARCHED}; 1 is stopped", "searching")

    asyncio.run(asyncio.wait_for(story(), 60))


async def reasons(service: InProcessService, path: str, gang: str, wanted: set[str]) -> bool:
    items = (await service.ask("GET", f"{path}?project=default&limit=100")).json()["items"]
    return {one["why"] for one in items if one["name"].split("-")[0] == gang} == wanted


async def add_gang(service: InProcessService, name: str) -> None:
    """Ask for one member more than there are hosts; they stay apart."""
    gang = {"project": "default", "name": name, "min_count": HOSTS + 1}
    assert (await service.ask("POST", "/v1/gangs", json=gang)).status_code == 201
    for number in range(HOSTS + 1):
        assert (await service.ask("POST", "/v1/vms", json=member(number, name))).status_code == 202
