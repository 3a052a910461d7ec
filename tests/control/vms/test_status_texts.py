"""The status of a VM, as words that follow its name, and what a user can do about it."""

from __future__ import annotations

import pytest

from hostler.agent.messages import Trouble
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Booking, Claim, Move, Vm
from hostler.control.vms.status_texts import advice, describe_status

HOME = Booking(host="id-a", name="a", generation=2)
OTHER = Booking(host="id-b", name="b", generation=3)
RESTORED = Booking(host="id-a", name="a", generation=2, seq=-1)
RUN = Claim(uid="v", is_bound=True)


def vm(**more: object) -> Vm:
    fields: dict[str, object] = {"home": HOME, "run": RUN, "generation": 2, "reported": "running", **more}
    return Vm(id="v", project="red", name="web", spec=VmSpec(cpu="1", memory="1Gi"), **fields)


def trouble(kind: str) -> dict[str, object]:
    told = Trouble(kind=kind, code="x", message="no such image", hint="bring it there")
    return {"trouble": told, "failed_generation": 2 if kind == "permanent" else 0, "reported": "absent"}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (vm(), "runs on a"),
        (vm(power="paused", reported="paused"), "is paused on a"),
        (vm(reported=""), "has its place on a, where it is being made"),
        (vm(**trouble("permanent")), "failed on a: no such image"),
        (vm(**trouble("blocked")), "has its place on a, where it is being made, but: no such image"),
        (vm(is_unknown=True), "is on a, which is silent: it is unknown whether it runs"),
        (
            vm(home=RESTORED),
            "was on a when the backup was made, and no host has said since the restore that it has it",
        ),
        (vm(power="stopped"), "is being stopped on a"),
        (vm(power="stopped", reported="stopped", run=None), "is stopped, and stays on a"),
        (vm(power="absent"), "is being deleted on a"),
        (vm(home=None, run=Claim(uid="v")), "waits for a place"),
        (vm(home=None, run=None, power="stopped", is_lost=True), "is lost: its host is gone, and its disk with it"),
        (vm(home=None, run=None, is_lost=True, **trouble("permanent")), "is lost: no such image"),
        (vm(moving=Move()), "is on a, and is to move to another host"),
        (vm(moving=Move(phase="copying"), other=OTHER), "is on a, and moves to b"),
        (vm(moving=Move(phase="aborting"), other=OTHER), "is on a, and stays there: the move to b is given up"),
        (vm(moving=Move(phase="cleaning"), other=OTHER), "is on a, and has just come from b"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_how_a_vm_is_goes_on_after_its_name(found: Vm, told: str) -> None:
    assert describe_status(found) == told


@pytest.mark.parametrize(
    ("found", "hint"),
    [
        (vm(), ""),
        (vm(**trouble("permanent")), "bring it there; 'hostler vm restart red/web' tries again"),
        (vm(power="stopped", **trouble("permanent")), "bring it there; 'hostler vm start red/web' starts it"),
        (vm(**trouble("blocked")), "bring it there"),
        (vm(is_unknown=True), "bring a back; if it is dead, switch it off, then 'hostler host confirm-dead a'"),
        (
            vm(home=RESTORED),
            "start the agents of all hosts; 'hostler host list' shows which have not registered since the restore",
        ),
        (
            vm(home=None, run=None, power="stopped", is_lost=True),
            "'hostler vm start red/web' starts it without its data; 'hostler vm delete red/web' removes it",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_status_says_what_a_user_must_do_about_a_vm(found: Vm, hint: str) -> None:
    assert advice(found) == hint
