"""Lists: filters, pages with a maximum, and pages that neither repeat nor hide."""

from __future__ import annotations

from typing import Any

import pytest

from tests.control.api.service_in_process import open_service


async def test_pages_follow_each_other_while_vms_come_and_go(url: str) -> None:
    async with open_service(url=url) as service:
        for number in range(7):
            await service.create(f"vm-{number}")
        seen: list[str] = []
        after, pages = "", 0
        while True:
            page = (await service.ask("GET", "/v1/vms", params={"limit": 3, "after": after})).json()
            seen += [one["name"] for one in page["items"]]
            assert len(page["items"]) <= 3
            if pages == 0:
                first = page["items"][0]["id"]
                await service.ask("DELETE", f"/v1/vms/{first}")
                await service.create("late")
            pages += 1
            after = page["next"]
            if not after:
                break
        assert seen == [*(f"vm-{number}" for number in range(7)), "late"]
        assert pages == 3


async def test_lists_show_what_was_asked_for(url: str) -> None:
    async with open_service(url=url) as service:
        await service.add_hosts("a", "b")
        await service.ask("POST", "/v1/projects", json={"name": "red"})
        await service.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 1})
        await service.create("one", spec={"labels": {"app": "web"}, "host_name": "a"})
        await service.create("two", spec={"labels": {"app": "web", "tier": "2"}, "host_name": "b"})
        await service.create("three", project="red", spec={"cpu": "100"})
        await service.create("four", spec={"gang": "crew"})
        await service.settle()

        async def names(**query: str) -> list[str]:
            answer = await service.ask("GET", "/v1/vms", params=query)
            return [one["name"] for one in answer.json()["items"]]

        assert await names(project="red") == ["three"]
        assert await names(state="pending") == ["three"]
        assert await names(power="running") == ["one", "two", "three", "four"]
        assert "one" in await names(host="a")
        assert "two" in await names(host="id-b")
        assert await names(host="nowhere") == []
        assert await names(host="") == ["three"]
        assert await names(gang="crew") == ["four"]
        assert await names(name="two") == ["two"]
        assert await names(label="app=web") == ["one", "two"]
        both = await service.ask("GET", "/v1/vms?label=app=web&label=tier=2")
        assert [one["name"] for one in both.json()["items"]] == ["two"]
        assert await names(label="app=db") == []


async def test_all_other_lists_come_in_pages_too(url: str) -> None:
    async with open_service(url=url) as service:
        await service.add_hosts("a", "b", "c")
        for name in ("p1", "p2", "p3"):
            await service.ask("POST", "/v1/projects", json={"name": name})
            await service.key("viewer", name)
            await service.ask("POST", "/v1/tokens")
            await service.create(f"vm-{name}")
            await service.ask("POST", "/v1/quotas", json={"project": name})
            for what in ("one", "two"):
                await service.ask("POST", "/v1/gangs", json={"project": name, "name": what})
                room = {"project": name, "name": what, "amounts": {"cpu": "10m"}}
                await service.ask("POST", "/v1/reservations", json=room)
        await service.settle()
        for path, total in (
            ("/v1/hosts", 3),
            ("/v1/projects", 4),
            ("/v1/keys", 4),
            ("/v1/tokens", 3),
            ("/v1/operations", 3),
            ("/v1/queue", 0),
            ("/v1/quotas", 3),
            ("/v1/gangs", 6),
            ("/v1/reservations", 6),
        ):
            seen, after = 0, ""
            while True:
                page = (await service.ask("GET", path, params={"limit": 2, "after": after})).json()
                assert len(page["items"]) <= 2, path
                seen += len(page["items"])
                after = page["next"]
                if not after:
                    break
            assert seen == total, path
            assert (await service.ask("GET", path, params={"limit": 501})).status_code == 400


@pytest.mark.parametrize(("kind", "more"), [("gangs", {}), ("reservations", {"amounts": {"cpu": 1}})])
async def test_pages_go_by_project_and_name_while_others_come_and_go(url: str, kind: str, more: dict[str, Any]) -> None:
    async with open_service(url=url) as service:
        for project in ("blue", "red"):
            await service.ask("POST", "/v1/projects", json={"name": project})
            for name in ("a", "b", "c"):
                made = await service.ask("POST", f"/v1/{kind}", json={"project": project, "name": name, **more})
                assert made.status_code == 201, made.text

        async def page(after: str, **query: str) -> tuple[list[str], str]:
            found = (await service.ask("GET", f"/v1/{kind}", params={"limit": 2, "after": after, **query})).json()
            return [f"{one['project']}/{one['name']}" for one in found["items"]], found["next"]

        first, after = await page("")
        assert first == ["blue/a", "blue/b"]
        await service.ask("DELETE", f"/v1/{kind}/blue/b")
        await service.ask("POST", f"/v1/{kind}", json={"project": "blue", "name": "aa", **more})
        second, after = await page(after)
        assert second == ["blue/c", "red/a"]
        assert await page(after) == (["red/b", "red/c"], "")
        first, after = await page("", project="red")
        assert (first, await page(after, project="red")) == (["red/a", "red/b"], (["red/c"], ""))
        nonsense = await service.ask("GET", f"/v1/{kind}", params={"after": "nonsense"})
        assert (nonsense.status_code, nonsense.json()["code"]) == (400, "invalid_cursor")


async def test_a_key_of_a_project_pages_through_its_own_only(url: str) -> None:
    async with open_service(url=url) as service:
        for project in ("blue", "red"):
            await service.ask("POST", "/v1/projects", json={"name": project})
            await service.ask("POST", "/v1/quotas", json={"project": project})
            for name in ("a", "b"):
                await service.ask("POST", "/v1/gangs", json={"project": project, "name": name})
        key = await service.key("viewer", "red")
        own = (await service.as_key(key, "GET", "/v1/quotas", params={"limit": 1})).json()
        assert ([one["project"] for one in own["items"]], own["next"]) == (["red"], "")
        first = (await service.as_key(key, "GET", "/v1/gangs", params={"limit": 1})).json()
        query = {"limit": 1, "after": first["next"]}
        second = (await service.as_key(key, "GET", "/v1/gangs", params=query)).json()
        seen = [(one["project"], one["name"]) for one in first["items"] + second["items"]]
        assert (seen, second["next"]) == ([("red", "a"), ("red", "b")], "")


async def test_a_text_that_no_database_keeps_is_found_nowhere(url: str) -> None:
    async with open_service(url=url) as service:
        for path in (
            "/v1/vms?name=%00", "/v1/vms?project=%00", "/v1/vms?host=%00", "/v1/vms?gang=%00", "/v1/vms/%00",
            "/v1/hosts/%00", "/v1/vms?label=a=%00", "/v1/projects?after=%00", "/v1/gangs?after=a/%00",
            "/v1/projects/%00", "/v1/operations?subject=%00", "/v1/events?subject=%00", "/v1/keys?project=%00",
            "/v1/gangs/%00/%00",
        ):  # fmt: skip
            answer = await service.ask("GET", path)
            assert answer.status_code < 500, f"{path}: {answer.text}"
