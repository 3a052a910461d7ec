"""Owners read each change of their VMs once in the events, with the host whose agent reported it."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.control.services.event_texts import note_kind
from tests.control.api.fake_hosts import FakeHost
from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_vm_status_texts import fall_silent

WORDS = ("vm.running", "vm.paused", "vm.stopped", "vm.deleted", "vm.failed")


async def settled(service: InProcessService, *hands: FakeHost) -> None:
    await service.caught_up()
    while sum([await hand.obey() for hand in hands]):
        await service.caught_up()


async def events(service: InProcessService, vm: str) -> list[dict[str, Any]]:
    found = (await service.ask("GET", "/v1/events", params={"limit": 500, "subject": vm})).json()["items"]
    return [dict(one) for one in found]


async def test_each_change_of_how_a_vm_is_is_reported_once_in_its_owners_words() -> None:
    async with open_service() as service:
        north = FakeHost(service, "north", 4, set())
        await north.join()
        vm = (await service.create("web", spec={"disks": [{"size": "1Gi"}]})).json()["vm"]["id"]
        await settled(service, north)
        for verb in ("pause", "resume", "stop", "start", "restart"):
            assert (await service.ask("POST", f"/v1/vms/{vm}/{verb}")).status_code == 202, verb
            await settled(service, north)
        await north.register()  # it tells the same again
        assert (await service.ask("DELETE", f"/v1/vms/{vm}")).status_code == 202
        await settled(service, north)
        told = await events(service, vm)
        said = [one["text"] for one in told if one["kind"] in WORDS]
        here = "running on north"
        assert said == [here, "paused on north", here, "stopped", here, here, "deleted"]
        assert {one["by"] for one in told if one["kind"] in WORDS} == {"agent of north"}
        assert all(one["actor"].startswith("agent:") for one in told if one["kind"] in WORDS)
        kept = [one["text"] for one in told if one["kind"] == "vm.kept"]
        assert kept == ["web keeps its disks on north"]
        assert "note" not in {one["kind"] for one in told}


async def test_moved_vm_is_never_said_to_run_by_the_agent_it_left() -> None:
    async with open_service() as service:
        on_the_way: set[str] = set()
        hands = [FakeHost(service, name, 4, on_the_way) for name in ("north", "south")]
        for hand in hands:
            await hand.join()
        vm = (await service.create("web")).json()["vm"]["id"]
        await settled(service, *hands)
        here = (await service.ask("GET", f"/v1/vms/{vm}")).json()["host"]
        there = "south" if here == "north" else "north"
        assert (await service.ask("POST", f"/v1/vms/{vm}/migrate", json={"host": there})).status_code == 202
        await settled(service, *hands)
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["host"] == there
        said = [(one["kind"], one["text"], one["by"]) for one in await events(service, vm)]
        assert ("vm.moved", f"moved to {there}", f"agent of {there}") in said
        assert [by for _, text, by in said if text.endswith(f" on {there}") and by == f"agent of {here}"] == []


async def test_deleted_host_has_events_of_hosts_only() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        answer = await service.ask("DELETE", "/v1/hosts/a", params={"confirm": "a"})
        assert answer.status_code < 300, answer.text
        told = (await service.ask("GET", "/v1/events", params={"limit": 500})).json()["items"]
        about = [(one["kind"], one["about"], one["subject"]) for one in told if one["subject"] == "id-a"]
        assert ("host.deleted", "a", "id-a") in about
        assert not [kind for kind, _, _ in about if kind.startswith("vm.")]


async def test_pending_and_unknown_vms_are_not_shown_as_healthy() -> None:
    async with open_service() as service:
        vm = (await service.create("web")).json()["vm"]["id"]
        await service.settle()
        assert await healthy(service, vm) == (False, "pending")
        await service.add_hosts("a")
        await service.settle()
        assert await healthy(service, vm) == (True, "")
        await fall_silent(service, vm)
        assert await healthy(service, vm) == (False, "unknown")


async def healthy(service: InProcessService, vm: str) -> tuple[bool, str]:
    """Return the condition "healthy" of a VM: whether it holds, and why not."""
    shown = (await service.ask("GET", f"/v1/vms/{vm}")).json()
    return next((one["status"], one["reason"]) for one in shown["conditions"] if one["type"] == "healthy")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("running on a", "vm.running"),
        ("it makes room for a VM of higher priority", "vm.evicted"),
        ("not moved: 0 of 2 hosts", "vm.not_moved"),
        ("moved to a", "vm.moved"),
        ("the move is given up: its source is gone", "vm.not_moved"),
        ("its host is gone", "note"),
    ],
)
def test_words_about_vms_have_kinds_of_their_own(text: str, kind: str) -> None:
    assert note_kind(text) == kind
