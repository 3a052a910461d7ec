"""Hosts say which of their devices VMs have."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from hostler.agent.messages import DeviceHere
from hostler.control.fleet.announcing import announce
from hostler.control.fleet.devices import devices_in_use
from hostler.control.fleet.hosts import read_body, with_body
from hostler.control.store import Connection, hosts
from hostler.control.vms import wishes
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Booking, Claim, Vm
from tests.control.api.house import House, open_house

DEVICES = (DeviceHere(kind="gpu", model="t4"), DeviceHere(kind="gpu", model="t4"), DeviceHere(kind="nic"))


async def give_devices(house: House, name: str) -> None:
    """Let a host register with devices."""

    def work(connection: Connection) -> None:
        row = hosts.find_by_name(connection, name)
        assert row is not None
        body = read_body(row)
        body = msgspec.structs.replace(body, size=msgspec.structs.replace(body.size, devices=DEVICES))
        announce(connection, row, with_body(row, body), body, actor="test", now_ns=time.time_ns())

    await house.database.write(work)


async def shown(house: House) -> dict[str, Any]:
    """Return devices in use by host, as lists say it, and as each host says it."""
    listed = {one["name"]: one for one in (await house.ask("GET", "/v1/hosts")).json()["items"]}
    for name, one in listed.items():
        single = (await house.ask("GET", f"/v1/hosts/{name}")).json()
        assert (single["devices"], single["devices_used"]) == (one["devices"], one["devices_used"])
    return {name: (one["vms"], one["devices"], one["devices_used"]) for name, one in listed.items()}


def test_a_vm_with_a_device_is_counted_there_until_it_is_gone() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("north", "south")
            await give_devices(house, "north")
            all_devices = ["gpu:t4", "gpu:t4", "nic"]
            assert await shown(house) == {"north": (0, all_devices, []), "south": (0, [], [])}
            made = await house.create("web", spec={"devices": [{"kind": "gpu", "count": 1}]})
            assert made.status_code == 202, made.text
            await house.settle()
            assert (await shown(house))["north"] == (1, all_devices, ["gpu:t4"])
            await house.ask("DELETE", f"/v1/vms/{made.json()['vm']['id']}")
            await house.settle()
            assert (await shown(house))["north"][2] == []

    asyncio.run(scenario())


def vm(number: int, **more: Any) -> Vm:
    change = wishes.create(f"vm{number}", "default", f"web{number}", VmSpec(cpu="1", memory="1Gi"))
    return msgspec.structs.replace(change.vm, **more)


def test_a_device_that_is_shared_counts_once_and_one_of_a_moving_vm_at_both_ends() -> None:
    north, south = Booking(host="n", name="north"), Booking(host="s", name="south")
    bound = Claim(uid="u", is_bound=True, devices=(0, 2))
    there = msgspec.structs.replace(bound, devices=(1,))
    asks = msgspec.structs.replace(bound, is_bound=False, devices=(3,))
    found = [vm(1, home=north, run=bound), vm(2, home=north, run=bound, other=south, move=there)]
    found += [vm(3, home=north, run=asks), vm(4, run=None)]
    assert devices_in_use(found) == {"n": {0, 2}, "s": {1}}
