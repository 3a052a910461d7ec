"""Verdicts: every filter that a host fails, in order and with amounts, and nothing that it does not fail."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine import Engine
from hostler.model import (
    WHOLE_DEVICE,
    Device,
    DeviceRequest,
    Failure,
    GuestArrived,
    GuestSpec,
    Host,
    HostVerdict,
    Policy,
    Taint,
    Toleration,
    labels,
)
from tests.engine.fleet import QUICK, arrive, engine_with, guest, host, policy, reasons, spec
from tests.engine.small_samples import engine_and_twin, fleets, several_devices, specs, tenants
from tests.engine.twin import CORDON, Twin


class Complaint(NamedTuple):
    """A failure in plain words."""

    text: str
    needed: int | None = None
    free: int | None = None


def complaint(failure: Failure) -> Complaint:
    if failure.needed is not None:
        assert failure.free is not None
        assert failure.missing == failure.needed - failure.free > 0
    return Complaint(f"{failure.reason.plugin}: {failure.reason.text()}", failure.needed, failure.free)


def complaints(twin: Twin, chosen: Policy, wanted: GuestSpec, machine: Host) -> list[Complaint]:
    """Say from the words of the manual alone what a host has against a guest."""
    found = []
    if machine.cordoned and not any(t.tolerates(CORDON) for t in wanted.tolerations):
        found.append(Complaint("cordon: cordoned"))
    if wanted.host_name and wanted.host_name != machine.name:
        found.append(Complaint("host_name: not the named host"))
    hard = [taint for taint in machine.taints if taint.effect != "PreferNoSchedule"]
    bad = [taint for taint in hard if not any(t.tolerates(taint) for t in wanted.tolerations)]
    found += [Complaint(f"taints: untolerated taint: {taint.text()}") for taint in bad]
    for key, value in wanted.host_selector:
        if (key, value) not in machine.labels:
            found.append(Complaint(f"host_affinity: selector mismatch: {key}={value}"))
    if wanted.host_affinity and not any(term.matches(machine.name, machine.labels) for term in wanted.host_affinity):
        text = " or ".join(term.text() for term in wanted.host_affinity)
        found.append(Complaint(f"host_affinity: affinity mismatch: {text}"))
    asked = {"guests": 1} | dict(wanted.requests)
    for resource in ("guests", "cpu", "memory", "fpga"):
        free = twin.limit(chosen, machine, resource) - twin.used(machine, resource)
        if asked.get(resource, 0) > max(free, 0) or (asked.get(resource, 0) and free < 0):
            found.append(Complaint(f"resources: insufficient: {resource}", asked[resource], free))
    return found + device_complaints(twin.left(machine), wanted, machine)


def free_milli(left: list[int], request: DeviceRequest) -> int:
    """What a request could have: of several whole devices only whole ones count, else what is left of each."""
    wants_whole = request.count > 1 and request.milli == WHOLE_DEVICE
    usable = sorted((min(each, request.milli) for each in left), reverse=True)[: request.count]
    return sum(each for each in usable if each == WHOLE_DEVICE or not wants_whole)


def device_complaints(left: list[int], wanted: GuestSpec, machine: Host) -> list[Complaint]:
    """The first request that finds no devices; earlier ones take the fullest devices that fit."""
    for request in wanted.devices:
        of_kind = [at for at, device in enumerate(machine.devices) if device.kind == request.kind]
        allowed = [at for at in of_kind if not request.models or machine.devices[at].model in request.models]
        roomy = [at for at in allowed if left[at] >= request.milli]
        if len(roomy) < request.count:
            words = "no device" if not of_kind else "wrong device model" if not allowed else "insufficient devices"
            free = free_milli([max(0, left[at]) for at in allowed], request)
            return [Complaint(f"devices: {words}: {request.kind}", request.count * request.milli, free)]
        for at in sorted(roomy, key=lambda at: left[at])[: request.count]:
            left[at] -= request.milli
    return []


CHOSEN = [
    policy("spread"),
    policy("pack", overcommit=(("cpu", 1_500_000),), reserve=(("memory", 2),)),
    policy("gpu_packing"),
    policy("random"),
]


@given(chosen=st.sampled_from(CHOSEN), fleet=fleets, running=tenants, wanted=specs(several_devices))
@QUICK
def test_a_verdict_lists_exactly_what_the_host_has_against_the_guest(chosen, fleet, running, wanted):
    engine, twin = engine_and_twin(chosen, fleet, running)
    arrive(engine, guest("g", wanted))
    found = {verdict.host: [complaint(f) for f in verdict.failures] for verdict in engine.explain("g").verdicts}
    assert found == {machine.name: complaints(twin, chosen, wanted, machine) for machine in fleet}


@given(chosen=st.sampled_from(CHOSEN), fleet=fleets, running=tenants, wanted=specs(several_devices))
@QUICK
def test_the_reason_that_a_decision_counts_is_the_first_complaint(chosen, fleet, running, wanted):
    engine, twin = engine_and_twin(chosen, fleet, running)
    arrive(engine, guest("g", wanted))
    lists = [complaints(twin, chosen, wanted, machine) for machine in fleet]
    expected = Counter(complaints[0].text for complaints in lists if complaints)
    engine.step(0)
    decision = engine.decision("g")
    assert reasons(decision) == dict(expected)
    assert decision.feasible == sum(not complaints for complaints in lists)
    assert decision.hosts == len(fleet)


@given(fleet=fleets, running=tenants, wanted=specs(several_devices))
@QUICK
def test_near_misses_are_ordered_by_complaints_then_missing_share(fleet, running, wanted):
    engine, _ = engine_and_twin("spread", fleet, running)
    arrive(engine, guest("g", wanted))
    explained = engine.explain("g")
    refusals = [verdict for verdict in explained.verdicts if not verdict.fits]

    def distance(verdict: HostVerdict) -> tuple[int, float, str]:
        shares = (f.missing / f.needed if f.needed and f.missing else 1.0 for f in verdict.failures)
        return len(verdict.failures), sum(shares), verdict.host

    assert [v.host for v in refusals] == [v.host for v in sorted(refusals, key=distance)]
    assert explained.near_misses == tuple(v.host for v in refusals)
    assert explained.verdicts[: len(explained.feasible)] == tuple(v for v in explained.verdicts if v.fits)


def verdict_on(machine: Host, wanted: GuestSpec, *there: GuestSpec) -> list[Complaint]:
    engine = engine_with([machine])
    arrive(engine, *(guest(f"t{i}", each, host="a") for i, each in enumerate(there)))
    engine.apply(GuestArrived(guest=guest("g", wanted)))
    return [complaint(f) for f in engine.explain("g").verdicts[0].failures]


DEVICES = [
    pytest.param(
        host("a", gpus=2), spec(gpu=(3, 1000)), (), Complaint("devices: insufficient devices: gpu", 3000, 2000),
        id="one device too few",
    ),
    pytest.param(
        host("a", gpus=2), spec(gpu=(1, 500)), (spec(gpu=(2, 800)),),
        Complaint("devices: insufficient devices: gpu", 500, 200), id="shares are not added up",
    ),
    pytest.param(
        host("a", gpus=1), spec(gpu=(1, 500)), (spec(gpu=(1, 700)), spec(gpu=(1, 700))),
        Complaint("devices: insufficient devices: gpu", 500, 0), id="nothing is free on a device that is overbooked",
    ),
    pytest.param(
        host("a", devices=(Device("gpu", "A"), Device("gpu", "B", 400))),
        spec(devices=(DeviceRequest("gpu", 1, 500, ("B",)),)), (),
        Complaint("devices: insufficient devices: gpu", 500, 400), id="devices of other models do not count",
    ),
    pytest.param(
        host("a", devices=(Device("gpu"), Device("gpu", "", 300))),
        spec(devices=(DeviceRequest("gpu", 1, 300), DeviceRequest("gpu", 2, 300))), (),
        Complaint("devices: insufficient devices: gpu", 600, 300), id="a second request sees what the first one left",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "wanted", "there", "expected"), DEVICES)
def test_devices_are_counted_device_by_device(machine, wanted, there, expected):
    assert verdict_on(machine, wanted, *there) == [expected]


def test_amounts_beyond_a_limit_are_told_as_less_than_nothing():
    assert verdict_on(host("a", cpu=1000), spec(cpu=200), spec(cpu=800), spec(cpu=900)) == [
        Complaint("resources: insufficient: cpu", 200, -700)
    ]


def test_only_untolerated_hard_taints_are_reported():
    taints = (Taint("x"), Taint("y", "1", "NoExecute"), Taint("z"), Taint("soft", "", "PreferNoSchedule"))
    wanted = spec(tolerations=(Toleration("y", "Exists"),))
    assert [c.text for c in verdict_on(host("a", taints=taints), wanted)] == [
        "taints: untolerated taint: x:NoSchedule",
        "taints: untolerated taint: z:NoSchedule",
    ]


def refusal(selectors: int, missing: int) -> tuple[Engine, str]:
    """Return an engine that refuses a guest of so many selectors because of one of them, and that one's text."""
    asked = {f"k{i:02}": "v" for i in range(selectors)}
    engine = engine_with([host("a", labels={k: v for k, v in asked.items() if k != f"k{missing:02}"})])
    arrive(engine, guest("g", GuestSpec(host_selector=labels(asked))))
    engine.step(0)
    return engine, f"host_affinity: selector mismatch: k{missing:02}=v"


@pytest.mark.parametrize(
    "missing",
    [
        0,
        7,
        15,
        16,
    ],
)
def test_the_selector_that_does_not_match_is_the_one_that_is_named(missing):
    engine, expected = refusal(20, missing)
    assert [complaint(f).text for f in engine.explain("g").verdicts[0].failures] == [expected]
    assert reasons(engine.decision("g")) == {expected: 1}
