"""Facts beyond 64 bits, text that is no text, and names that are too many only when they are added up."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.engine.cluster.tables import MAX_RESOURCES
from hostler.errors import HostlerError
from hostler.model import (
    Device,
    Event,
    GuestArrived,
    GuestsArrived,
    GuestSpec,
    GuestTerm,
    Host,
    HostJoined,
    HostsJoined,
    Spread,
    WeightedGuestTerm,
)
from tests.engine.fleet import arrive, engine_with, guest, host, place

NO_TEXT = "\ud800"  # half of a pair: Python takes it for a character, no encoding does


def refused_to_the_byte(engine: Engine, event: Event) -> None:
    """Apply an event that must be refused and must not change one byte of a checkpoint."""
    before = engine.checkpoint()
    with pytest.raises(HostlerError):
        engine.apply(event)
    assert engine.checkpoint() == before


BEYOND = [
    pytest.param(GuestArrived(guest=guest("g", affinity=(GuestTerm(""),))), id="an affinity without topology"),
    pytest.param(GuestArrived(guest=guest("g", spread=(Spread("", 1),))), id="a spread without topology"),
    pytest.param(
        GuestArrived(guest=guest("g", preferred_anti_affinity=(WeightedGuestTerm(1, GuestTerm("")),))),
        id="a preference without topology",
    ),
    pytest.param(GuestArrived(guest=guest("g", priority=2**63)), id="a priority beyond 64 bits"),
    pytest.param(GuestArrived(guest=guest("g", draw_key=2**64)), id="a guest's draw key"),
    pytest.param(HostJoined(host=host("b", version=2**64)), id="a host's version"),
    pytest.param(HostJoined(host=host(NO_TEXT)), id="a host's name that is no text"),
    pytest.param(HostJoined(host=host("b", labels={"zone": NO_TEXT})), id="a label that is no text"),
    pytest.param(GuestArrived(guest=guest("g", uid=NO_TEXT)), id="a guest's uid that is no text"),
    pytest.param(GuestArrived(guest=guest(NO_TEXT, uid="g")), id="a guest's name that is no text"),
    pytest.param(GuestsArrived(specs=(GuestSpec(),), spec_of=(0,), names=(NO_TEXT,)), id="a column of no text"),
]


@pytest.mark.parametrize("event", BEYOND)
def test_a_fact_that_could_not_be_written_down_is_refused(event):
    engine = engine_with([host("a")], "random")
    place(engine, guest("there"))
    refused_to_the_byte(engine, event)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(GuestArrived(guest=guest("g", priority=2**31 - 1)), id="a high priority"),
        pytest.param(GuestArrived(guest=guest("g", priority=-(2**31))), id="a low priority"),
        pytest.param(GuestArrived(guest=guest("g", draw_key=2**64 - 1)), id="a guest's draw key"),
        pytest.param(GuestArrived(guest=guest("größe-😀", version=2**63 - 1)), id="a guest's name and version"),
        pytest.param(HostJoined(host=host("größe-😀", version=2**63 - 1, rank=-(2**63))), id="a host's name and rank"),
    ],
)
def test_largest_numbers_and_any_text_survive_a_checkpoint(event):
    engine = engine_with([host("a")], "random")
    engine.apply(event)
    engine.step(1)
    saved = engine.checkpoint()
    assert Engine.restore(saved).checkpoint() == saved


def test_hosts_that_join_at_once_may_not_bring_too_many_resources_together():
    each = MAX_RESOURCES // 2
    fleet = tuple(Host(name=f"h{k}", capacity=tuple((f"r{k}-{i}", 1) for i in range(each))) for k in range(3))
    refused_to_the_byte(engine_with([host("a")]), HostsJoined(hosts=fleet))


def test_hosts_that_join_at_once_may_not_bring_too_many_kinds():
    fleet = tuple(Host(name=f"h{k}", devices=tuple(Device(f"k{k}-{i}") for i in range(64))) for k in range(520))
    refused_to_the_byte(engine_with([host("a")]), HostsJoined(hosts=fleet))


def test_hosts_that_join_singly_are_rejected_beyond_the_bound():
    engine = engine_with([host("a")])
    each = (MAX_RESOURCES - 5) // 2  # guests, cpu, memory, storage, and what nobody has
    for number in range(2):
        fleet = Host(name=f"h{number}", capacity=tuple((f"r{number}-{i}", 1) for i in range(each)))
        engine.apply(HostJoined(host=fleet))
    refused_to_the_byte(engine, HostJoined(host=Host(name="late", capacity=(("one-more", 1), ("two-more", 1)))))
    arrive(engine, guest("g", more={"r1-0": 1}))
    assert engine.explain("g").near_misses
