"""Which events are listed and followed: by time, by kind, the last few, and how many a resize leaves."""

from __future__ import annotations

from typing import Any

from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_events import served, take


async def kinds_of(service: InProcessService, **asked: Any) -> list[str]:
    answer = await service.ask("GET", "/v1/events", params={"limit": 500, **asked})
    assert answer.status_code == 200, answer.text
    return [one["kind"] for one in answer.json()["items"]]


async def made(service: InProcessService, name: str) -> str:
    answer = await service.create(name)
    await service.settle()
    return str(answer.json()["vm"]["id"])


async def test_tail_gives_the_last_events_in_order() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        await made(service, "web")
        every = await kinds_of(service)
        assert len(every) > 3
        assert await kinds_of(service, tail=3) == every[-3:]
        assert await kinds_of(service, tail=0) == []
        assert await kinds_of(service, tail=1, kind="vm.create") == ["vm.create"]


async def test_kind_names_a_kind_or_all_kinds_of_a_noun() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = await made(service, "web")
        assert set(await kinds_of(service, kind="host")) == {"host.joined"}
        assert await kinds_of(service, kind=["vm.placed", "vm.create"]) == ["vm.create", "vm.placed"]
        answer = await service.ask("GET", f"/v1/vms/{vm}/events", params={"kind": "vm.placed", "tail": 5})
        assert [one["kind"] for one in answer.json()["items"]] == ["vm.placed"]


async def test_since_leaves_out_what_happened_before() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        await made(service, "web")
        every = (await service.ask("GET", "/v1/events", params={"limit": 500})).json()["items"]
        late = await made(service, "late")
        after = (await service.ask("GET", "/v1/events", params={"limit": 500, "subject": late})).json()["items"][0]
        told = (await service.ask("GET", "/v1/events", params={"limit": 500, "since": after["at"]})).json()["items"]
        assert told[0]["seq"] > every[-1]["seq"]
        assert {one["subject"] for one in told} == {late}
        wrong = await service.ask("GET", "/v1/events", params={"since": "yesterday"})
        assert (wrong.status_code, "since" in wrong.json()["detail"]) == (400, True)


async def test_stream_with_tail_says_where_the_past_ends() -> None:
    stream = {"Accept": "text/event-stream"}
    async with open_service() as service, served(service) as client:
        await service.add_hosts("a")
        async with client.stream("GET", "/v1/events?tail=0&kind=vm", headers=stream) as answer:
            lines = answer.aiter_lines()
            assert [kind for _, kind in await take(lines, 1)] == ["live"]
            await service.create("web")
            assert [kind for _, kind in await take(lines, 1)] == ["vm.waiting"]


async def test_resize_of_a_running_vm_is_at_most_three_events() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = await made(service, "web")
        before = await kinds_of(service, subject=vm)
        for size in ("2", "1"):
            answer = await service.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": size}})
            assert answer.status_code == 202, answer.text
            await service.settle()
            after = await kinds_of(service, subject=vm)
            new = after[len(before) :]
            assert len(new) <= 3, new
            assert "vm.resize" in new
            before = after
