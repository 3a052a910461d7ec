"""What an explanation advises is followed by the command that does it."""

from __future__ import annotations

import pytest

from hostler.control.services.explanations.cure_commands import with_commands
from hostler.control.services.explanations.vms_in_place import with_own_host_only
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Booking, Move, Vm
from hostler.model import Cure, CureChange, Decision, Explanation, Failure, HostVerdict, Reason

VM = Vm(id="v", project="red", name="web", spec=VmSpec(cpu="6", memory="1Gi"))
HELD = ("reservation:blue/night",)


def failure(code: str, subject: str = "", free: int | None = None, by: tuple[str, ...] = ()) -> Failure:
    """Return why host ``a`` says no."""
    return Failure(reason=Reason("some_filter", code, subject), needed=6000, free=free, missing=3000, by=by)


def explained(change: CureChange, *failures: Failure, host: str = "a") -> Explanation:
    """Return an explanation with one change that would help."""
    return Explanation(
        decision=Decision(guest="red/web", uid="v", seq=1, at=1, policy="p", state="held"),
        as_of="now",
        verdicts=(HostVerdict(host="b", failures=(failure("cordoned"),)), HostVerdict(host=host, failures=failures)),
        cure=Cure(host=host, changes=(change,)),
    )


def advised(change: CureChange, *failures: Failure, vm: Vm = VM) -> str:
    """Return what is added to the text of a change."""
    cure = with_commands(explained(change, *failures), vm).cure
    assert cure is not None
    text = cure.changes[0].text
    assert text.startswith(change.text)
    return text.removeprefix(change.text).strip()


def change(kind: str, subject: str, text: str = "do this") -> CureChange:
    """Return a change as the engine advises it."""
    return CureChange(kind=kind, subject=subject, text=text, relative=1.0)


@pytest.mark.parametrize(
    ("one", "why", "command"),
    [
        (change("reduce_request", "cpu"), failure("insufficient", "cpu", free=3500), "--cpu 3500m"),
        (change("reduce_request", "memory"), failure("insufficient", "memory", free=2**29), "--memory 512Mi"),
        (change("relax_selector", "disk=ssd"), failure("selector_mismatch", "disk=ssd"), "--selector disk-"),
    ],
)
def test_what_an_option_changes_is_reported_with_it(one: CureChange, why: Failure, command: str) -> None:
    assert advised(one, why) == f"('hostler vm resize red/web {command}')"


def test_a_host_that_was_named_is_named_otherwise_or_not_at_all() -> None:
    said = advised(change("relax_selector", "a"), failure("not_the_named_host"))
    assert said == "('hostler vm resize red/web --host a', or --host \"\")"


@pytest.mark.parametrize(
    ("one", "code", "field"),
    [
        (change("tolerate", "old=yes:no_schedule"), "untolerated_taint", "tolerations"),
        (change("relax_selector", "zone in (b)"), "affinity_mismatch", "host_affinity"),
        (change("relax_selector", "tier=db"), "affinity_unmet", "affinity"),
        (change("relax_selector", "tier=db"), "anti_affinity", "anti_affinity"),
        (change("relax_selector", "zone"), "skew_too_large", "spread"),
    ],
)
def test_what_has_no_option_stands_in_a_file(one: CureChange, code: str, field: str) -> None:
    said = advised(one, failure(code, one.subject))
    assert said == f"('hostler vm resize red/web -f FILE', with {field} in it as they should be)"


@pytest.mark.parametrize(
    ("one", "code", "what"),
    [
        (change("reduce_request", "storage"), "insufficient", "disks"),
        (change("reduce_request", "gpu"), "insufficient_devices", "devices"),
        (change("relax_selector", "gpu"), "wrong_device_model", "devices"),
    ],
)
def test_what_can_never_change_takes_another_vm(one: CureChange, code: str, what: str) -> None:
    said = advised(one, failure(code, one.subject, free=1))
    assert said == f"('hostler vm create' makes another VM that does; its {what} cannot change)"


@pytest.mark.parametrize(("subject", "name"), [("blue/db", "blue/db"), ("db", "default/db")])
def test_a_vm_in_the_way_is_moved_or_stopped(subject: str, name: str) -> None:
    said = advised(change("evict", subject), failure("insufficient", "cpu"))
    assert said == f"('hostler vm migrate {name}' or 'hostler vm stop {name}')"


def test_a_vm_that_the_reader_may_not_know_has_no_command() -> None:
    assert advised(change("evict", "a VM of another project"), failure("insufficient", "cpu")) == ""


def test_a_reservation_in_the_way_is_deleted_or_made_smaller() -> None:
    said = advised(change("other", "blue/night"), failure("insufficient", "cpu", by=HELD))
    delete, edit = "'hostler reservation delete blue/night'", "'hostler reservation edit blue/night --amounts …'"
    assert said == f"({delete} or {edit})"


def test_a_reservation_that_the_reader_may_not_know_has_no_command() -> None:
    hidden = "a reservation of another project"
    assert advised(change("other", hidden), failure("insufficient", "cpu", by=(hidden,))) == ""


def test_a_label_that_a_host_lacks_is_set() -> None:
    lacking = change("other", "a", "label a with zone")
    assert advised(lacking, failure("no_topology_label", "zone")) == "('hostler host label a zone=VALUE')"


def test_what_says_already_how_it_is_done_stays() -> None:
    done = change("uncordon", "a", "uncordon a: hostler host uncordon a")
    assert advised(done, failure("cordoned")) == ""


def test_a_vm_that_moves_is_called_back_first() -> None:
    moving = Vm(id="v", project="red", name="web", spec=VM.spec, moving=Move())
    said = advised(change("relax_selector", "disk=ssd"), failure("selector_mismatch", "disk=ssd"), vm=moving)
    assert said == "('hostler vm migrate red/web --cancel', then 'hostler vm resize red/web --selector disk-')"


def test_a_vm_that_stays_on_its_host_is_not_advised_to_name_another_one() -> None:
    pinned = VmSpec(cpu="6", memory="1Gi", host_name="b")
    vm = Vm(id="v", project="red", name="web", spec=pinned, home=Booking(host="id-b", name="b"))
    assert with_own_host_only(explained(change("relax_selector", "a"), failure("not_the_named_host")), vm).cure is None
    assert (
        with_own_host_only(explained(change("evict", "db"), failure("insufficient", "cpu"), host="b"), vm).cure
        is not None
    )
