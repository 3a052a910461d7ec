"""What an explanation says of a VM that has a place and does not run there, and of one that finds no other place."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from hostler.agent.messages import Capabilities, Trouble, VmReport
from hostler.control.books import ledger
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.services.explanations.vm_explanations import explain_vm
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.vms import desired_state, reports
from hostler.engine import Engine
from tests.control.api.service_in_process import InProcessService, open_service

SHARED = {"disks": [{"size": "1Gi", "storage": "nfs"}]}


async def say(service: InProcessService, vm: str, **words: Any) -> None:
    """Let the host of a VM report something of it."""

    def work(connection: Connection) -> None:
        stored = ledger.load(connection, vm)
        assert stored.vm.home is not None
        report = VmReport(vm=vm, state="absent", generation=0, **words)
        report = msgspec.structs.replace(report, failed_generation=stored.vm.home.generation)
        change = reports.apply_report(stored.vm, stored.vm.home.host, report)
        ledger.write(connection, stored, change, actor="test", now_ns=time.time_ns())

    await service.database.write(work)


async def fall_silent(service: InProcessService, vm: str) -> None:
    """Let nothing be heard of the host of a VM."""

    def work(connection: Connection) -> None:
        row = hosts.find_by_name(connection, "a")
        assert row is not None
        silent = msgspec.structs.replace(row, state="silent", agent="x")
        announce(connection, row, silent, read_body(row), actor="test", now_ns=time.time_ns())
        stored = ledger.load(connection, vm)
        ledger.write(connection, stored, reports.mark_unknown(stored.vm), actor="test", now_ns=time.time_ns())

    await service.database.write(work)


async def explained(service: InProcessService, vm: str) -> dict[str, Any]:
    answer = await service.ask("GET", f"/v1/vms/{vm}/decision")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def made(service: InProcessService, name: str, **more: Any) -> str:
    answer = await service.create(name, **more)
    assert answer.status_code == 202, answer.text
    await service.settle()
    return str(answer.json()["vm"]["id"])


async def test_a_vm_that_failed_is_not_explained_as_one_that_runs() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = await made(service, "web")
        assert (await explained(service, vm))["now"] == "runs on a"
        trouble = Trouble(kind="permanent", code="no_image", message="no such image", hint="bring it there")
        await say(service, vm, trouble=trouble)
        told = await explained(service, vm)
        assert (told["state"], told["now"]) == ("failed", "failed on a: no such image")
        assert told["hint"] == "bring it there; 'hostler vm restart default/web' tries again"


async def test_a_vm_on_a_silent_host_is_explained_as_unknown_with_what_ends_that() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = await made(service, "web")
        await fall_silent(service, vm)
        told = await explained(service, vm)
        assert told["state"] == "unknown"
        assert told["now"] == "is on a, which is silent: it is unknown whether it runs"
        assert told["hint"] == (
            "bring a back: it is silent, so check its network, its agent and the machine; "
            "if it is dead, switch it off, then 'hostler host confirm-dead a'"
        )


async def test_a_move_that_finds_no_place_says_so_without_words_of_the_engine() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", "c")
        await service.describe("b", capabilities=Capabilities(pause=True))
        await service.describe("c", capabilities=Capabilities(live_migration=True))
        vm = await made(service, "web", spec={"host_selector": {"kubernetes.io/hostname": "a"}})
        await service.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"host_selector": {"kubernetes.io/hostname": None}}})
        await service.settle()
        filling = await made(service, "big", spec={"cpu": "4", "host_name": "c"})
        asked = await service.ask("POST", f"/v1/vms/{vm}/migrate")
        assert asked.status_code == 202, asked.text
        await service.settle()
        path = f"/v1/operations/{asked.json()['operation']['id']}"
        operation = (await service.ask("GET", path)).json()
        why = "not moved: 0 of 3 hosts: 1 insufficient cpu, 1 it is to leave a, 1 no live migration"
        assert (operation["state"], operation["error"]) == ("failed", why)
        events = (await service.ask("GET", f"/v1/vms/{vm}/events", params={"limit": 500})).json()["items"]
        told = [(one["kind"], one["text"]) for one in events]
        assert ("vm.not_moved", why) in told
        assert ("vm.waiting", "web asks for a place on another host") in told
        assert ("vm.withdrawn", "no longer asks for a place on another host") in told
        assert (await service.ask("GET", f"/v1/vms/{filling}")).json()["host"] == "c"


async def explained_move(service: InProcessService, vm: str) -> dict[str, Any]:
    """Explain a move that is asked for and not decided yet."""
    stored = await service.database.read(lambda connection: ledger.load(connection, vm))
    change = desired_state.migrate(stored.vm)

    def work(engine: Engine) -> dict[str, Any]:
        for fact in change.facts:
            engine.apply(fact)
        return explain_vm(engine, change.vm)

    found, _ = await service.context.books.ask(work)
    return found


async def test_waiting_move_is_explained_without_source_host() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = await made(service, "web", spec={"cpu": "2"})
        alone = await explained_move(service, vm)
        assert alone["now"] == "is on a, and is to move to another host"
        assert alone["verdicts"][0]["failures"][0]["reason"]["code"] == "it_is_to_leave"
        assert (alone["cure"], alone["near_misses"]) == (None, [])
        await service.add_hosts("b", cpu=1)
        await service.settle()
        told = await explained_move(service, vm)
        counts = {one["reason"]["code"]: one["hosts"] for one in told["decision"]["reasons"]}
        assert counts == {"it_is_to_leave": 1, "insufficient": 1}
        assert (told["near_misses"], told["cure"]["host"]) == (["b"], "b")
        assert "NotIn" not in str(told)
        assert "hostler/" not in str(told)


async def test_a_vm_that_lacks_a_storage_is_reported_so_and_how_hosts_get_it() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = await made(service, "web", spec=SHARED)
        told = await explained(service, vm)
        assert [one["reason"]["code"] for one in told["decision"]["reasons"]] == ["no_storage"]
        [failure] = told["verdicts"][0]["failures"]
        assert (failure["reason"]["code"], failure["reason"]["subject"]) == ("no_storage", "nfs")
        assert told["cure"]["changes"][0]["text"] == "give a the storage nfs, and name it to its agent"
        shown = (await service.ask("GET", f"/v1/vms/{vm}")).json()
        assert shown["why"] == "0 of 1 host: 1 no storage nfs"
        body = {"vms": [{"spec": {"cpu": "1", "memory": "1Gi", **SHARED}}]}
        [planned] = (await service.ask("POST", "/v1/plan", json=body)).json()["placements"]
        assert planned["why"] == shown["why"]


async def test_a_disk_on_its_host_keeps_a_vm_from_moving_and_the_refusal_says_so() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        vm = await made(service, "web", spec={"disks": [{"size": "1Gi"}]})
        refused = await service.ask("POST", f"/v1/vms/{vm}/migrate")
        assert refused.json()["code"] == "not_movable"
        assert "VM web cannot be moved: it has a disk on its host" in refused.text


async def test_a_vm_that_was_stopped_and_grown_is_reported_in_words_of_its_owner() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        vm = await made(service, "web", spec={"disks": [{"size": "1Gi"}]})
        await service.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": "2"}})
        await service.settle()
        await service.ask("POST", f"/v1/vms/{vm}/stop")
        await service.settle()
        await service.ask("DELETE", f"/v1/vms/{vm}")
        await service.settle()
        events = (await service.ask("GET", "/v1/events", params={"limit": 500, "subject": vm})).json()["items"]
        told = [(one["kind"], one["text"]) for one in events]
        for expected in (
            ("vm.waiting", "web asks for more room on its host"),
            ("vm.placed", f"has more room on {_host(told)}"),
            ("vm.released", "takes no cpu and memory any more"),
            ("vm.released", "takes no room for disks any more"),
        ):
            assert expected in told
        assert not [text for _, text in told if "room back" in text or "no longer asks" in text]


def _host(told: list[tuple[str, str]]) -> str:
    return next(text.removeprefix("placed on ") for kind, text in told if kind == "vm.placed")


async def test_the_queue_says_since_when_a_vm_waits_whatever_changed_meanwhile() -> None:
    async with open_service() as service:
        vm = await made(service, "web")
        created = (await service.ask("GET", f"/v1/vms/{vm}")).json()["created_at"]
        await service.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"labels": {"tier": "gold"}}})
        await service.settle()
        [waiting] = (await service.ask("GET", "/v1/queue")).json()["items"]
        assert waiting["since"] == created
        await service.add_hosts("a")
        await service.settle()
        assert (await service.ask("GET", "/v1/queue")).json()["items"] == []
        await service.ask("POST", f"/v1/vms/{vm}/stop")
        await service.settle()
        await service.ask("POST", "/v1/hosts/a/cordon")
        started = (await service.ask("POST", f"/v1/vms/{vm}/start")).json()["vm"]["updated_at"]
        await service.settle()
        await service.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"labels": {"tier": "tin"}}})
        await service.settle()
        [waiting] = (await service.ask("GET", "/v1/queue")).json()["items"]
        assert waiting["since"] == started
