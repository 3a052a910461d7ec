"""Names of devices: what one request, VM or host may bring, and that nobody blocks anybody else with them."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import Capabilities, DeviceHere, HostSize, Register
from hostler.control.fleet.agents.message_bounds import bound_registration
from hostler.control.fleet.errors import MessageBoundsError
from hostler.control.vms.guests import guest_spec
from hostler.control.vms.spec import VmSpec, check_vm_spec, size_of
from hostler.engine import Engine, find_policy
from hostler.errors import InputError
from hostler.model import Guest, GuestArrived
from tests.control.api.service_in_process import open_service
from tests.control.api.test_host_devices import give_devices


def gpu(*models: str) -> dict[str, object]:
    return {"devices": [{"kind": "gpu", "count": 1, "models": list(models)}]}


async def test_vm_with_too_many_models_is_rejected_with_the_number() -> None:
    async with open_service() as service:
        await service.add_hosts("north")
        found = await service.create("greedy", spec=gpu(*(f"m{number}" for number in range(65))))
        assert (found.status_code, found.json()["code"]) == (400, "invalid_input")
        assert found.headers["content-type"].startswith("application/problem+json")
        assert "65 models" in found.text
        assert "at most 64" in found.text


async def test_vms_with_invented_models_block_no_other_vm() -> None:
    """VMs that name 4,480 models in all come and go; a VM with a device is placed, and before that it has a reason."""

    async with open_service() as service:
        await service.add_hosts("north")
        for batch in range(70):
            made = await service.create(f"greedy-{batch}", spec=gpu(*(f"m{batch}.{k}" for k in range(64))))
            assert made.status_code == 202, made.text
            await service.settle()
            await service.ask("DELETE", f"/v1/vms/{made.json()['vm']['id']}")
        made = await service.create("honest", spec=gpu("t4"))
        await service.settle()
        waiting = (await service.ask("GET", f"/v1/vms/{made.json()['vm']['id']}")).json()
        assert (waiting["state"], bool(waiting["why"])) == ("pending", True)
        await give_devices(service, "north")
        await service.settle()
        placed = (await service.ask("GET", f"/v1/vms/{made.json()['vm']['id']}")).json()
        assert placed["host"], placed


def test_vm_at_every_bound_is_taken_by_the_engine() -> None:
    """What the API lets through, the engine takes: 16 device requests with 64 models."""
    devices = [{"kind": f"k{at}", "models": [f"m{at}.{k}" for k in range(4)]} for at in range(16)]
    spec = check_vm_spec(msgspec.convert({"cpu": "1", "memory": "1Gi", "devices": devices}, VmSpec))
    engine = Engine([find_policy("spread")])
    guest = Guest(name="g", uid="g", spec=guest_spec(spec, "p", size_of(spec)))
    engine.apply(GuestArrived(guest=guest))
    assert list(engine.guests()) == ["g"]


def test_vm_with_more_device_requests_than_the_engine_takes_is_rejected() -> None:
    """The engine takes 16 requests; a VM with more waited for ever, without a reason."""
    devices = [{"kind": f"k{at}"} for at in range(17)]
    with pytest.raises(InputError, match="devices: 17 of them"):
        check_vm_spec(msgspec.convert({"cpu": "1", "memory": "1Gi", "devices": devices}, VmSpec))


@pytest.mark.parametrize("field", ["kind", "model"])
def test_host_with_too_many_device_names_is_rejected(field: str) -> None:
    devices = tuple(DeviceHere(**{"kind": "gpu", field: f"n{number}"}) for number in range(17))
    size = HostSize(cpu_millis=1000, memory_bytes=2**30, devices=devices)
    message = Register(boot="b", agent="a", version="1", driver="fake", capabilities=Capabilities(), size=size)
    with pytest.raises(MessageBoundsError, match="17 different ones") as caught:
        bound_registration(message)
    assert (caught.value.code, caught.value.status) == ("message_out_of_bounds", 422)
