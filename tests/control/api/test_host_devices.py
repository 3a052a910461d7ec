"""Hosts say which of their devices VMs have."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from hostler.agent.messages import DeviceHere
from hostler.control.fleet.hosts.devices import devices_in_use
from hostler.control.fleet.hosts.host_body import read_body, with_body
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.vms import desired_state
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Booking, Claim, Vm
from tests.control.api.service_in_process import InProcessService, open_service

DEVICES = (DeviceHere(kind="gpu", model="t4"), DeviceHere(kind="gpu", model="t4"), DeviceHere(kind="nic"))


async def give_devices(service: InProcessService, name: str) -> None:
    """Let a host register with devices."""

    def work(connection: Connection) -> None:
        row = hosts.find_by_name(connection, name)
        assert row is not None
        body = read_body(row)
        body = msgspec.structs.replace(body, size=msgspec.structs.replace(body.size, devices=DEVICES))
        announce(connection, row, with_body(row, body), body, actor="test", now_ns=time.time_ns())

    await service.database.write(work)


async def shown(service: InProcessService) -> dict[str, Any]:
    """Return devices in use by host, as lists say it, and as each host says it."""
    listed = {one["name"]: one for one in (await service.ask("GET", "/v1/hosts")).json()["items"]}
    for name, one in listed.items():
        single = (await service.ask("GET", f"/v1/hosts/{name}")).json()
        assert (single["devices"], single["devices_used"]) == (one["devices"], one["devices_used"])
    return {name: (one["vms"], one["devices"], one["devices_used"]) for name, one in listed.items()}


async def test_a_vm_with_a_device_is_counted_there_until_it_is_gone() -> None:
    async with open_service() as service:
        await service.add_hosts("north", "south")
        await give_devices(service, "north")
        all_devices = ["gpu:t4", "gpu:t4", "nic"]
        assert await shown(service) == {"north": (0, all_devices, []), "south": (0, [], [])}
        made = await service.create("web", spec={"devices": [{"kind": "gpu", "count": 1}]})
        assert made.status_code == 202, made.text
        await service.settle()
        assert (await shown(service))["north"] == (1, all_devices, ["gpu:t4"])
        await service.ask("DELETE", f"/v1/vms/{made.json()['vm']['id']}")
        await service.settle()
        assert (await shown(service))["north"][2] == []


def vm(number: int, **more: Any) -> Vm:
    change = desired_state.create(f"vm{number}", "default", f"web{number}", VmSpec(cpu="1", memory="1Gi"))
    return msgspec.structs.replace(change.vm, **more)


def test_shared_device_counts_once_and_moving_one_on_both_hosts() -> None:
    north, south = Booking(host="n", name="north"), Booking(host="s", name="south")
    bound = Claim(uid="u", is_bound=True, devices=(0, 2))
    there = msgspec.structs.replace(bound, devices=(1,))
    asks = msgspec.structs.replace(bound, is_bound=False, devices=(3,))
    found = [vm(1, home=north, run=bound), vm(2, home=north, run=bound, other=south, move=there)]
    found += [vm(3, home=north, run=asks), vm(4, run=None)]
    assert devices_in_use(found) == {"n": {0, 2}, "s": {1}}
