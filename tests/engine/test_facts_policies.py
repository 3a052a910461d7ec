"""Policies that change while guests wait, run and are parked."""

from __future__ import annotations

import pytest

from hostler.errors import HostlerError, InputError, UnknownNameError
from hostler.model import BindFailed, HostJoined, HostLeft, PolicyChanged, ScorerUse
from tests.engine.fleet import arrive, binds, books, devices_left, engine_with, guest, host, place, policy, used
from tests.engine.traces import refused


def test_other_policies_decide_from_the_next_step_on():
    engine = engine_with([host("a"), host("b")], "spread")
    assert place(engine, guest("g1"), guest("g2")) == ["a", "b"]
    engine.apply(PolicyChanged(policies=(policy("pack"),)))
    assert [p.name for p in engine.policies] == ["pack"]
    assert place(engine, guest("g3"), guest("g4"), guest("g5")) == ["a", "a", "a"]


def test_a_change_of_policies_tries_every_pending_guest_again():
    engine = engine_with([host("a", cpu=1000)])
    place(engine, guest("x"), guest("g"), now=0)
    engine.apply(PolicyChanged(policies=(policy("spread", overcommit=(("cpu", 2_000_000),)),)))
    assert engine.decision("g").state == "active"
    assert binds(engine.step(0)) == {"g": "a"}


@pytest.mark.parametrize(
    ("policies", "error"),
    [
        pytest.param((), InputError, id="none at all"),
        pytest.param((policy("spread"), policy("spread")), HostlerError, id="one name twice"),
        pytest.param((policy("fgd", mix=()),), InputError, id="fgd without a mix"),
        pytest.param((policy("pack"),), UnknownNameError, id="without one that a pending guest names"),
        pytest.param((policy("spread", scorers=(ScorerUse("nonsense"),)),), UnknownNameError, id="unknown scorer"),
        pytest.param((policy("spread", scorers=(ScorerUse("balanced", 0),)),), InputError, id="weight of zero"),
        pytest.param((policy("spread", ties=("name", "name")),), InputError, id="a tie key twice"),
        pytest.param(
            (policy("spread", overcommit=(("cpu", 10**12),)),), InputError, id="an overcommit that passes 2^62"
        ),
    ],
)
def test_policies_that_cannot_be_are_refused_without_a_trace(policies, error):
    engine = engine_with([host("a", cpu=2**50)], "spread")
    arrive(engine, guest("g", policy="spread"))
    refused(engine, PolicyChanged(policies=policies), error)
    assert binds(engine.step(0)) == {"g": "a"}


def test_a_bind_that_fails_after_its_policy_was_dropped_still_gives_back():
    engine = engine_with([host("a")], "spread", "pack")
    place(engine, guest("g", policy="pack"))
    engine.apply(PolicyChanged(policies=(policy("spread"),)))
    engine.apply(BindFailed(uid="g", host="a"))
    assert used(engine, "a") == {}
    assert engine.decision("g").state == "backoff"


def test_a_guest_of_a_dropped_policy_is_unparked_like_any_other():
    engine = engine_with([host("a", gpus=1)], "spread", "pack")
    place(engine, guest("g", policy="pack", gpu=(1, 500)))
    engine.apply(HostLeft(name="a"))
    engine.apply(PolicyChanged(policies=(policy("spread"),)))
    engine.apply(HostJoined(host=host("a", gpus=1)))
    assert devices_left(engine, "a") == [500]


def test_a_placed_guest_is_not_moved_by_a_change_of_policies():
    engine = engine_with([host("a"), host("b")])
    place(engine, guest("g1"), guest("g2"))
    before = books(engine)
    engine.apply(PolicyChanged(policies=(policy("pack"),)))
    assert books(engine) == before
    assert engine.step(0) == []
