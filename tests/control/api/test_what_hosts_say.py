"""Owners read in events how their VMs are, once for each change, and of which host the agent is that said so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler.control.services.deeds import note_kind
from tests.control.api.hands import Hand
from tests.control.api.house import House, open_house

WORDS = ("vm.running", "vm.paused", "vm.stopped", "vm.deleted", "vm.failed")


async def settled(house: House, *hands: Hand) -> None:
    await house.caught_up()
    while sum([await hand.obey() for hand in hands]):
        await house.caught_up()


async def events(house: House, vm: str) -> list[dict[str, Any]]:
    found = (await house.ask("GET", "/v1/events", params={"limit": 500, "subject": vm})).json()["items"]
    return [dict(one) for one in found]


def test_each_change_of_how_a_vm_is_is_told_once_in_its_owners_words() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            north = Hand(house, "north", 4, set())
            await north.join()
            vm = (await house.create("web", spec={"disks": [{"size": "1Gi"}]})).json()["vm"]["id"]
            await settled(house, north)
            for verb in ("pause", "resume", "stop", "start", "restart"):
                assert (await house.ask("POST", f"/v1/vms/{vm}/{verb}")).status_code == 202, verb
                await settled(house, north)
            await north.register()  # it tells the same again
            assert (await house.ask("DELETE", f"/v1/vms/{vm}")).status_code == 202
            await settled(house, north)
            told = await events(house, vm)
            said = [one["text"] for one in told if one["kind"] in WORDS]
            here = "running on north"
            assert said == [here, "paused on north", here, "stopped", here, here, "deleted"]
            assert {one["by"] for one in told if one["kind"] in WORDS} == {"agent of north"}
            assert all(one["actor"].startswith("agent:") for one in told if one["kind"] in WORDS)
            kept = [one["text"] for one in told if one["kind"] == "vm.kept"]
            assert kept == ["web keeps its disks on north"]
            assert "note" not in {one["kind"] for one in told}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("running on a", "vm.running"),
        ("it makes room for a VM of higher priority", "vm.evicted"),
        ("not moved: 0 of 2 hosts", "vm.not_moved"),
        ("its host is gone", "note"),
    ],
)
def test_words_about_vms_have_kinds_of_their_own(text: str, kind: str) -> None:
    assert note_kind(text) == kind
