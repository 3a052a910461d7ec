"""What is said of a VM that is not yet as asked for, or that waits since a restore: in words, without numbers."""

from __future__ import annotations

import re

import msgspec
import pytest

from hostler.control.books.ledger import StoredVm
from hostler.control.schemas import Vm as ShownVm
from hostler.control.services.vms.vm_views import show_vm
from hostler.control.store.backup.restored_numbers import OF_A_BACKUP
from hostler.control.store.rows.vms import VmRow
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Booking, Claim, Vm

RAISED = 1_800_000_000_000  # as after a restore
HOME = Booking(host="h", name="north", generation=RAISED)
RUNNING = Vm(
    id="v",
    project="default",
    name="web",
    spec=VmSpec(cpu="1", memory="1Gi"),
    generation=RAISED,
    observed_generation=RAISED,
    reported="running",
    home=HOME,
    run=Claim(uid="v/1", is_bound=True),
)


def shown(**changes: object) -> ShownVm:
    vm = msgspec.structs.replace(RUNNING, **changes)
    return show_vm(StoredVm(vm, VmRow(id="v", project="default", name="web", power="running")))


def texts(vm: ShownVm) -> str:
    return "\n".join([vm.why, *(one.message for one in vm.conditions)])


def test_a_vm_that_is_not_as_asked_for_yet_says_so_without_generations() -> None:
    vm = shown(observed_generation=3)
    [settled] = [one for one in vm.conditions if one.type == "settled"]
    assert (settled.status, settled.message) == (False, "the last change is not applied yet")
    assert (vm.generation, vm.observed_generation) == (RAISED, 3)
    assert not re.search(r"\d{4}", texts(vm))


@pytest.mark.parametrize("place", ["home", "other"])
def test_a_vm_of_a_backup_that_gets_no_orders_says_what_it_waits_for(place: str) -> None:
    vm = shown(**{place: msgspec.structs.replace(HOME, seq=OF_A_BACKUP)})
    assert "no orders until every host has registered" in vm.why
    assert "hostler host list" in vm.why


def test_a_vm_that_has_its_place_and_its_orders_waits_for_nothing() -> None:
    assert shown(why="no room before").why == ""
