"""Events as pages and as a stream, health and numbers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest
import uvicorn

from hostler.control.settings import ControlSettings
from hostler.control.store.history import log
from hostler.model import Host, HostJoined
from tests.control.api.service_in_process import InProcessService, open_service


@asynccontextmanager
async def served(service: InProcessService) -> AsyncIterator[httpx.AsyncClient]:
    """Let the service listen on loopback: what goes on for ever does not go through a client in process."""
    server = uvicorn.Server(uvicorn.Config(service.app, host="127.0.0.1", port=0, log_level="error"))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    headers = {"Authorization": f"Bearer {service.secret}"}
    async with httpx.AsyncClient(base_url=f"http://localhost:{port}", headers=headers, timeout=60) as client:
        yield client
    service.context.stopping.set()
    server.should_exit = True
    await serving


async def take(lines: AsyncIterator[str], count: int) -> list[tuple[int, str]]:
    """Return number and kind of the next events of a stream."""
    found: list[tuple[int, str]] = []
    number = 0
    async for line in lines:
        if line.startswith("id: "):
            number = int(line[4:])
        if line.startswith("event: "):
            found.append((number, line[7:]))
        if len(found) == count:
            break
    return found


async def test_stream_has_past_and_new_events_and_resumes(url: str) -> None:
    stream = {"Accept": "text/event-stream"}
    async with open_service(url=url) as service, served(service) as client:
        await service.add_hosts("a")
        async with client.stream("GET", "/v1/events", headers=stream) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.aiter_lines()
            first = await take(lines, 2)
            assert {kind for _, kind in first} == {"host.joined", "strategies.changed"}
            await service.create("web")
            more = await take(lines, 3)
            assert [kind for _, kind in more] == ["vm.waiting", "vm.create", "vm.placed"]
        last = {**stream, "Last-Event-ID": str(more[0][0])}
        async with client.stream("GET", "/v1/events", headers=last) as answer:
            assert await take(answer.aiter_lines(), 2) == more[1:]
        wrong = await client.get("/v1/events", headers={**stream, "Last-Event-ID": "x"})
        assert wrong.status_code == 400


@pytest.mark.parametrize("path", ["/v1/events", "/v1/events?news=true"])
async def test_a_stream_ends_with_its_key(url: str, path: str) -> None:
    async with open_service(url=url, settings=ControlSettings(alive_s=0.05)) as service, served(service) as client:
        secret = await service.key("viewer", "default")
        identity = (await service.as_key(secret, "GET", "/v1/whoami")).json()["id"]
        headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {secret}"}
        async with client.stream("GET", path, headers=headers) as answer:
            lines = answer.aiter_lines()
            await take(lines, 1)
            await service.ask("DELETE", f"/v1/keys/{identity}")
            async for _ in lines:
                pass
        assert any("the stream ends" in line for line in service.said)


async def test_a_stream_of_news_says_that_something_changed_and_not_what(url: str) -> None:
    stream = {"Accept": "text/event-stream"}
    async with open_service(url=url) as service, served(service) as client:
        await service.add_hosts("a")
        vm = (await service.create("web")).json()["vm"]["id"]
        await service.caught_up()
        async with client.stream("GET", "/v1/events?news=true", headers=stream) as answer:
            lines = answer.aiter_lines()
            assert await take(lines, 1) == [(0, "news")]
            await service.obey()  # a report, which is no event
            assert await take(lines, 1) == [(0, "news")]
            assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "running"
        page = await client.get("/v1/events?news=true")
        assert (page.status_code, page.json()["code"]) == (400, "invalid_input")


async def test_events_of_old_that_are_gone_are_told_as_gone(url: str) -> None:
    async with open_service(url=url) as service:
        await service.create("web")
        await service.caught_up()
        await service.database.write(
            lambda connection: connection.exec_driver_sql("DELETE FROM log WHERE seq <= 2").rowcount
        )
        await service.database.write(
            lambda connection: connection.exec_driver_sql("UPDATE log_head SET forgotten = 2").rowcount
        )
        oldest = (await service.ask("GET", "/v1/events")).json()["items"]
        assert oldest[0]["seq"] >= 3
        answer = await service.ask("GET", "/v1/events?after=1")
        assert (answer.status_code, answer.json()["code"]) == (410, "log_forgotten")
        assert (await service.ask("GET", "/v1/events?after=2")).status_code == 200


async def test_health_says_whether_the_service_lives_and_is_ready() -> None:
    async with open_service() as service:
        assert (await service.ask("GET", "/livez")).json()["status"] == "ok"
        ready = await service.ask("GET", "/readyz")
        assert (ready.status_code, ready.json()["is_leader"]) == (200, True)
        service.context.books.is_ready = False
        assert (await service.ask("GET", "/readyz")).status_code == 503
        assert (await service.ask("GET", "/livez")).status_code == 200


async def test_metrics_count_requests_placements_and_what_there_is() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        await service.create("web", on_unplaceable="fail")
        await service.create("huge", spec={"cpu": "100", "strategy": "best_fit"}, on_unplaceable="fail")
        await service.create("waits", spec={"cpu": "100"})
        await service.settle()
        text = (await service.ask("GET", "/metrics")).text
        for line in (
            'hostler_control_requests_total{method="POST",route="/v1/vms",status="202"} 2.0',
            'hostler_control_requests_total{method="POST",route="/v1/vms",status="409"} 1.0',
            'hostler_control_placements_total{outcome="placed",strategy="default"} 1.0',
            'hostler_control_placements_total{outcome="insufficient_resources",strategy="best_fit"} 1.0',
            'hostler_control_placements_total{outcome="accepted",strategy="default"} 1.0',
            'hostler_control_vms{state="running"} 1.0',
            'hostler_control_vms{state="pending"} 1.0',
            'hostler_control_hosts{state="ready"} 1.0',
            'hostler_control_queue_length{queue="waiting"} 1.0',
            "hostler_control_leader 1.0",
            "hostler_control_books_lag 0.0",
        ):
            assert line in text, line


async def test_a_path_that_leads_nowhere_is_no_label() -> None:
    async with open_service() as service:
        await service.ask("GET", "/secret-path")
        text = (await service.ask("GET", "/metrics")).text
        assert "secret-path" not in text
        assert 'route="other",status="404"' in text


async def test_a_fact_that_the_engine_refused_is_counted_and_told_once() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        beyond = HostJoined(host=Host(name="b", uid="b", version=2**63))
        fact = log.NewEntry(at_ns=1, kind="fact", body=msgspec.json.encode(beyond))
        [seq] = await service.database.write(lambda connection: log.append(connection, [fact]))
        await service.create("web")
        await service.settle()
        assert "hostler_control_books_refused_total 1.0" in (await service.ask("GET", "/metrics")).text
        await service.context.books._rebuild()
        assert "hostler_control_books_refused_total 1.0" in (await service.ask("GET", "/metrics")).text
        told = [line for line in service.said if "the engine rejected" in line]
        assert len(told) == 1, told
        assert told[0].startswith(f"the engine rejected entry {seq} of the log: HostJoined: ")
