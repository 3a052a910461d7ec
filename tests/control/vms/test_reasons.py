"""Reasons of the engine in words of those who have VMs: a storage, a bridge, a move, and no label that nobody wrote."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.vms.guests import CAN_MIGRATE, HAS_BRIDGE, HAS_STORAGE, YES, guest_of
from hostler.control.vms.reasons import (
    NOT_TAKING,
    host_left_by_move,
    to_user_change,
    to_user_reason,
    without_cordon_cause,
)
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Booking, Claim, Vm
from hostler.model import CureChange, GuestSpec, Reason, ReasonCount

ZONE = [{"expressions": [{"key": "zone", "operator": "In", "values": ["north"]}]}]


def moving(**more: object) -> GuestSpec:
    """Return the claim of a VM that is to leave host a."""
    spec = msgspec.convert({"cpu": "1", "memory": "1Gi", **more}, VmSpec)
    claim = Claim(uid="v.2")
    vm = Vm(id="v", project="p", name="web", spec=spec, home=Booking(host="id-a", name="a"), move=claim)
    return guest_of(vm, claim).spec


def selector(label: str) -> Reason:
    return Reason("host_affinity", "selector_mismatch", f"{label}={YES}")


AFFINITY = Reason("host_affinity", "affinity_mismatch", "metadata.name NotIn (a)")


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (CAN_MIGRATE, "no live migration"),
        (f"{HAS_STORAGE}nfs", "no storage: nfs"),
        (f"{HAS_BRIDGE}br0", "no bridge: br0"),
        ("disk", "selector mismatch: disk=yes"),
    ],
)
def test_a_label_that_the_service_asks_for_is_reported_as_what_it_stands_for(label: str, words: str) -> None:
    assert to_user_reason(selector(label), GuestSpec()).text() == words


def test_the_host_that_a_vm_leaves_is_reported_as_such() -> None:
    assert host_left_by_move(moving()) == "a"
    assert to_user_reason(AFFINITY, moving()).text() == "it is to leave: a"


def test_the_owners_own_terms_stay_without_what_a_move_adds() -> None:
    spec = moving(host_affinity=ZONE)
    assert to_user_reason(AFFINITY, spec, "b").text() == "affinity mismatch: zone=north"
    assert to_user_reason(AFFINITY, spec, "a").text() == "it is to leave: a"
    assert to_user_reason(AFFINITY, spec).text() == "affinity mismatch: zone=north, on another host than a"


def test_terms_of_a_vm_that_does_not_move_are_its_owners() -> None:
    assert host_left_by_move(GuestSpec()) == ""
    assert to_user_reason(AFFINITY, GuestSpec()) == AFFINITY


def test_very_long_terms_are_cut_as_the_engine_does() -> None:
    values = [f"value-{number:03}" for number in range(100)]
    spec = moving(host_affinity=[{"expressions": [{"key": "zone", "operator": "In", "values": values}]}])
    assert len(to_user_reason(AFFINITY, spec, "b").subject) == 201


@pytest.mark.parametrize(
    ("label", "text"),
    [
        (f"{HAS_STORAGE}nfs", "give b the storage nfs, and name it to its agent"),
        (f"{HAS_BRIDGE}br0", "give b the bridge br0, and name it to its agent"),
        (CAN_MIGRATE, "let b take VMs that run: its agent says that it cannot"),
        ("disk", "do not ask for disk=yes"),
    ],
)
def test_what_a_host_lacks_is_given_to_it_and_not_taken_from_the_vm(label: str, text: str) -> None:
    change = CureChange(
        kind="relax_selector", subject=f"{label}={YES}", text=f"do not ask for {label}={YES}", relative=1.0
    )
    assert to_user_change(change, "b").text == text


def test_a_closed_host_is_written_down_without_the_reason_of_the_day() -> None:
    full = ReasonCount(Reason("resources", "insufficient", "cpu"), 1)
    assert without_cordon_cause((ReasonCount(Reason("cordon", "cordoned"), 2), full)) == (
        ReasonCount(NOT_TAKING, 2),
        full,
    )
