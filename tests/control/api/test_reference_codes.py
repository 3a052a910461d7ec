"""The cases of the service that this one replaces, as a user sees them: which host, or which status and code.

``docs/vm-reference-cases.md`` lists all cases with the tests that show them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.control.settings import ControlSettings
from tests.async_tests import run_with
from tests.control.api.service_in_process import GIB, InProcessService, open_service

ROOT = Path(__file__).resolve().parents[3]
MIB = 2**20
TOTAL = (8, 16000, 100_000)
Json = dict[str, Any]


async def agent(
    service: InProcessService, name: str, free: tuple[int, int, int] = (6, 12000, 80000), *,
    total: tuple[int, int, int] = TOTAL, has: tuple[str, ...] = (), bridges: tuple[str, ...] = (),
    is_online: bool = True,
) -> str:  # fmt: skip
    """Let an agent register a host on which another VM takes what is not free; return its credential."""
    token = (await service.ask("POST", "/v1/tokens", json={"host_name": name})).json()["secret"]
    joined = await service.client.post("/agent/v1/join", json={"token": token, "name": name})
    credential: str = joined.json()["credential"]
    register = {
        "boot": "boot",
        "agent": f"agent of {name}",
        "version": "1",
        "driver": "fake",
        "capabilities": {"disks": True, "bridges": True},
        "size": {"cpu_millis": total[0] * 1000, "memory_bytes": total[1] * MIB, "disk_bytes": total[2] * GIB},
        "labels": [[label, "yes"] for label in has],
        "bridges": list(bridges),
    }
    headers = {"Authorization": f"Bearer {credential}"}
    answer = await service.client.post("/agent/v1/register", json=register, headers=headers)
    assert answer.status_code == 200, answer.text
    taken = [have - left for have, left in zip(total, free, strict=True)]
    if any(taken):
        filler = vm(*taken, host_name=name)
        assert (await create(service, f"on-{name}", filler)).status_code == 202
    if not is_online:
        await service.set_state(name, "silent")
    return credential


def vm(cpu: int = 2, memory: int = 2048, disk: int = 20000, **more: Any) -> Json:
    return {
        "cpu": str(cpu) if cpu else "1m",
        "memory": f"{memory or 1}Mi",
        "disks": [{"size": f"{disk}Gi"}] if disk else [],
        **more,
    }


async def create(service: InProcessService, name: str, spec: Json, **headers: str) -> httpx.Response:
    """Ask for a VM that is placed at once or refused."""
    body = {"name": name, "spec": spec, "on_unplaceable": "fail"}
    return await service.ask("POST", "/v1/vms", json=body, headers=headers)


def play(scenario: Callable[[InProcessService], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with open_service(settings=ControlSettings(verdict_s=60.0, **settings)) as service:
            await scenario(service)

    asyncio.run(run())


def said(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "")


def reasons(answer: httpx.Response) -> dict[str, int]:
    """Return the reasons of a refusal with the number of hosts for each."""
    found: dict[str, int] = {}
    for verdict in answer.json()["decision"]["verdicts"]:
        for failure in verdict["failures"]:
            word = " ".join((failure["reason"]["code"], failure["reason"].get("subject", "")))
            found[word] = found.get(word, 0) + 1
    return found


# -- none, too small, all offline: three different answers ------------------------------------------------------------


@run_with(play)
async def test_error_codes_without_agents_and_with_small_ones(service: InProcessService, /) -> None:
    assert said(await create(service, "none", vm())) == (503, "no_available_agents")
    await agent(service, "a", (1, 12000, 80000))
    small = await create(service, "small", vm())
    assert said(small) == (409, "insufficient_resources")
    assert set(reasons(small)) == {"insufficient cpu"}
    await agent(service, "b", is_online=False)
    offline = await create(service, "offline", vm())
    assert said(offline) == (409, "insufficient_resources"), "one of them is there"
    await service.set_state("a", "silent")
    assert said(await create(service, "offline", vm())) == (503, "no_available_agents")
    assert [one["name"] for one in (await service.ask("GET", "/v1/vms")).json()["items"]] == ["on-a", "on-b"]


@run_with(play)
async def test_requested_strategy_overrides_default_and_unknown_is_rejected(service: InProcessService, /) -> None:
    await agent(service, "1", (2, 12000, 80000))
    await agent(service, "2", (6, 12000, 80000))
    small = vm(1, 100, 10)
    assert (await create(service, "default", small)).json()["vm"]["host"] == "2"
    assert (await create(service, "chosen", {**small, "strategy": "best_fit"})).json()["vm"]["host"] == "1"
    assert said(await create(service, "typo", {**small, "strategy": "bestfit"})) == (400, "invalid_strategy")


@run_with(play, strategy="best_fit")
async def test_the_default_is_that_of_the_service(service: InProcessService, /) -> None:
    await agent(service, "1", (2, 12000, 80000))
    await agent(service, "2", (6, 12000, 80000))
    assert (await create(service, "default", vm(1, 100, 10))).json()["vm"]["host"] == "1"


# -- capabilities are labels: who has them, and how many have not ------------------------------------------------------

RUNTIME, NIC, FIRECRACKER = "has/sandboxes", "has/sandbox-networking", "runs/firecracker"


def needs(*labels: str, **more: Any) -> Json:
    return vm(host_selector=dict.fromkeys(labels, "yes"), **more)


@pytest.mark.parametrize(
    ("first", "second", "spec"),
    [
        pytest.param((), (FIRECRACKER,), needs(FIRECRACKER), id="hypervisor"),
        pytest.param((), (RUNTIME,), needs(RUNTIME), id="sandbox runtime"),
        pytest.param((RUNTIME,), (RUNTIME, NIC), needs(RUNTIME, NIC), id="sandbox nic"),
    ],
)
@run_with(play)
async def test_capable_agent_is_chosen_or_incapable_ones_are_counted(
    service: InProcessService, /, first: tuple[str, ...], second: tuple[str, ...], spec: Json
) -> None:
    await agent(service, "roomy", (8, 16000, 100_000), has=first)
    await agent(service, "tight", (2, 2048, 20000), has=second)
    assert (await create(service, "vm", spec)).json()["vm"]["host"] == "tight"
    change = {"labels": {label: "no" for label in second if label not in first}}
    assert (await service.ask("PATCH", "/v1/hosts/tight", json=change)).status_code == 200
    refused = await create(service, "another", spec)
    assert said(refused) == (409, "insufficient_resources")
    assert [count for reason, count in reasons(refused).items() if reason.startswith("selector")] == [2]


@run_with(play)
async def test_a_capable_agent_without_room_is_reported_as_such(service: InProcessService, /) -> None:
    await agent(service, "capable", (0, 12000, 80000), has=(FIRECRACKER,))
    await agent(service, "roomy", (8, 16000, 100_000))
    refused = await create(service, "vm", needs(FIRECRACKER))
    assert said(refused) == (409, "insufficient_resources")
    why = {
        verdict["host"]: [one["reason"]["code"] for one in verdict["failures"]]
        for verdict in refused.json()["decision"]["verdicts"]
    }
    assert why["capable"] == ["insufficient"]
    assert "insufficient" not in why["roomy"]


# -- reservations: agents of 4 cores, 8192 MiB and 50000 GiB -----------------------------------------------------------

ROOM = (4, 8192, 50000)
WHOLE = vm(*ROOM)


@run_with(play)
async def test_one_of_two_concurrent_creates_is_rejected(service: InProcessService, /) -> None:
    await agent(service, "a", ROOM, total=ROOM)
    answers = await asyncio.gather(create(service, "one", WHOLE), create(service, "two", WHOLE))
    assert sorted(map(said, answers)) == [(202, ""), (409, "insufficient_resources")]
    [host] = (await service.ask("GET", "/v1/hosts")).json()["items"]
    assert host["used"] == host["may_give"], "all of it, once"


@run_with(play)
async def test_third_vm_is_rejected_until_one_of_two_full_agents_is_free(service: InProcessService, /) -> None:
    for name in "ab":
        await agent(service, name, ROOM, total=ROOM)
    answers = await asyncio.gather(create(service, "one", WHOLE), create(service, "two", WHOLE))
    assert {answer.json()["vm"]["host"] for answer in answers} == {"a", "b"}
    assert said(await create(service, "three", WHOLE)) == (409, "insufficient_resources")
    await service.settle()
    first = answers[0].json()["vm"]
    await service.ask("DELETE", f"/v1/vms/{first['id']}")
    assert said(await create(service, "three", WHOLE)) == (409, "insufficient_resources"), "its host has it still"
    await service.settle()
    assert (await create(service, "three", WHOLE)).json()["vm"]["host"] == first["host"]


@run_with(play)
async def test_the_same_request_again_takes_nothing_more(service: InProcessService, /) -> None:
    await agent(service, "a", ROOM, total=ROOM)
    half, key = vm(2, 4096, 1000), {"Idempotency-Key": "k"}
    first, again = [await create(service, "one", half, **key) for _ in range(2)]
    assert first.json()["vm"]["id"] == again.json()["vm"]["id"]
    assert (await create(service, "two", half)).status_code == 202


@run_with(play)
async def test_report_with_known_and_unknown_vm_frees_no_room(service: InProcessService, /) -> None:
    credential = await agent(service, "a", ROOM, total=ROOM)
    one = (await create(service, "one", vm(2, 4096, 1000))).json()["vm"]
    await create(service, "two", vm(2, 4096, 1000))
    headers = {"Authorization": f"Bearer {credential}"}
    report = {
        "boot": "boot",
        "agent": "agent of a",
        "epoch": 1,
        "sequence": 1,
        "vms": [{"vm": one["id"], "state": "running", "generation": 2}, {"vm": "vm-9", "state": "running"}],
    }
    told = await service.client.post("/agent/v1/report", json=report, headers=headers)
    assert told.status_code == 200, told.text
    assert (await service.ask("GET", f"/v1/vms/{one['id']}")).json()["state"] == "running"
    assert said(await create(service, "three", vm(1, 1, 1))) == (409, "insufficient_resources")
    [host] = (await service.ask("GET", "/v1/hosts")).json()["items"]
    assert (host["used"]["cpu_millis"], host["used"]["memory_bytes"]) == (4000, 8192 * MIB)


# -- the table of all cases --------------------------------------------------------------------------------------------


def test_every_test_that_the_table_of_cases_names_exists() -> None:
    page = (ROOT / "docs" / "vm-reference-cases.md").read_text()
    files = dict(re.findall(r"^\| (\w+) \| `(tests/[\w/.]+)` \|$", page, re.MULTILINE))
    assert set(files) == {"engine", "vms", "agent", "api"}
    sources = {word: (ROOT / path).read_text() for word, path in files.items()}
    named = 0
    for line in page.splitlines():
        for word, names in re.findall(r"\b(engine|vms|agent|api) ((?:`[^`]+`(?:, )?)+)", line):
            for name in re.findall(r"`([^`]+)`", names):
                text = sources[word]
                assert f"def {name}(" in text or f'id="{name}"' in text, f"{word} {name}"
                named += 1
    assert named > 50
