"""Waking: a guest that waits because of others is tried again when others come, go or change so that it fits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler.engine import Engine
from hostler.model import (
    BindFailed,
    Expression,
    Guest,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestSpec,
    GuestTerm,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostPort,
    NamespaceChanged,
    Policy,
    QueueRules,
    ScorerUse,
    Selector,
    Spread,
    Taint,
    amounts,
    labels,
)
from tests.engine.fleet import SECOND, policy
from tests.engine.twin_guests import EnginePair

ZONE = "topology.kubernetes.io/zone"
LATER = 60  # seconds, beyond every backoff
NO_FLUSH = QueueRules(flush_after_ns=10**9 * SECOND)
OWNERS_APART = Policy(
    name="owners_apart",
    scorers=(ScorerUse("even_spread", 1, f'{{"defaults":[{{"topology":"{ZONE}","max_skew":1}}]}}'),),
)
is_a = Selector((Expression("app", "In", ("a",)),))
is_red, is_not_red = Selector((Expression("team", "In", ("red",)),)), Selector((Expression("team", "NotIn", ("red",)),))
A_BY_ZONE = GuestTerm(ZONE, is_a)


class WaitingGuest(EnginePair):
    """Hosts in zones, guests that run there, and one that waits because of them, perhaps in a crowd of others."""

    crowd = 0

    def __init__(self, fleet: dict[str, Host], running: dict[str, GuestSpec], wanted: GuestSpec, *more: Policy) -> None:
        super().__init__(*more, policy("spread"), rules=NO_FLUSH)
        for host in fleet.values():
            self.apply(HostJoined(host=host))
        for name, spec in running.items():
            self.apply(GuestArrived(guest=Guest(name=f"on {name}", uid=f"on {name}", spec=spec, host=name)))
            self.step()  # where no host is named, one is decided
        for number in range(self.crowd):
            large = GuestSpec(requests=amounts({"cpu": 10**6 + number}))
            self.apply(GuestArrived(guest=Guest(name=f"large-{number}", uid=f"large-{number}", spec=large)))
        self.apply(GuestArrived(guest=Guest(name="it", uid="it", spec=wanted)))
        self.step()
        assert self.engine.decision("it").state == "waiting"
        self.step(LATER)
        assert self.engine.next_due() == NO_FLUSH.flush_after_ns, "it is woken although nothing happened"

    def goes_to(self) -> str:
        """Return where the waiting guest goes when it is tried again, if it is."""
        assert self.engine.next_due() == self.engine.now, "nothing is due"
        self.step()
        return self.place_of("it")


@pytest.fixture(autouse=True, params=[0, 70], ids=["alone", "in a crowd"])
def crowd(request, monkeypatch):
    """Let every test be played twice: where few wait all of them are looked at, else those whom it concerns."""
    monkeypatch.setattr(WaitingGuest, "crowd", request.param)


def in_zone(name: str, zone: str, cpu: int = 4000, **fields: Any) -> Host:
    return Host(name=name, capacity=amounts({"cpu": cpu}), labels=labels({ZONE: zone}), **fields)


def app(name: str, **fields: Any) -> GuestSpec:
    return GuestSpec(requests=amounts({"cpu": 1000}), labels=labels({"app": name}), **fields)


X, Y = in_zone("x", "1"), in_zone("y", "2")
SMALL_X, X2 = in_zone("x", "1", cpu=500), in_zone("x2", "1")  # one that takes nobody, and its neighbour
CLOSED_Y = in_zone("y", "2", cordoned=True)
SPREAD_A = (Spread(ZONE, 1, is_a),)
KEEPER = app("k", anti_affinity=(A_BY_ZONE,))


def test_guest_with_affinity_is_woken_by_a_placement():
    world = WaitingGuest({"x": X, "y": Y}, {}, app("b", affinity=(A_BY_ZONE,)))
    world.apply(GuestArrived(guest=Guest(name="a", uid="a", spec=app("a"))))
    world.step()
    assert world.goes_to() == world.place_of("a")


def test_guest_with_affinity_is_woken_by_a_fact_of_a_placement():
    world = WaitingGuest({"x": X, "y": Y}, {}, app("b", affinity=(A_BY_ZONE,)))
    world.apply(GuestArrived(guest=Guest(name="a", uid="a", spec=app("a"), host="y")))
    assert world.goes_to() == "y"


def test_guest_with_affinity_is_woken_when_a_running_guest_matches():
    world = WaitingGuest({"x": X, "y": Y}, {"y": app("c")}, app("b", affinity=(A_BY_ZONE,)))
    world.apply(GuestChanged(guest=Guest(name="on y", uid="on y", spec=app("a"), host="y")))
    assert world.goes_to() == "y"


def test_a_guest_that_needs_others_is_woken_when_their_host_comes_back():
    world = WaitingGuest({"x": X}, {"y": app("a")}, app("b", affinity=(A_BY_ZONE,)))
    world.apply(HostJoined(host=Y))
    assert world.goes_to() == "y"


def test_guest_with_affinity_is_woken_when_a_namespace_is_selected():
    term = GuestTerm(ZONE, is_a, (), is_red)
    world = WaitingGuest({"x": X, "y": Y}, {"y": app("a", namespace="other")}, app("b", affinity=(term,)))
    world.apply(NamespaceChanged(name="other", labels=labels({"team": "red"})))
    assert world.goes_to() == "y"


def test_avoiding_guest_is_woken_when_others_leave_a_host_too_small():
    world = WaitingGuest({"x": SMALL_X, "x2": X2}, {"x": app("a")}, app("b", anti_affinity=(A_BY_ZONE,)))
    world.apply(GuestLeft(uid="on x"))
    assert world.goes_to() == "x2"


def test_a_guest_that_avoids_others_is_woken_when_their_host_goes():
    world = WaitingGuest({"x": X, "x2": X2}, {"x": app("a")}, app("b", anti_affinity=(A_BY_ZONE,)))
    world.apply(HostLeft(name="x"))
    assert world.goes_to() == "x2"


def test_avoiding_guest_is_woken_when_the_others_host_changes_zone():
    world = WaitingGuest({"x": X, "x2": X2}, {"x": app("a")}, app("b", anti_affinity=(A_BY_ZONE,)))
    world.apply(HostChanged(host=in_zone("x", "9")))
    assert world.goes_to() == "x2"


def test_avoided_guest_is_woken_when_others_leave_a_host_too_small():
    world = WaitingGuest({"x": SMALL_X, "x2": X2}, {"x": KEEPER}, app("a"))
    world.apply(GuestLeft(uid="on x"))
    assert world.goes_to() == "x2"


def test_a_guest_that_others_avoid_is_woken_when_their_host_goes():
    world = WaitingGuest({"x": X, "x2": X2}, {"x": KEEPER}, app("a"))
    world.apply(HostLeft(name="x"))
    assert world.goes_to() == "x2"


def test_avoided_guest_is_woken_when_the_others_host_changes_zone():
    world = WaitingGuest({"x": X, "x2": X2}, {"x": KEEPER}, app("a"))
    world.apply(HostChanged(host=in_zone("x", "9", cordoned=True)))
    assert world.goes_to() == "x2"


def test_avoided_guest_is_woken_alike_after_a_restore():
    """What happened before the checkpoint is still news after it, although those who left are forgotten."""
    world = WaitingGuest({"x": X, "x2": X2}, {"x": KEEPER}, app("a"))
    world.apply(HostLeft(name="x"))
    restored = Engine.restore(world.engine.checkpoint())
    assert restored.next_due() == world.engine.next_due() == world.engine.now
    assert restored.step(restored.now) == world.step()
    assert world.place_of("it") == "x2"


def test_avoided_guest_is_woken_when_others_leave_after_lack_of_room():
    """The first reason was room. When that came there was anti-affinity behind it, and nobody tried the guest again."""
    tight = in_zone("x2", "1", cpu=1000)
    world = WaitingGuest({"x": SMALL_X, "x2": tight}, {"x2": app("b"), "x": KEEPER}, app("a"))
    world.apply(GuestLeft(uid="on x2"))
    assert world.step() == []
    world.apply(GuestLeft(uid="on x"))
    assert world.goes_to() == "x2"


def test_a_guest_that_others_avoid_is_woken_when_they_no_longer_do():
    world = WaitingGuest({"x": SMALL_X, "x2": X2}, {"x": KEEPER}, app("a"))
    world.apply(GuestChanged(guest=Guest(name="on x", uid="on x", spec=app("k"), host="x")))
    assert world.goes_to() == "x2"


def test_a_guest_that_others_avoid_is_woken_when_they_are_bound_elsewhere():
    world = WaitingGuest({"x": SMALL_X, "x2": X2, "y": CLOSED_Y}, {"x": KEEPER}, app("a"))
    world.apply(GuestBound(uid="on x", host="y"))
    assert world.goes_to() == "x2"


def test_a_guest_that_others_avoid_is_woken_when_they_could_not_be_bound():
    picky = msgspec.structs.replace(KEEPER, host_name="x")
    world = WaitingGuest({"x": X, "x2": X2}, {"": picky}, app("a"))
    world.apply(HostChanged(host=SMALL_X))
    assert world.step() == []
    world.engine.apply(BindFailed(uid="on ", host="x"))
    world.twin.free("on ")
    assert world.goes_to() == "x2"


def test_avoided_guest_is_woken_when_its_namespace_is_deselected():
    keeper = app("k", anti_affinity=(GuestTerm(ZONE, is_a, (), is_not_red),))
    world = WaitingGuest({"x": X}, {"x": keeper}, app("a", namespace="other"))
    world.apply(NamespaceChanged(name="other", labels=labels({"team": "red"})))
    assert world.goes_to() == "x"


def test_spread_guest_is_woken_when_the_lowest_domain_fills():
    world = WaitingGuest({"x": X, "y": CLOSED_Y}, {"x": app("a")}, app("a", spread=SPREAD_A))
    world.apply(GuestArrived(guest=Guest(name="a", uid="a", spec=app("a"), host="y")))
    assert world.goes_to() == "x"


def test_spread_guest_is_woken_when_one_in_its_domain_is_leaving():
    world = WaitingGuest({"x": X, "y": CLOSED_Y}, {"x": app("a")}, app("a", spread=SPREAD_A))
    leaving = app("a", is_leaving=True)
    world.apply(GuestChanged(guest=Guest(name="on x", uid="on x", spec=leaving, host="x")))
    assert world.goes_to() == "x"


def test_a_guest_that_is_to_be_spread_is_woken_when_the_lowest_domain_goes():
    world = WaitingGuest({"x": X, "y": CLOSED_Y}, {"x": app("a")}, app("a", spread=SPREAD_A))
    world.apply(HostLeft(name="y"))
    assert world.goes_to() == "x"


def test_spread_guest_is_woken_when_the_lowest_domain_gets_ineligible():
    honoring = (Spread(ZONE, 1, is_a, honor_taints=True),)
    world = WaitingGuest({"x": X, "y": CLOSED_Y}, {"x": app("a")}, app("a", spread=honoring))
    world.apply(HostChanged(host=in_zone("y", "2", cordoned=True, taints=(Taint("t"),))))
    assert world.goes_to() == "x"


def test_spread_sibling_is_woken_when_the_lowest_domain_fills():
    world = WaitingGuest({"x": X, "y": CLOSED_Y}, {"x": app("a")}, app("a", siblings=is_a), OWNERS_APART)
    world.apply(GuestArrived(guest=Guest(name="a", uid="a", spec=app("a"), host="y")))
    assert world.goes_to() == "x"


def test_a_guest_that_needs_a_port_is_woken_when_it_is_free():
    world = WaitingGuest(
        {"x": X}, {"x": app("a", ports=(HostPort(80),))}, app("b", ports=(HostPort(80, "TCP", "::1"),))
    )
    world.apply(GuestLeft(uid="on x"))
    assert world.goes_to() == "x"


def test_a_guest_that_wants_to_be_alone_is_woken_when_the_host_is_empty():
    alone = policy("first_fit", name="alone", one_guest_per_host=True)
    world = WaitingGuest({"x": X}, {"x": app("a")}, app("b"), alone)
    world.apply(GuestLeft(uid="on x"))
    assert world.goes_to() == "x"


def test_guests_that_wait_for_others_are_tried_only_for_cures():
    world = WaitingGuest({"x": X, "y": Y}, {"x": app("c")}, app("b", affinity=(A_BY_ZONE,)))
    world.apply(GuestLeft(uid="on x"))
    assert world.step() == []
    assert world.engine.decision("it").attempt == 1
