"""A VM on a host that cannot run it: what its owner is advised to do, and that it helps."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.drivers.fake import Fault
from hostler.control.vms import desired_state
from hostler.control.vms.errors import WrongStateError
from hostler.control.vms.state import Vm, state_of
from tests.control.fleet.control_plane import ControlPlane, is_running, is_stopped, run_control_plane
from tests.control.vms.situations import DISKLESS, SHARED, SITUATIONS, running, stopped


def hint_of(vm: Vm) -> str:
    with pytest.raises(WrongStateError) as caught:
        desired_state.migrate(vm)
    return caught.value.hint


async def stopped_on_a_bad_host(control: ControlPlane) -> str:
    """Return a VM that could not be started on the only host, and was stopped then."""
    await control.join("bad", faults=[Fault(kind="permanent", verb="start")])
    vm = await control.create()
    await control.until_vm(vm, lambda one: state_of(one) == "failed")
    await control.wish(vm, desired_state.stop)
    await control.until_vm(vm, is_stopped)
    await control.join("good")
    return vm


async def test_a_vm_that_cannot_run_on_its_host_runs_elsewhere_once_it_was_moved(url: str) -> None:
    async with run_control_plane(url) as control:
        vm = await stopped_on_a_bad_host(control)
        await control.wish(vm, desired_state.migrate)
        await control.until_vm(vm, lambda one: is_stopped(one) and one.home.name == "good")
        assert vm not in control.hosts["bad"].driver.vms, "nothing is left of it where it came from"
        await control.wish(vm, desired_state.start)
        assert (await control.until_vm(vm, is_running)).home.name == "good"
        assert control.runs_on(vm) == ["good"]
        await control.check_agreement()


async def test_a_start_alone_does_not_bring_it_elsewhere(url: str) -> None:
    async with run_control_plane(url) as control:
        vm = await stopped_on_a_bad_host(control)
        await control.wish(vm, desired_state.start)
        found = await control.until_vm(vm, lambda one: state_of(one) == "failed")
        assert found.home.name == "bad"


@pytest.mark.parametrize(
    ("vm", "is_said", "is_not_said"),
    [
        (desired_state.stop(running(DISKLESS)).vm, "delete it and create it again", "start it"),
        (desired_state.stop(running(SHARED)).vm, "wait until it is stopped", "delete it"),
        (stopped(msgspec.structs.replace(SHARED, reserve=True)), "migrate it while it runs", "wait"),
        (SITUATIONS["stopped before it was placed"], "start it: it is placed again", "migrate"),
        (SITUATIONS["paused"], "resume it", "start it"),
        (SITUATIONS["evicted without a disk"], "wait until it runs", "start it"),
    ],
)
def test_each_vm_that_does_not_run_learns_what_helps(vm: Vm, is_said: str, is_not_said: str) -> None:
    hint = hint_of(vm)
    assert is_said in hint
    assert is_not_said not in hint
