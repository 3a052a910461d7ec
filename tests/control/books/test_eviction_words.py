"""Why a VM is evicted, as its owner reads it: the kind of eviction, without names of other projects."""

from __future__ import annotations

import pytest

from hostler.control.books.follower import Step
from hostler.control.books.waiting_vms import summarize_step
from hostler.engine import BUILT_IN, Engine
from hostler.model import Evict, Guest, GuestArrived

HIGHER = "it makes room for a VM of higher priority"


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("preempted by secret", HIGHER),
        ("preempted by gang theirs/secret", HIGHER),
        ("reclaimed by secret for tenant theirs", "it makes room for a project that has less than it is guaranteed"),
        ("gang ours/team stayed below its minimum", "gang ours/team stayed below its minimum"),
        ("", HIGHER),
    ],
)
def test_a_victim_is_reported_the_kind_of_its_eviction_and_no_name(reason: str, told: str) -> None:
    engine = Engine((BUILT_IN["least_loaded"],))
    engine.apply(GuestArrived(guest=Guest(name="victim", uid="v", version=1)))
    step = Step(now=1, upto=0, limit=1, digest="")
    decided = summarize_step(engine, step, [Evict("v", "victim", 1, "h0", "other", reason)])
    assert decided.evictions == {"v": told}
