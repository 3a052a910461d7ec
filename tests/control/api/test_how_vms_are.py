"""What an explanation says of a VM that has a place and does not run there, and of one that finds no other place."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from hostler.agent.messages import Capabilities, Trouble, VmReport
from hostler.control.books import ledger
from hostler.control.fleet.announcing import announce
from hostler.control.fleet.hosts import read_body
from hostler.control.services.explaining import explain_vm
from hostler.control.store import Connection, hosts
from hostler.control.vms import reports, wishes
from hostler.engine import Engine
from tests.control.api.house import House, open_house

SHARED = {"disks": [{"size": "1Gi", "storage": "nfs"}]}


async def say(house: House, vm: str, **words: Any) -> None:
    """Let the host of a VM report something of it."""

    def work(connection: Connection) -> None:
        stored = ledger.load(connection, vm)
        assert stored.vm.home is not None
        report = VmReport(vm=vm, state="absent", generation=0, **words)
        report = msgspec.structs.replace(report, failed_generation=stored.vm.home.generation)
        change = reports.reported(stored.vm, stored.vm.home.host, report)
        ledger.write(connection, stored, change, actor="test", now_ns=time.time_ns())

    await house.database.write(work)


async def fall_silent(house: House, vm: str) -> None:
    """Let nothing be heard of the host of a VM."""

    def work(connection: Connection) -> None:
        row = hosts.find_by_name(connection, "a")
        assert row is not None
        silent = msgspec.structs.replace(row, state="silent", agent="x")
        announce(connection, row, silent, read_body(row), actor="test", now_ns=time.time_ns())
        stored = ledger.load(connection, vm)
        ledger.write(connection, stored, reports.silent(stored.vm), actor="test", now_ns=time.time_ns())

    await house.database.write(work)


async def explained(house: House, vm: str) -> dict[str, Any]:
    answer = await house.ask("GET", f"/v1/vms/{vm}/decision")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def made(house: House, name: str, **more: Any) -> str:
    answer = await house.create(name, **more)
    assert answer.status_code == 202, answer.text
    await house.settle()
    return str(answer.json()["vm"]["id"])


def test_a_vm_that_failed_is_not_explained_as_one_that_runs() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            vm = await made(house, "web")
            assert (await explained(house, vm))["now"] == "runs on a"
            trouble = Trouble(kind="permanent", code="no_image", message="no such image", hint="bring it there")
            await say(house, vm, trouble=trouble)
            told = await explained(house, vm)
            assert (told["state"], told["now"]) == ("failed", "failed on a: no such image")
            assert told["hint"] == "bring it there; 'hostler vm restart default/web' tries again"

    asyncio.run(scenario())


def test_a_vm_on_a_silent_host_is_explained_as_unknown_with_what_ends_that() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            vm = await made(house, "web")
            await fall_silent(house, vm)
            told = await explained(house, vm)
            assert told["state"] == "unknown"
            assert told["now"] == "is on a, of which nothing is heard: whether it runs is not known"
            assert told["hint"] == (
                "bring a back: it is not heard, so look at its network, its agent and the machine; "
                "if it is dead, switch it off, then 'hostler host confirm-dead a'"
            )

    asyncio.run(scenario())


def test_a_move_that_finds_no_place_says_so_without_words_of_the_engine() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", "b", "c")
            await house.describe("b", capabilities=Capabilities(pause=True))
            await house.describe("c", capabilities=Capabilities(live_migration=True))
            vm = await made(house, "web", spec={"host_selector": {"kubernetes.io/hostname": "a"}})
            await house.ask(
                "PATCH", f"/v1/vms/{vm}", json={"spec": {"host_selector": {"kubernetes.io/hostname": None}}}
            )
            await house.settle()
            filling = await made(house, "big", spec={"cpu": "4", "host_name": "c"})
            asked = await house.ask("POST", f"/v1/vms/{vm}/migrate")
            assert asked.status_code == 202, asked.text
            await house.settle()
            path = f"/v1/operations/{asked.json()['operation']['id']}"
            operation = (await house.ask("GET", path)).json()
            why = "not moved: 0 of 3 hosts: 1 insufficient cpu, 1 it is to leave a, 1 no live migration"
            assert (operation["state"], operation["error"]) == ("failed", why)
            events = (await house.ask("GET", f"/v1/vms/{vm}/events", params={"limit": 500})).json()["items"]
            told = [(one["kind"], one["text"]) for one in events]
            assert ("vm.not_moved", why) in told
            assert ("vm.waiting", "web asks for a place on another host") in told
            assert ("vm.withdrawn", "no longer asks for a place on another host") in told
            assert (await house.ask("GET", f"/v1/vms/{filling}")).json()["host"] == "c"

    asyncio.run(scenario())


async def explained_move(house: House, vm: str) -> dict[str, Any]:
    """Explain a move that is asked for and not decided yet."""
    stored = await house.database.read(lambda connection: ledger.load(connection, vm))
    change = wishes.migrate(stored.vm)

    def work(engine: Engine) -> dict[str, Any]:
        for fact in change.facts:
            engine.apply(fact)
        return explain_vm(engine, change.vm)

    found, _ = await house.context.books.ask(work)
    return found


def test_a_move_that_waits_is_explained_by_other_hosts_than_the_one_that_is_left() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            vm = await made(house, "web", spec={"cpu": "2"})
            alone = await explained_move(house, vm)
            assert alone["now"] == "is on a, and is to move to another host"
            assert alone["verdicts"][0]["failures"][0]["reason"]["code"] == "it_is_to_leave"
            assert (alone["cure"], alone["near_misses"]) == (None, [])
            await house.add_hosts("b", cpu=1)
            await house.settle()
            told = await explained_move(house, vm)
            counts = {one["reason"]["code"]: one["hosts"] for one in told["decision"]["reasons"]}
            assert counts == {"it_is_to_leave": 1, "insufficient": 1}
            assert (told["near_misses"], told["cure"]["host"]) == (["b"], "b")
            assert "NotIn" not in str(told)
            assert "hostler/" not in str(told)

    asyncio.run(scenario())


def test_a_vm_that_lacks_a_storage_is_told_so_and_how_hosts_get_it() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            vm = await made(house, "web", spec=SHARED)
            told = await explained(house, vm)
            assert [one["reason"]["code"] for one in told["decision"]["reasons"]] == ["no_storage"]
            [failure] = told["verdicts"][0]["failures"]
            assert (failure["reason"]["code"], failure["reason"]["subject"]) == ("no_storage", "nfs")
            assert told["cure"]["changes"][0]["text"] == "give a the storage nfs, and name it to its agent"
            shown = (await house.ask("GET", f"/v1/vms/{vm}")).json()
            assert shown["why"] == "0 of 1 host: 1 no storage nfs"
            body = {"vms": [{"spec": {"cpu": "1", "memory": "1Gi", **SHARED}}]}
            [planned] = (await house.ask("POST", "/v1/plan", json=body)).json()["placements"]
            assert planned["why"] == shown["why"]

    asyncio.run(scenario())


def test_a_disk_on_its_host_keeps_a_vm_from_moving_and_the_refusal_says_so() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", "b")
            vm = await made(house, "web", spec={"disks": [{"size": "1Gi"}]})
            refused = await house.ask("POST", f"/v1/vms/{vm}/migrate")
            assert refused.json()["code"] == "not_movable"
            assert "VM web cannot be moved: it has a disk on its host" in refused.text

    asyncio.run(scenario())


def test_a_vm_that_was_stopped_and_grown_is_told_of_in_words_of_its_owner() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", "b")
            vm = await made(house, "web", spec={"disks": [{"size": "1Gi"}]})
            await house.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": "2"}})
            await house.settle()
            await house.ask("POST", f"/v1/vms/{vm}/stop")
            await house.settle()
            await house.ask("DELETE", f"/v1/vms/{vm}")
            await house.settle()
            events = (await house.ask("GET", "/v1/events", params={"limit": 500, "subject": vm})).json()["items"]
            told = [(one["kind"], one["text"]) for one in events]
            for expected in (
                ("vm.waiting", "web asks for more room on its host"),
                ("vm.placed", f"has more room on {_host(told)}"),
                ("vm.grown", "has all that it grew by"),
                ("vm.released", "takes no cpu and memory any more"),
                ("vm.released", "takes no room for disks any more"),
            ):
                assert expected in told
            assert not [text for _, text in told if "room back" in text or "no longer asks" in text]

    asyncio.run(scenario())


def _host(told: list[tuple[str, str]]) -> str:
    return next(text.removeprefix("placed on ") for kind, text in told if kind == "vm.placed")


def test_the_queue_says_since_when_a_vm_waits_whatever_changed_meanwhile() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = await made(house, "web")
            created = (await house.ask("GET", f"/v1/vms/{vm}")).json()["created_at"]
            await house.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"labels": {"tier": "gold"}}})
            await house.settle()
            [waiting] = (await house.ask("GET", "/v1/queue")).json()["items"]
            assert waiting["since"] == created
            await house.add_hosts("a")
            await house.settle()
            assert (await house.ask("GET", "/v1/queue")).json()["items"] == []
            await house.ask("POST", f"/v1/vms/{vm}/stop")
            await house.settle()
            await house.ask("POST", "/v1/hosts/a/cordon")
            started = (await house.ask("POST", f"/v1/vms/{vm}/start")).json()["vm"]["updated_at"]
            await house.settle()
            await house.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"labels": {"tier": "tin"}}})
            await house.settle()
            [waiting] = (await house.ask("GET", "/v1/queue")).json()["items"]
            assert waiting["since"] == started

    asyncio.run(scenario())
