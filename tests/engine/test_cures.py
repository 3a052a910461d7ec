"""Cures: after the changes the guest fits where it is said to fit, and where there is no cure no one change helps."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine import Engine
from hostler.model import CureChange, Device, DeviceRequest, GuestSpec, Host, Taint, Toleration, amounts, labels
from tests.engine.fleet import GIB, QUICK, arrive, engine_with, guest, host, policy, spec
from tests.engine.small_samples import engine_and_twin, fleets, specs, tenants
from tests.engine.twin import Twin

replace = msgspec.structs.replace
CHOSEN = policy("spread")
# One device of any model: what cures of devices promise is understood for those.
one_device = st.sampled_from([(), (), (DeviceRequest("gpu", 1, 300),), (DeviceRequest("gpu", 1, 1000),)])


def fits(twin: Twin, wanted: GuestSpec, machine: Host) -> bool:
    return twin.why_not(CHOSEN, wanted, machine) is None


def reduced(wanted: GuestSpec, resource: str, amount: int) -> GuestSpec:
    if any(device.kind == resource for device in wanted.devices):
        return replace(wanted, devices=(DeviceRequest(resource, 1, wanted.devices[0].milli - amount),))
    asked = dict(wanted.requests)
    return replace(wanted, requests=amounts(asked | {resource: asked[resource] - amount}))


def tolerant(wanted: GuestSpec, taint: Taint) -> GuestSpec:
    return replace(wanted, tolerations=(*wanted.tolerations, Toleration(taint.key, "Equal", taint.value, taint.effect)))


def changed(twin: Twin, wanted: GuestSpec, machine: Host, change: CureChange) -> tuple[GuestSpec, Host]:
    """Do what a cure says."""
    match change.kind:
        case "reduce_request":
            assert change.amount is not None
            return reduced(wanted, change.subject, change.amount), machine
        case "tolerate":
            (taint,) = {taint for taint in machine.taints if taint.text() == change.subject}
            return tolerant(wanted, taint), machine
        case "uncordon":
            assert change.subject == machine.name
            return wanted, replace(machine, cordoned=False)
        case "evict":
            assert change.subject in twin.held[machine.name]
            twin.free(change.subject)
            return wanted, machine
        case "relax_selector" if change.subject == machine.name:
            return replace(wanted, host_name=""), machine
    selector = tuple((k, v) for k, v in wanted.host_selector if f"{k}={v}" != change.subject)
    if selector != wanted.host_selector:
        return replace(wanted, host_selector=selector), machine
    return replace(wanted, host_affinity=()), machine


def single_changes(twin: Twin, wanted: GuestSpec, machine: Host) -> Iterator[tuple[str, GuestSpec, Host]]:
    """Every one change of a constraint or an amount that a person could think of."""
    yield "uncordon", wanted, replace(machine, cordoned=False)
    yield "name it, or none", replace(wanted, host_name=""), machine
    yield "no affinity", replace(wanted, host_affinity=()), machine
    for taint in machine.taints:
        yield f"tolerate {taint.text()}", tolerant(wanted, taint), machine
    for pair in wanted.host_selector:
        yield (
            f"drop {pair}",
            replace(wanted, host_selector=tuple(p for p in wanted.host_selector if p != pair)),
            machine,
        )
    for resource, amount in wanted.requests:
        for less in range(1, amount):
            yield f"{less} {resource} less", reduced(wanted, resource, less), machine
    for device in wanted.devices:
        yield "a sliver of a device", reduced(wanted, device.kind, device.milli - 1), machine


@given(fleet=fleets, running=tenants, wanted=specs(one_device))
@QUICK
def test_after_the_cure_the_guest_fits_where_it_is_said_to(fleet, running, wanted):
    engine, twin = engine_and_twin("spread", fleet, running)
    twin.see(name for name, _ in wanted.requests)
    arrive(engine, guest("g", wanted))
    cure = engine.explain("g").cure
    if cure is None:
        return
    assert 1 <= len(cure.changes) <= 3
    machine = twin.hosts[cure.host]
    assert not fits(twin, wanted, machine)
    for change in cure.changes:
        assert not fits(twin, wanted, machine), "a change too many"
        wanted, machine = changed(twin, wanted, machine, change)
    assert fits(twin, wanted, machine)


@given(fleet=fleets, running=tenants, wanted=specs(one_device))
@QUICK
def test_there_is_a_cure_of_one_change_wherever_one_change_helps(fleet, running, wanted):
    engine, twin = engine_and_twin("spread", fleet, running)
    twin.see(name for name, _ in wanted.requests)
    arrive(engine, guest("g", wanted))
    explained = engine.explain("g")
    if explained.feasible:
        assert explained.cure is None
        return
    helps = [
        (what, machine.name)
        for machine in fleet
        for what, asked, there in single_changes(twin, wanted, machine)
        if fits(twin, asked, there)
    ]
    for machine in fleet:
        for uid, held in list(twin.held[machine.name].items()):
            if held.spec.priority <= wanted.priority:
                twin.free(uid)
                helps += [(f"evict {uid}", machine.name)] if fits(twin, wanted, machine) else []
                twin.held[machine.name][uid] = held
    if helps:
        assert explained.cure is not None, helps
        assert len(explained.cure.changes) == 1, helps
    elif explained.cure is not None:
        assert len(explained.cure.changes) > 1


def cure_of(engine: Engine, wanted: GuestSpec) -> list[tuple[str, str]]:
    arrive(engine, guest("wants", wanted))
    cure = engine.explain("wants").cure
    return [] if cure is None else [(change.kind, change.subject) for change in cure.changes]


# -- sizes ------------------------------------------------------------------------------------------------------------


def test_of_one_change_each_the_smallest_share_wins():
    engine = engine_with([host("a", cpu=3000), host("b", cpu=3600), host("c", memory=GIB // 2)])
    arrive(engine, guest("g", spec(cpu=4000, memory=GIB)))
    cure = engine.explain("g").cure
    assert cure is not None
    assert (cure.host, cure.changes[0].amount, cure.changes[0].relative) == ("b", 400, 0.1)


def test_of_equal_cures_the_first_host_by_name_is_named():
    engine = engine_with([host("b", cpu=3000), host("a", cpu=3000)])
    arrive(engine, guest("g", cpu=4000))
    cure = engine.explain("g").cure
    assert cure is not None
    assert cure.host == "a"


def test_one_large_change_beats_two_small_ones():
    engine = engine_with([host("a", cpu=3999, memory=GIB - 1), host("b", taints=(Taint("t"),))])
    assert cure_of(engine, spec(cpu=4000, memory=GIB)) == [("tolerate", "t:NoSchedule")]


def test_amount_with_nothing_free_cannot_be_reduced():
    assert cure_of(engine_with([host("a", cpu=0)]), spec(cpu=1000)) == []


def test_a_cure_is_shown_in_the_units_that_people_use():
    engine = engine_with([host("a", cpu=2500, memory=GIB)])
    arrive(engine, guest("g", cpu=4000, memory=GIB), guest("h", cpu=1, memory=3 * GIB))
    texts = [engine.explain(uid).cure.changes[0].text for uid in ("g", "h")]
    assert texts == ["ask for 1500m cpu less (at most 2500m)", "ask for 2Gi memory less (at most 1Gi)"]


# -- victims ----------------------------------------------------------------------------------------------------------


def full(*tenants: tuple[str, GuestSpec]) -> Engine:
    engine = engine_with([host("a", cpu=4000, memory=4 * GIB, more={"guests": len(tenants)})])
    arrive(engine, *(guest(name, wanted, host="a") for name, wanted in tenants))
    return engine


def test_where_places_are_short_a_guest_must_go():
    engine = full(("x", spec(cpu=10, memory=10)), ("y", spec(cpu=10, memory=10)))
    assert cure_of(engine, spec(cpu=10, memory=10)) == [("evict", "x")]


def test_the_smallest_victim_that_makes_enough_room_is_named():
    engine = full(
        ("large", spec(cpu=2000, memory=2 * GIB)), ("enough", spec(cpu=1500, memory=GIB)), ("small", spec(500, 1))
    )
    assert cure_of(engine, spec(cpu=1500, memory=GIB)) == [("evict", "enough")]


def test_a_victim_is_as_large_as_the_largest_share_that_it_holds():
    engine = engine_with([host("a", cpu=9000, memory=6 * GIB)])
    arrive(engine, guest("lopsided", spec(cpu=4000, memory=GIB), host="a"))
    arrive(engine, guest("even", spec(cpu=2000, memory=2 * GIB), host="a"))
    # of 4 cores and 4 GiB the one holds all and a quarter, the other half and half; 1 core and 1 GiB are missing
    assert cure_of(engine, spec(cpu=4000, memory=4 * GIB)) == [("evict", "even")]


def test_one_victim_beats_two_amounts_and_two_constraints():
    engine = engine_with(
        [host("a", taints=(Taint("t"),), cordoned=True), host("b", cpu=4000, memory=4 * GIB, more={"guests": 9})]
    )
    arrive(engine, guest("x", spec(cpu=4000, memory=4 * GIB), host="b"))
    arrive(engine, guest("g", spec(cpu=1000, memory=GIB)))
    cure = engine.explain("g").cure
    assert cure is not None
    assert (cure.host, [change.kind for change in cure.changes]) == ("b", ["evict"])


def test_one_victim_beats_two_smaller_amounts():
    engine = full(("x", spec(cpu=3000, memory=3 * GIB)), ("y", spec(cpu=1, memory=1)))
    assert cure_of(engine, spec(cpu=2000, memory=2 * GIB)) == [("evict", "x")]


@pytest.mark.parametrize(("priority", "expected"), [(5, [("evict", "king")]), (4, [])])
def test_a_victim_is_of_at_most_equal_priority(priority, expected):
    engine = full(("king", spec(cpu=4000, memory=4 * GIB, priority=5)))
    assert cure_of(engine, spec(cpu=4000, memory=4 * GIB, priority=priority)) == expected


def test_a_victim_may_be_asked_of_a_host_that_must_be_uncordoned_too():
    engine = engine_with([host("a", cpu=1000, cordoned=True, more={"guests": 1})])
    arrive(engine, guest("x", spec(cpu=1000), host="a"))
    assert cure_of(engine, spec(cpu=1000)) == [("uncordon", "a"), ("evict", "x")]


def test_a_guest_is_not_its_own_victim():
    engine = engine_with([host("a", cpu=1000, more={"guests": 1})])
    arrive(engine, guest("g", spec(cpu=2000), host="a"))
    cure = engine.explain("g").cure
    assert cure is not None
    assert [change.kind for change in cure.changes] == ["reduce_request"]


def test_a_victim_frees_the_device_that_is_missing():
    engine = engine_with([host("a", gpus=2)])
    arrive(
        engine,
        guest("x", spec(cpu=1, gpu=(1, 600)), host="a", on_devices=(0,)),
        guest("y", spec(cpu=1, gpu=(1, 1000)), host="a", on_devices=(1,)),
        guest("z", spec(cpu=1, gpu=(1, 400)), host="a", on_devices=(0,)),
    )
    assert cure_of(engine, spec(cpu=1, gpu=(1, 700))) == [("evict", "y")]


# -- what a cure of devices promises ----------------------------------------------------------------------------------


def test_a_device_of_the_wrong_model_may_be_accepted():
    engine = engine_with([host("a", gpus=1, model="A")])
    assert cure_of(engine, spec(devices=(DeviceRequest("gpu", 1, 500, ("B",)),))) == [("relax_selector", "gpu")]


def test_a_share_of_a_device_may_be_smaller():
    engine = engine_with([host("a", devices=(Device("gpu", "", 400),))])
    assert cure_of(engine, spec(gpu=(1, 500))) == [("reduce_request", "gpu")]


def test_a_kind_of_device_that_the_host_does_not_have_is_beyond_cure():
    assert cure_of(engine_with([host("a", gpus=1)]), spec(devices=(DeviceRequest("nic"),))) == []


OTHER_MODELS = [
    pytest.param(
        host("a", devices=(Device("gpu", "A", 500),)), (DeviceRequest("gpu", 1, 1000, ("B",)),),
        (DeviceRequest("gpu", 1, 1000),), id="the other model has no room either",
    ),
    pytest.param(
        host("a", devices=(Device("gpu", "A"), Device("nic", "", 500))),
        (DeviceRequest("gpu", 1, 1000, ("B",)), DeviceRequest("nic", 1, 1000)),
        (DeviceRequest("gpu", 1, 1000), DeviceRequest("nic", 1, 1000)), id="a later request fails as well",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "wanted", "accepting"), OTHER_MODELS)
def test_accepting_any_model_is_a_cure_only_where_the_guest_then_fits(machine, wanted, accepting):
    engine = engine_with([machine])
    promised = ("relax_selector", "gpu") in cure_of(engine, GuestSpec(devices=wanted))
    arrive(engine, guest("cured", GuestSpec(devices=accepting)))
    assert promised == bool(engine.explain("cured").feasible)


def test_smaller_shares_of_two_devices_are_a_cure_only_where_both_then_fit():
    engine = engine_with([host("a", devices=(Device("gpu"), Device("gpu", "", 300)))])
    arrive(engine, guest("g", GuestSpec(devices=(DeviceRequest("gpu", 2, 500),))))
    cure = engine.explain("g").cure
    assert cure is not None
    (change,) = cure.changes
    assert change.amount is not None
    left = 1000 - change.amount
    arrive(engine, guest("cured", GuestSpec(devices=(DeviceRequest("gpu", 2, left // 2),))))
    assert engine.explain("cured").feasible == ("a",)


def test_fewer_whole_devices_are_a_cure():
    engine = engine_with([host("a", devices=(Device("gpu"), Device("gpu", "", 300), Device("gpu")))])
    arrive(engine, guest("g", GuestSpec(devices=(DeviceRequest("gpu", 3),))))
    explained = engine.explain("g")
    (failure,) = explained.verdicts[0].failures
    assert (failure.needed, failure.free, failure.missing) == (3000, 2000, 1000)
    assert explained.cure is not None
    assert [(one.text, one.amount) for one in explained.cure.changes] == [("ask for 1 gpu less (at most 2)", 1000)]
    arrive(engine, guest("cured", GuestSpec(devices=(DeviceRequest("gpu", 2),))))
    assert engine.explain("cured").feasible == ("a",)


def test_labels_that_are_not_asked_for_need_no_cure():
    engine = engine_with([host("a", labels={"zone": "x", "disk": "ssd"}, taints=(Taint("s", "", "PreferNoSchedule"),))])
    assert cure_of(engine, replace(spec(), host_selector=labels({"zone": "x"}))) == []
