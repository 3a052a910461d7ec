"""How much of an agent's message is taken: what is cut, and what is refused as a whole."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.core import reports
from hostler.agent.core.plan import ActionPlan
from hostler.agent.core.state import AgentState, Setback
from hostler.agent.driver import ObservedVm
from hostler.agent.messages import (
    LONGEST_NAME,
    LONGEST_TEXT,
    MOST_UNKNOWN,
    MOST_VMS,
    Capabilities,
    Departed,
    DeviceHere,
    HostSize,
    Order,
    Register,
    Report,
    Taken,
    Tries,
    Trouble,
    VmReport,
    shorten,
)
from hostler.control.fleet.agents.message_bounds import bound_registration, bound_report
from hostler.control.fleet.agents.registrations import take_registration
from hostler.control.fleet.errors import MessageBoundsError
from hostler.control.fleet.hosts.host_body import read_body
from tests.control.api.service_in_process import open_service
from tests.control.api.test_fleet import joined, send
from tests.control.fleet.control_plane import run_control_plane

LONG = "x" * (LONGEST_NAME + 1)
MANY = tuple(str(number) for number in range(MOST_VMS + 1))
SIZE = HostSize(cpu_millis=1000, memory_bytes=2**30)
REGISTER = Register(boot="b", agent="a", version="1", driver="fake", capabilities=Capabilities(), size=SIZE)
REPORT = Report(boot="b", agent="a", epoch=1, sequence=1)
TROUBLE = Trouble(kind="blocked", code="no_room", message="m" * 5000, hint="h" * 5000)

BAD_VMS = {
    "an id with a NUL": VmReport(vm="a\0b", state="running"),
    "a code with a NUL": VmReport(vm="a", state="running", trouble=msgspec.structs.replace(TROUBLE, code="a\0b")),
    "a long id": VmReport(vm=LONG, state="running"),
    "a negative generation": VmReport(vm="a", state="running", generation=-1),
    "more restarts than are counted": VmReport(vm="a", state="running", restarts=2**63),
    "a failed generation out of range": VmReport(vm="a", state="running", failed_generation=2**80),
    "a long address": VmReport(vm="a", state="landing", landing_address="x" * (LONGEST_TEXT + 1)),
    "a long secret": VmReport(vm="a", state="landing", landing_secret="x" * (LONGEST_TEXT + 1)),
    "a long code": VmReport(vm="a", state="running", trouble=msgspec.structs.replace(TROUBLE, code=LONG)),
    "negative failures": VmReport(vm="a", state="running", trouble=msgspec.structs.replace(TROUBLE, failures=-1)),
}
BAD_REGISTRATIONS = {
    "a long boot id": {"boot": LONG},
    "a long agent id": {"agent": LONG},
    "a long version": {"version": LONG},
    "a long driver": {"driver": LONG},
    "a boot id with a NUL": {"boot": "b\x00"},
    "an agent id with a line end": {"agent": "a\n"},
    "a version that colors terminals": {"version": "1\x1b[31m"},
    "a driver with a tab": {"driver": "fake\t"},
    "too many labels, though they are one": {"labels": (("a", "b"),) * 65},
    "too many protocols": {"protocols": (1,) * 65},
    "a protocol out of range": {"protocols": (2**70,)},
    "a negative number": {"sequence": -1},
    "a long device": {"size": msgspec.structs.replace(SIZE, devices=(DeviceHere(kind=LONG),))},
    "a long model": {"size": msgspec.structs.replace(SIZE, devices=(DeviceHere(kind="gpu", model=LONG),))},
    "a long unknown VM": {"unknown": (LONG,)},
    "too many unknown VMs": {"unknown": MANY},
    "too many VMs": {"vms": tuple(VmReport(vm=one, state="running") for one in MANY)},
} | {name: {"vms": (vm,)} for name, vm in BAD_VMS.items()}
BAD_REPORTS = {
    "a long boot id": {"boot": LONG},
    "a long agent id": {"agent": LONG},
    "an epoch out of range": {"epoch": 2**63},
    "a sequence out of range": {"sequence": 2**63},
    "orders out of range": {"orders": 2**63},
    "a negative teardown": {"refused_teardown": -1},
    "a long VM that is gone": {"gone": (LONG,)},
    "too many VMs that are gone": {"gone": MANY},
    "a long VM that departed": {"departed": (Departed(vm=LONG, generation=1),)},
    "a departure out of range": {"departed": (Departed(vm="a", generation=2**63),)},
    "a VM that is gone with a NUL": {"gone": ("a\0b",)},
    "a VM that departed with a NUL": {"departed": (Departed(vm="a\0b", generation=1),)},
    "an unknown VM with a NUL": {"unknown": ("a\0b",)},
    "a VM that takes room with a NUL": {"taken": (Taken(vm="a\0b", cpu_millis=1),)},
    "a long unknown VM": {"unknown": (LONG,)},
    "negative tries": {"tries": Tries(blocked=-1)},
    "more tries than are counted": {"tries": Tries(done=2**63)},
    "a long device": {"size": msgspec.structs.replace(SIZE, devices=(DeviceHere(kind=LONG),))},
} | {name: {"vms": (vm,)} for name, vm in BAD_VMS.items()}


@pytest.mark.parametrize("name", BAD_REGISTRATIONS)
def test_a_registration_that_is_absurd_is_refused(name):
    with pytest.raises(MessageBoundsError):
        bound_registration(msgspec.structs.replace(REGISTER, **BAD_REGISTRATIONS[name]))


@pytest.mark.parametrize("name", BAD_REPORTS)
def test_a_report_that_is_absurd_is_refused(name):
    with pytest.raises(MessageBoundsError):
        bound_report(msgspec.structs.replace(REPORT, **BAD_REPORTS[name]))


def test_what_keeps_to_the_bounds_is_taken_as_it_is():
    trouble = msgspec.structs.replace(TROUBLE, message="m" * LONGEST_TEXT, hint="h")
    vms = (VmReport(vm="x" * LONGEST_NAME, state="running", trouble=trouble),)
    registration = msgspec.structs.replace(REGISTER, vms=vms, unknown=("x" * LONGEST_NAME,))
    assert bound_registration(registration) == registration
    report = msgspec.structs.replace(REPORT, vms=vms, gone=("y",), unknown=())
    assert bound_report(report) == report


def test_texts_of_troubles_are_cut():
    vms = (VmReport(vm="a", state="running", trouble=TROUBLE),)
    for message in (
        bound_registration(msgspec.structs.replace(REGISTER, vms=vms)),
        bound_report(msgspec.structs.replace(REPORT, vms=vms)),
    ):
        trouble = message.vms[0].trouble
        assert trouble is not None
        assert trouble.message == "m" * (LONGEST_TEXT - 1) + "…"
        assert trouble.hint == "h" * (LONGEST_TEXT - 1) + "…"


def test_a_text_that_is_just_short_enough_is_not_cut():
    assert shorten("x" * LONGEST_TEXT) == "x" * LONGEST_TEXT
    assert shorten("abc", 2) == "a…"


def test_an_agent_cuts_what_it_says_by_itself():
    order = Order(vm="a", generation=1, power="running")
    setback = Setback(trouble=TROUBLE, generation=1)
    strangers = [ObservedVm(vm=f"{number:05d}{LONG}", power="running", is_ours=False) for number in range(MOST_UNKNOWN)]
    found = {one.vm: one for one in (*strangers, ObservedVm(vm="zz", power="running"))}
    state = AgentState(limit=SIZE, orders={"a": order}, setbacks={"a": setback}, found=found)
    trouble = reports.reports(state, ActionPlan([], {}, 0))["a"].trouble
    assert trouble is not None
    assert (len(trouble.message), len(trouble.hint)) == (LONGEST_TEXT, LONGEST_TEXT)
    told = reports.unknown(state)
    assert (len(told), max(map(len, told))) == (MOST_UNKNOWN, LONGEST_NAME)
    assert "zz" in told  # it was made here, so it is not the one that is left out


async def test_only_so_many_unknown_vms_are_kept(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        north.wire.is_cut = True
        message = msgspec.structs.replace(REGISTER, agent="another", unknown=MANY[: MOST_UNKNOWN + 1])
        await control.database.write(lambda one: take_registration(one, north.id, message, now_ns=1))
        assert len(read_body(await control.row("north")).unknown) == MOST_UNKNOWN


async def test_over_rest_it_is_422_with_a_code_and_nothing_is_changed():
    async with open_service() as service:
        me = await joined(service, "node-1")
        message = msgspec.structs.replace(REGISTER, version=LONG)
        answer = await send(service, me.credential, "/agent/v1/register", message)
        assert (answer.status_code, answer.json()["code"]) == (422, "message_out_of_bounds")
        assert (await service.ask("GET", "/v1/hosts/node-1")).json()["state"] == "joined"
        epoch = (await send(service, me.credential, "/agent/v1/register", REGISTER)).json()["epoch"]
        report = msgspec.structs.replace(REPORT, epoch=epoch, gone=(LONG,))
        answer = await send(service, me.credential, "/agent/v1/report", report)
        assert (answer.status_code, answer.json()["code"]) == (422, "message_out_of_bounds")
        good = msgspec.structs.replace(report, gone=())
        assert (await send(service, me.credential, "/agent/v1/report", good)).status_code == 200
