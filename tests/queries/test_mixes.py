"""The typical mix of policies that measure fragmentation: one rule, and when a live engine gets another one."""

from __future__ import annotations

import msgspec
import pytest

from hostler.engine import BUILT_IN, Engine, typical_mix
from hostler.errors import InputError
from hostler.model import (
    Device,
    DeviceRequest,
    Guest,
    GuestArrived,
    GuestLeft,
    GuestSpec,
    Host,
    HostJoined,
    MixEntry,
    PolicyChanged,
    amounts,
)
from hostler.queries import MixRenewal, with_mixes, with_placed_mixes
from hostler.queries.mixes import RENEW_NS, USUAL_MIX
from hostler.sim.traces.openb import read_pods
from tests.sim.published_runs import WORKLOADS

FGD = BUILT_IN["fgd"]
CPU_ONLY = GuestSpec(requests=amounts({"cpu": 500}))


def sharing(milli):
    return GuestSpec(requests=amounts({"cpu": 1000}), devices=(DeviceRequest("gpu", 1, milli),))


def mix_of(specs):
    (policy,) = with_mixes([FGD], specs)
    return policy.mix


@pytest.mark.parametrize(
    ("specs", "mix"),
    [
        pytest.param([], USUAL_MIX, id="nobody"),
        pytest.param([CPU_ONLY] * 3, USUAL_MIX, id="no gpus"),
        pytest.param([sharing(500), CPU_ONLY], typical_mix([sharing(500), CPU_ONLY]), id="as published"),
        pytest.param([sharing(500), *[CPU_ONLY] * 99], (MixEntry(1000, 500, 1, (), 1.0),), id="few ask for gpus"),
    ],
)
def test_mix_is_that_of_the_guests_or_of_those_with_gpus(specs, mix):
    assert mix_of(specs) == mix


@pytest.mark.parametrize("workload", WORKLOADS)
def test_published_experiments_keep_their_mix(workload):
    _, specs = read_pods(workload)
    assert mix_of(specs) == typical_mix(specs)


def test_declared_mix_and_policies_without_one_stay_as_they_are():
    declared = msgspec.structs.replace(FGD, name="own", mix=(MixEntry(1, 2, 1, (), 1.0),))
    assert with_mixes([declared, BUILT_IN["pack"]], [sharing(500)]) == (declared, BUILT_IN["pack"])


def engine_with(**running):
    engine = Engine(with_mixes([FGD, BUILT_IN["pack"]]))
    capacity = amounts({"cpu": 64_000, "guests": 100})
    engine.apply(HostJoined(host=Host(name="h", capacity=capacity, devices=(Device("gpu", "T4"),) * 8)))
    for name, milli in running.items():
        place(engine, name, milli)
    return engine


def place(engine, name, milli):
    engine.apply(GuestArrived(guest=Guest(name=name, uid=name, spec=sharing(milli), host="h", on_devices=(0,))))


def test_placed_guests_make_the_mix_of_a_live_engine():
    engine = engine_with(one=100, two=100, three=300)
    engine.apply(GuestArrived(guest=Guest(name="waits", uid="waits", spec=sharing(900))))
    specs = [sharing(100), sharing(100), sharing(300)]
    assert with_placed_mixes([FGD], engine.view) == with_mixes([FGD], specs)
    engine.apply(GuestLeft(uid="three"))
    assert with_placed_mixes([FGD], engine.view) == with_mixes([FGD], specs[:2])


def test_mix_is_renewed_after_news_and_at_most_once_a_minute():
    engine, renewal = engine_with(one=100), MixRenewal([FGD, BUILT_IN["pack"]])
    assert renewal.due() == 0
    change = renewal.renew(engine, 5)
    assert change == PolicyChanged(policies=with_placed_mixes([FGD, BUILT_IN["pack"]], engine.view), wakes=False, at=5)
    engine.apply(change)
    assert (renewal.due(), renewal.renew(engine, 6)) == (None, None)
    renewal.note_news()
    assert (renewal.due(), renewal.renew(engine, RENEW_NS + 4)) == (RENEW_NS + 5, None)
    assert renewal.renew(engine, RENEW_NS + 5) is None, "the mix is still the same"
    place(engine, "two", 300)
    renewal.note_news()
    assert renewal.renew(engine, 2 * RENEW_NS + 5) is not None


def test_declared_mixes_are_never_renewed():
    declared = msgspec.structs.replace(FGD, mix=(MixEntry(1, 2, 1, (), 1.0),))
    renewal = MixRenewal([declared])
    assert (renewal.due(), renewal.renew(Engine([declared]), 10 * RENEW_NS)) == (None, None)


def waiting_engine():
    engine = engine_with(one=100)
    engine.apply(GuestArrived(guest=Guest(name="huge", uid="huge", spec=GuestSpec(requests=amounts({"cpu": 99_000})))))
    engine.step(1)
    return engine


@pytest.mark.parametrize("wakes", [False, True])
def test_change_of_mixes_alone_wakes_nobody(wakes):
    engine = waiting_engine()
    engine.apply(PolicyChanged(policies=with_placed_mixes([FGD, BUILT_IN["pack"]], engine.view), wakes=wakes))
    assert bool(engine.step(2)) is wakes
    assert engine.policies[0].mix == (MixEntry(1000, 100, 1, (), 1.0),)


def test_change_of_more_than_mixes_must_wake_those_who_wait():
    engine = waiting_engine()
    before = engine.checkpoint()
    with pytest.raises(InputError, match="must wake"):
        engine.apply(PolicyChanged(policies=(BUILT_IN["spread"],), wakes=False))
    assert engine.checkpoint() == before
