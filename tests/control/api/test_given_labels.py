"""Labels that the service itself gives to hosts: nobody else writes them, everybody may select by them."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.control.api.hands import Hand
from tests.control.api.house import SMALL, open_house

OURS = ["hostler/storage.nfs", "hostler/bridge.br0", "hostler/can-migrate", "hostler/driver", "kubernetes.io/hostname"]


def assert_refused(answer: httpx.Response, key: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input"), answer.text
    assert f"{key!r} is a label that only the service gives" in answer.json()["detail"]


@pytest.mark.parametrize("key", [*OURS, "hostler/whatever"])
def test_nobody_gives_a_label_of_the_service_to_vms_hosts_and_projects(key: str) -> None:
    async def scenario() -> None:
        async with open_house(is_led=False) as house:
            await house.add_hosts("a")
            labels = {key: "yes"}
            assert_refused(await house.create("web", spec={"labels": labels}), key)
            assert_refused(await house.ask("PATCH", "/v1/hosts/a", json={"labels": labels}), key)
            assert_refused(await house.ask("POST", "/v1/projects", json={"name": "red", "labels": labels}), key)

    asyncio.run(scenario())


def test_a_vm_that_is_there_gets_no_such_label_either() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = (await house.create("web")).json()["vm"]["id"]
            patch = {"spec": {"labels": {"hostler/driver": "qemu"}}}
            assert_refused(await house.ask("PATCH", f"/v1/vms/{vm}", json=patch), "hostler/driver")

    asyncio.run(scenario())


def test_labels_that_only_look_like_it_are_anybodys() -> None:
    async def scenario() -> None:
        async with open_house(is_led=False) as house:
            await house.add_hosts("a")
            labels = {"hostler": "x", "kubernetes.io/hostname-2": "x", "example.com/hostler/x": "x"}
            assert (await house.create("web", spec={"labels": labels})).status_code == 202
            assert (await house.ask("PATCH", "/v1/hosts/a", json={"labels": labels})).status_code == 200

    asyncio.run(scenario())


def test_everybody_may_select_hosts_by_them() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            north, south = Hand(house, "north", 4, set()), Hand(house, "south", 4, set())
            await north.join()
            await south.join()
            wanted = {"kubernetes.io/hostname": "south", "hostler/driver": "fake", "hostler/can-migrate": "yes"}
            vm = (await house.create("web", spec={"host_selector": wanted})).json()["vm"]["id"]
            await house.caught_up()
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json()["host"] == "south"

    asyncio.run(scenario())


def test_a_planned_host_may_have_a_storage_and_no_other_name_than_its_own() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            disk = {"disks": [{"size": "1Gi", "storage": "nfs"}]}
            host = {"name": "new", "cpu": 4, "memory": "8Gi", "labels": {"hostler/storage.nfs": "yes"}}
            body = {"vms": [{"spec": {**SMALL, **disk}}], "hosts": [host]}
            [planned] = (await house.ask("POST", "/v1/plan", json=body)).json()["placements"]
            assert planned["host"] == "new"
            host["labels"] = {"kubernetes.io/hostname": "other"}
            refused = await house.ask("POST", "/v1/plan", json=body)
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
            assert "is the name that a host has anyway" in refused.json()["detail"]

    asyncio.run(scenario())
