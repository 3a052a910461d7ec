"""Labels that the service itself gives to hosts: nobody else writes them, everybody may select by them."""

from __future__ import annotations

import httpx
import pytest

from tests.control.api.fake_hosts import FakeHost
from tests.control.api.service_in_process import SMALL, open_service

OURS = ["hostler/storage.nfs", "hostler/bridge.br0", "hostler/can-migrate", "hostler/driver", "kubernetes.io/hostname"]


def assert_refused(answer: httpx.Response, key: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input"), answer.text
    assert f"{key!r} is a label that only the service gives" in answer.json()["detail"]


@pytest.mark.parametrize("key", [*OURS, "hostler/whatever"])
async def test_nobody_gives_a_label_of_the_service_to_vms_hosts_and_projects(key: str) -> None:
    async with open_service(is_led=False) as service:
        await service.add_hosts("a")
        labels = {key: "yes"}
        assert_refused(await service.create("web", spec={"labels": labels}), key)
        assert_refused(await service.ask("PATCH", "/v1/hosts/a", json={"labels": labels}), key)
        assert_refused(await service.ask("POST", "/v1/projects", json={"name": "red", "labels": labels}), key)


async def test_a_vm_that_is_there_gets_no_such_label_either() -> None:
    async with open_service() as service:
        vm = (await service.create("web")).json()["vm"]["id"]
        patch = {"spec": {"labels": {"hostler/driver": "qemu"}}}
        assert_refused(await service.ask("PATCH", f"/v1/vms/{vm}", json=patch), "hostler/driver")


async def test_labels_that_only_look_like_it_are_anybodys() -> None:
    async with open_service(is_led=False) as service:
        await service.add_hosts("a")
        labels = {"hostler": "x", "kubernetes.io/hostname-2": "x", "example.com/hostler/x": "x"}
        assert (await service.create("web", spec={"labels": labels})).status_code == 202
        assert (await service.ask("PATCH", "/v1/hosts/a", json={"labels": labels})).status_code == 200


async def test_everybody_may_select_hosts_by_them() -> None:
    async with open_service() as service:
        north, south = FakeHost(service, "north", 4, set()), FakeHost(service, "south", 4, set())
        await north.join()
        await south.join()
        wanted = {"kubernetes.io/hostname": "south", "hostler/driver": "fake", "hostler/can-migrate": "yes"}
        vm = (await service.create("web", spec={"host_selector": wanted})).json()["vm"]["id"]
        await service.caught_up()
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["host"] == "south"


async def test_a_planned_host_may_have_a_storage_and_no_other_name_than_its_own() -> None:
    async with open_service() as service:
        disk = {"disks": [{"size": "1Gi", "storage": "nfs"}]}
        host = {"name": "new", "cpu": 4, "memory": "8Gi", "labels": {"hostler/storage.nfs": "yes"}}
        body = {"vms": [{"spec": {**SMALL, **disk}}], "hosts": [host]}
        [planned] = (await service.ask("POST", "/v1/plan", json=body)).json()["placements"]
        assert planned["host"] == "new"
        host["labels"] = {"kubernetes.io/hostname": "other"}
        refused = await service.ask("POST", "/v1/plan", json=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
        assert "is the name that a host has anyway" in refused.json()["detail"]
