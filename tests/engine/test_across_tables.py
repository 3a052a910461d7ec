"""Constraints across guests, computed by hand: small fleets, what fits and what it scores, by the specification.

Source: ``kubernetes-scheduling.md`` 2.4 (filters) and 2.7 (scores). Every table is also put to the slow twin, so that
neither it nor the engine can drift away from the numbers that are written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hostler.errors import FactError
from hostler.model import (
    Expression,
    GuestArrived,
    GuestLeft,
    GuestSpec,
    GuestTerm,
    HostJoined,
    HostPort,
    NamespaceChanged,
    Policy,
    Reason,
    ScorerUse,
    Selector,
    Spread,
    Taint,
    Term,
    Toleration,
    WeightedGuestTerm,
    labels,
)
from tests.engine.fleet import MIB, guest, host, policy, spec
from tests.engine.twin_guests import HOSTNAME, EnginePair

ZONE = "topology.kubernetes.io/zone"
RACK = "rack"

ONLY_SPREAD = Policy(name="only_spread", scorers=(ScorerUse("even_spread"),))
ONLY_NEAR = Policy(name="only_near", scorers=(ScorerUse("near_guests"),))
ONLY_IMAGES = Policy(name="only_images", scorers=(ScorerUse("image_locality"),))
OWNERS_APART = Policy(
    name="owners_apart",
    scorers=(ScorerUse("even_spread", 1, f'{{"defaults":[{{"topology":"{ZONE}","max_skew":1}}]}}'),),
)


def of(**wanted: str) -> Selector:
    """Select by the values of labels."""
    return Selector(tuple(Expression(key, "In", (value,)) for key, value in wanted.items()))


def small(app: str = "", **fields: Any) -> GuestSpec:
    """A guest that always finds room."""
    marks = dict(fields.pop("marks", {})) | ({"app": app} if app else {})
    return spec(cpu=10, memory=MIB, labels=labels(marks), **fields)


def zone(value: str, **fields: Any) -> dict[str, Any]:
    """A host in a zone."""
    return {"labels": {ZONE: value} | fields.pop("marks", {}), **fields}


class NamedFleet(EnginePair):
    """A fleet by name, with guests that run on it, and a newcomer whose fate is looked up."""

    def __init__(self, fleet: Mapping[str, dict[str, Any]], chosen: str | Policy = "spread") -> None:
        super().__init__(policy(chosen) if isinstance(chosen, str) else chosen)
        self.count = 0
        for name, fields in fleet.items():
            self.apply(HostJoined(host=host(name, **fields)))

    def run(self, name: str, *specs: GuestSpec) -> NamedFleet:
        """Let guests run on a host already."""
        for each in specs:
            self.count += 1
            self.apply(GuestArrived(guest=guest(f"r{self.count}", each, host=name)))
        return self

    def ask(self, wanted: GuestSpec) -> Any:
        """Explain a newcomer, in agreement with the twin, and let it leave again."""
        self.apply(GuestArrived(guest=guest(f"new{self.count}", wanted)))
        explanation = self.engine.explain(f"new{self.count}")
        self.check_explanation(f"new{self.count}")
        self.apply(GuestLeft(uid=f"new{self.count}"))
        self.count += 1
        return explanation

    def fits(self, wanted: GuestSpec) -> str:
        """Return the hosts that take a newcomer, in one word each."""
        return " ".join(sorted(self.ask(wanted).feasible))

    def why(self, wanted: GuestSpec) -> dict[str, Reason]:
        """Return the first reason of every host that refuses a newcomer."""
        return {v.host: v.failures[0].reason for v in self.ask(wanted).verdicts if not v.fits}

    def scores(self, wanted: GuestSpec, plugin: str, *, raw: bool = False) -> dict[str, int | float]:
        """Return what a scorer gives a newcomer, by host."""
        verdicts = self.ask(wanted).verdicts
        return {v.host: s.raw if raw else s.weighted for v in verdicts for s in v.scores if s.plugin == plugin}


THREE_ZONES = {"x": zone("1"), "y": zone("2"), "z": zone("3")}


# -- hard spreading ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_skew", "takers"),
    [
        (1, "z"),  # x: 2 + 1 - 0 = 3, y: 1 + 1 - 0 = 2, z: 0 + 1 - 0 = 1
        (2, "y z"),
        (3, "x y z"),
    ],
)
def test_skew_is_the_domain_count_with_the_guest_less_the_lowest(max_skew, takers):
    table = NamedFleet(THREE_ZONES).run("x", small("a"), small("a")).run("y", small("a"))
    assert table.fits(small("a", spread=(Spread(ZONE, max_skew, of(app="a")),))) == takers


def test_guest_outside_its_own_selector_adds_nothing_to_the_skew():
    table = NamedFleet(THREE_ZONES).run("x", small("a"), small("a")).run("y", small("a"))
    assert table.fits(small("b", spread=(Spread(ZONE, 1, of(app="a")),))) == "y z"


def test_the_lowest_count_is_that_of_domains_not_of_hosts():
    fleet = {"x1": zone("1"), "x2": zone("1"), "y": zone("2")}
    table = NamedFleet(fleet).run("x1", small("a")).run("y", small("a"))
    assert table.fits(small("a", spread=(Spread(ZONE, 1, of(app="a")),))) == "x1 x2 y"


@pytest.mark.parametrize(
    ("min_domains", "max_skew", "takers"),
    [
        (1, 1, "x y"),  # 1 + 1 - 1
        (2, 1, "x y"),
        (3, 1, ""),  # too few domains, so that the lowest count is taken for 0: 1 + 1 - 0
        (3, 2, "x y"),
    ],
)
def test_with_fewer_domains_than_asked_for_the_lowest_count_is_zero(min_domains, max_skew, takers):
    table = NamedFleet({"x": zone("1"), "y": zone("2")}).run("x", small("a")).run("y", small("a"))
    assert table.fits(small("a", spread=(Spread(ZONE, max_skew, of(app="a"), True, min_domains),))) == takers


@pytest.mark.parametrize(
    ("honor_taints", "tolerations", "takers"),
    [
        (False, (), ""),  # the empty zone y counts although nobody may go there: x has 1 + 1 - 0
        (True, (), "x"),  # y does not count: x has 1 + 1 - 1
        (True, (Toleration("t", "Exists"),), "y"),  # for this one y is as good as x
    ],
)
def test_tainted_hosts_count_unless_the_constraint_honours_taints(honor_taints, tolerations, takers):
    table = NamedFleet({"x": zone("1"), "y": zone("2", taints=(Taint("t"),))}).run("x", small("a"))
    spread = Spread(ZONE, 1, of(app="a"), honor_taints=honor_taints)
    assert table.fits(small("a", spread=(spread,), tolerations=tolerations)) == takers


def test_soft_taints_do_not_keep_a_host_from_counting():
    table = NamedFleet({"x": zone("1"), "y": zone("2", taints=(Taint("t", "", "PreferNoSchedule"),))}).run(
        "x", small("a")
    )
    assert table.fits(small("a", spread=(Spread(ZONE, 1, of(app="a"), honor_taints=True),))) == "y"


@pytest.mark.parametrize(
    "wants",
    [
        {"selector": {"disk": "ssd"}},
        {"host_affinity": (Term((Expression("disk", "In", ("ssd",)),)),)},
        {"host_affinity": (Term((), (Expression("metadata.name", "NotIn", ("y",)),)), Term())},
    ],
)
@pytest.mark.parametrize(("honor_affinity", "takers"), [(True, "x"), (False, "")])
def test_excluded_hosts_count_unless_affinity_is_honored(wants, honor_affinity, takers):
    table = NamedFleet({"x": zone("1", marks={"disk": "ssd"}), "y": zone("2")}).run("x", small("a"))
    spread = Spread(ZONE, 1, of(app="a"), honor_affinity=honor_affinity)
    assert table.fits(small("a", spread=(spread,), **wants)) == takers


def test_host_without_the_label_is_rejected_and_not_counted():
    table = NamedFleet({"x": zone("1"), "y": zone("2"), "bare": {}}).run("bare", small("a"), small("a"))
    wanted = small("a", spread=(Spread(ZONE, 1, of(app="a")),))
    assert table.why(wanted) == {"bare": Reason("spread", "no_topology_label", ZONE)}


def test_with_two_constraints_only_hosts_with_both_labels_count():
    """The zone of a host without a rack is no domain, so that the lowest count is 1, not 0."""
    fleet = {"x": zone("1", marks={RACK: "p"}), "y": zone("2", marks={RACK: "q"}), "bare": zone("3")}
    table = NamedFleet(fleet).run("x", small("a")).run("y", small("a"))
    wanted = small("a", spread=(Spread(ZONE, 1, of(app="a")), Spread(RACK, 1, of(app="a"))))
    assert table.fits(wanted) == "x y"
    assert table.why(wanted) == {"bare": Reason("spread", "no_topology_label", RACK)}


def test_guests_of_other_namespaces_are_not_counted_by_spreading():
    table = NamedFleet({"x": zone("1"), "y": zone("2")}).run("x", small("a", namespace="other"), small("a"))
    assert table.fits(small("a", spread=(Spread(ZONE, 1, of(app="a")),))) == "y"
    assert table.fits(small("a", spread=(Spread(ZONE, 1, of(app="a")),), namespace="third")) == "x y"


def test_selector_without_requirements_counts_only_the_guest_itself():
    table = NamedFleet({"x": zone("1"), "y": zone("2")}).run("x", small("a"), small("a"), small("a"))
    assert table.fits(small("a", spread=(Spread(ZONE, 1, Selector()),))) == "x y"
    assert table.fits(small("a", spread=(Spread(ZONE, 1, None),))) == "x y"


def test_the_reason_says_how_large_the_skew_would_be():
    table = NamedFleet({"x": zone("1"), "y": zone("2")}).run("x", small("a"), small("a"))
    verdicts = table.ask(small("a", spread=(Spread(ZONE, 1, of(app="a")),))).verdicts
    failure = next(v.failures[0] for v in verdicts if not v.fits)
    assert failure.reason == Reason("spread", "skew_too_large", f"app=a by {ZONE}, skew 1")
    assert (failure.needed, failure.free, failure.missing) == (3, 1, 2)


# -- guests on their way out ------------------------------------------------------------------------------------------


def test_leaving_guests_count_for_affinity_but_not_for_spread():
    table = NamedFleet({"x": zone("1"), "y": zone("2")}).run("x", small("a", is_leaving=True))
    assert table.fits(small("a", spread=(Spread(ZONE, 1, of(app="a")),))) == "x y"
    assert table.fits(small("b", affinity=(GuestTerm(ZONE, of(app="a")),))) == "x"
    assert table.fits(small("b", anti_affinity=(GuestTerm(ZONE, of(app="a")),))) == "y"


def test_a_leaving_guest_still_keeps_others_away_and_still_holds_its_ports():
    keeper = small("a", anti_affinity=(GuestTerm(ZONE, of(app="b")),), ports=(HostPort(80),), is_leaving=True)
    table = NamedFleet({"x": zone("1"), "x2": zone("1"), "y": zone("2")}).run("x", keeper)
    assert table.fits(small("b")) == "y"
    assert table.fits(small("c", ports=(HostPort(80),))) == "x2 y"


# -- affinity ---------------------------------------------------------------------------------------------------------


def test_first_of_a_group_goes_anywhere_and_the_next_ones_follow():
    wanted = small("a", affinity=(GuestTerm(ZONE, of(app="a")),))
    table = NamedFleet({"x": zone("1"), "x2": zone("1"), "y": zone("2"), "bare": {}})
    assert table.fits(wanted) == "x x2 y"
    assert table.run("x", wanted).fits(wanted) == "x x2"


def test_a_guest_that_wants_others_than_itself_waits_for_the_first_of_them():
    wanted = small("b", affinity=(GuestTerm(ZONE, of(app="a")),))
    table = NamedFleet(THREE_ZONES)
    assert table.fits(wanted) == ""
    assert table.why(wanted)["x"] == Reason("guest_affinity", "affinity_unmet", f"app=a by {ZONE}")
    assert table.run("y", small("a")).fits(wanted) == "y"


def test_the_first_rule_is_for_guests_that_all_of_their_own_terms_mean():
    wanted = small("a", affinity=(GuestTerm(ZONE, of(app="a")), GuestTerm(ZONE, of(tier="1"))))
    assert NamedFleet(THREE_ZONES).fits(wanted) == ""
    assert NamedFleet(THREE_ZONES).fits(small("a", marks={"tier": "1"}, affinity=wanted.affinity)) == "x y z"
    elsewhere = small("a", affinity=(GuestTerm(ZONE, of(app="a"), ("other",)),))
    assert NamedFleet(THREE_ZONES).fits(elsewhere) == ""


def test_first_rule_holds_if_all_others_are_without_the_label():
    """Guests on such hosts are near to nobody, so that nobody can be near to them (kube-scheduler counts them not)."""
    wanted = small("a", affinity=(GuestTerm(ZONE, of(app="a")),))
    assert NamedFleet({"x": zone("1"), "bare": {}}).run("bare", small("a")).fits(wanted) == "x"


def test_all_terms_must_mean_the_same_guest():
    wanted = small("b", affinity=(GuestTerm(ZONE, of(app="a")), GuestTerm(ZONE, of(tier="1"))))
    table = NamedFleet({"x": zone("1"), "y": zone("2")}).run("x", small("a"), small(marks={"tier": "1"}))
    assert table.fits(wanted) == ""
    assert table.run("y", small("a", marks={"tier": "1"})).fits(wanted) == "y"


def test_each_term_is_met_in_its_own_kind_of_domain():
    fleet = {
        "xp": zone("1", marks={RACK: "p"}),
        "xq": zone("1", marks={RACK: "q"}),
        "yp": zone("2", marks={RACK: "p"}),
    }
    wanted = small("b", affinity=(GuestTerm(ZONE, of(app="a")), GuestTerm(RACK, of(app="a"))))
    table = NamedFleet(fleet).run("xp", small("a"))
    assert table.fits(wanted) == "xp"
    # Another one in yp's zone: now rack q lacks a friend, and yp has one in its zone and one in its rack.
    assert table.run("yp", small("a")).fits(wanted) == "xp yp"


def test_anti_affinity_keeps_the_newcomer_from_whole_domains():
    table = NamedFleet({"x": zone("1"), "x2": zone("1"), "y": zone("2"), "bare": {}}).run("x", small("a"))
    wanted = small("b", anti_affinity=(GuestTerm(ZONE, of(app="a")),))
    assert table.fits(wanted) == "bare y"
    assert table.why(wanted)["x2"] == Reason("guest_affinity", "anti_affinity", f"app=a by {ZONE}")


def test_anti_affinity_is_symmetric():
    table = NamedFleet({"x": zone("1"), "x2": zone("1"), "y": zone("2"), "bare": {}})
    table.run("x", small("b", anti_affinity=(GuestTerm(ZONE, of(app="a")),)))
    assert table.fits(small("a")) == "bare y"
    assert table.fits(small("c")) == "bare x x2 y"
    assert table.why(small("a"))["x2"] == Reason("guest_affinity", "existing_anti_affinity", f"app=a by {ZONE}")


def test_affinity_is_not_symmetric():
    table = NamedFleet({"x": zone("1"), "y": zone("2")}).run("x", small("b", affinity=(GuestTerm(ZONE, of(app="a")),)))
    assert table.fits(small("a")) == "x y"


def test_anti_affinity_on_hosts_without_the_label_keeps_nobody_away():
    keeper = small("b", anti_affinity=(GuestTerm(ZONE, of(app="a")),))
    table = NamedFleet({"x": zone("1"), "bare": {}}).run("bare", keeper, small("a"))
    assert table.fits(small("a")) == "bare x"
    assert table.fits(keeper) == "bare x"


def test_explanations_name_the_guests_in_the_way():
    table = NamedFleet({"x": zone("1"), "x2": zone("1")}).run("x", small("a"), small("c")).run("x2", small("a"))
    verdicts = table.ask(small("b", anti_affinity=(GuestTerm(ZONE, of(app="a")),))).verdicts
    assert {v.host: v.failures[0].by for v in verdicts} == {"x": ("r1", "r3"), "x2": ("r1", "r3")}


@pytest.mark.parametrize(
    ("namespaces", "selector", "kept_off"),
    [
        ((), None, "own"),
        (("near",), None, "near"),
        (("near", "own"), None, "near own"),
        ((), Selector(), "far near own"),
        ((), of(team="red"), "far"),
        (("near",), of(team="red"), "far near"),
        ((), Selector((Expression("team", "DoesNotExist"),)), "own"),
        (("nowhere",), of(team="green"), ""),
    ],
)
def test_terms_select_guests_of_listed_selected_or_own_namespaces(namespaces, selector, kept_off):
    """One guest of each namespace runs on a host of its own; hosts are named by them."""
    table = NamedFleet({name: {"labels": {HOSTNAME: name}} for name in ("own", "near", "far", "free")})
    for name, team in (("near", "blue"), ("far", "red")):
        table.apply(NamespaceChanged(name=name, labels=labels({"team": team})))
    for name in ("own", "near", "far"):
        table.run(name, small("a", namespace=name))
    wanted = small(namespace="own", anti_affinity=(GuestTerm(HOSTNAME, of(app="a"), namespaces, selector),))
    assert " ".join(sorted(table.why(wanted))) == kept_off


def test_namespaces_of_those_who_are_there_are_looked_up_for_the_newcomer():
    table = NamedFleet({"x": zone("1"), "y": zone("2")})
    table.run("x", small(anti_affinity=(GuestTerm(ZONE, of(app="a"), (), of(team="red")),)))
    assert table.fits(small("a", namespace="other")) == "x y"
    table.apply(NamespaceChanged(name="other", labels=labels({"team": "red"})))
    assert table.fits(small("a", namespace="other")) == "y"
    assert table.fits(small("a")) == "x y"
    table.apply(NamespaceChanged(name="other", labels=()))
    assert table.fits(small("a", namespace="other")) == "x y"


def test_a_term_without_a_selector_means_nobody_and_an_empty_one_everybody():
    table = NamedFleet({"x": zone("1"), "y": zone("2")}).run("x", small("a"))
    assert table.fits(small("b", anti_affinity=(GuestTerm(ZONE, None),))) == "x y"
    assert table.fits(small("b", anti_affinity=(GuestTerm(ZONE, Selector()),))) == "y"


# -- ports ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "wanted", "collides"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80, "TCP"), HostPort(80, "UDP"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.1"), True),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80), True),
        (HostPort(80), HostPort(80, "TCP", "10.0.0.1"), True),
        (HostPort(80), HostPort(80, "SCTP", "10.0.0.1"), False),
    ],
)
def test_ports_collide_by_protocol_number_and_address(held, wanted, collides):
    table = NamedFleet({"x": {}, "y": {}}).run("x", small(ports=(held,)))
    newcomer = small(ports=(wanted,))
    assert table.fits(newcomer) == ("y" if collides else "x y")
    if collides:
        assert table.why(newcomer) == {"x": Reason("ports", "port_taken", wanted.text())}


def test_first_taken_port_is_named_and_both_ports_are_held():
    table = NamedFleet({"x": {}}).run("x", small(ports=(HostPort(81), HostPort(80))))
    assert table.why(small(ports=(HostPort(79), HostPort(80), HostPort(81)))) == {
        "x": Reason("ports", "port_taken", "*:80/TCP")
    }


# -- soft spreading ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_skew", "raw", "score"),
    [
        # counts 3, 1, 0; three domains, ln(3 + 2) = 1.609: 4.83, 1.61, 0; then 100 * (5 + 0 - s) / 5
        (1, {"x": 5, "y": 2, "z": 0}, {"x": 0, "y": 60, "z": 100}),
        # two more each: 6.83, 3.61, 2; then 100 * (7 + 2 - s) / 7
        (3, {"x": 7, "y": 4, "z": 2}, {"x": 28, "y": 71, "z": 100}),
    ],
)
def test_crowding_is_count_times_log_of_the_domains_plus_the_skew_allowed(max_skew, raw, score):
    table = NamedFleet(THREE_ZONES, ONLY_SPREAD).run("x", *[small("a")] * 3).run("y", small("a"))
    wanted = small("a", spread=(Spread(ZONE, max_skew, of(app="a"), False),))
    assert table.scores(wanted, "even_spread", raw=True) == raw
    assert table.scores(wanted, "even_spread") == score


def test_only_domains_of_feasible_hosts_count_for_the_logarithm():
    """Two domains are left, ln(2 + 2) = 1.386: 4.16 and 1.39."""
    fleet = THREE_ZONES | {"z": zone("3", cordoned=True)}
    table = NamedFleet(fleet, ONLY_SPREAD).run("x", *[small("a")] * 3).run("y", small("a"))
    wanted = small("a", spread=(Spread(ZONE, 1, of(app="a"), False),))
    assert table.scores(wanted, "even_spread", raw=True) == {"x": 4, "y": 1}
    assert table.scores(wanted, "even_spread") == {"x": 25, "y": 100}


def test_hosts_as_domains_are_counted_one_by_one():
    """Four hosts, ln(4 + 2) = 1.792: 3.58, 1.79, 0, 0; guests on a host count whatever its taints are."""
    fleet = {name: {"labels": {HOSTNAME: name}} for name in "abcd"}
    table = NamedFleet(fleet, ONLY_SPREAD).run("a", small("a"), small("a")).run("b", small("a"))
    wanted = small("a", spread=(Spread(HOSTNAME, 1, of(app="a"), False),))
    assert table.scores(wanted, "even_spread", raw=True) == {"a": 4, "b": 2, "c": 0, "d": 0}
    assert table.scores(wanted, "even_spread") == {"a": 0, "b": 50, "c": 100, "d": 100}


def test_a_host_without_one_of_the_labels_scores_nothing():
    fleet = {"x": zone("1", marks={RACK: "p"}), "y": zone("2", marks={RACK: "q"}), "bare": zone("3")}
    table = NamedFleet(fleet, ONLY_SPREAD).run("x", small("a"))
    wanted = small("a", spread=(Spread(ZONE, 1, of(app="a"), False), Spread(RACK, 1, of(app="a"), False)))
    # Two domains of each kind, ln(4) = 1.386, twice: 2.77 for x, 0 for y.
    assert table.scores(wanted, "even_spread", raw=True) == {"x": 3, "y": 0, "bare": -1}
    assert table.scores(wanted, "even_spread") == {"x": 0, "y": 100, "bare": 0}


def test_where_nobody_is_to_be_spread_yet_all_hosts_score_full():
    table = NamedFleet(THREE_ZONES, ONLY_SPREAD)
    wanted = small("a", spread=(Spread(ZONE, 1, of(app="a"), False),))
    assert table.scores(wanted, "even_spread") == {"x": 100, "y": 100, "z": 100}


# -- default spreading of siblings ------------------------------------------------------------------------------------

TWO_ZONES = {
    "x": zone("1", marks={HOSTNAME: "x"}),
    "x2": zone("1", marks={HOSTNAME: "x2"}),
    "y": zone("2", marks={HOSTNAME: "y"}),
}


def test_siblings_are_spread_by_default_under_the_kubernetes_policy():
    """By host (skew 3, ln 5 = 1.609) and by zone (skew 5, two domains, ln 4 = 1.386), two siblings on x.

    x: 2 * 1.609 + 2 + 2 * 1.386 + 4 = 11.99, x2: 2 + 2.77 + 4 = 8.77, y: 2 + 4 = 6; 100 * (12 + 6 - s) / 12, weight 2.
    """
    table = NamedFleet(TWO_ZONES, "kubernetes").run("x", small("a"), small("a"))
    wanted = small("a", siblings=of(app="a"))
    assert table.scores(wanted, "PodTopologySpread", raw=True) == {"x": 12, "x2": 9, "y": 6}
    assert table.scores(wanted, "PodTopologySpread") == {"x": 100, "x2": 150, "y": 200}


def test_default_spreading_rejects_none_and_yields_to_own_constraints():
    table = NamedFleet(TWO_ZONES, "kubernetes").run("x", *[small("a")] * 9)
    assert table.fits(small("a", siblings=of(app="a"))) == "x x2 y"
    own = small("a", siblings=of(app="a"), spread=(Spread(ZONE, 99, of(app="a")),))
    assert table.scores(own, "PodTopologySpread") == {}


def test_guests_without_siblings_have_no_default_spreading():
    assert NamedFleet(TWO_ZONES, "kubernetes").scores(small("a"), "PodTopologySpread") == {}
    assert NamedFleet(TWO_ZONES, "spread").scores(small("a", siblings=of(app="a")), "even_spread") == {}


def test_hosts_without_a_zone_spread_by_host_as_one_more_domain():
    """Three hosts, ln 5 = 1.609; zones 1, 2 and none, ln 5 again (podtopologyspread/scoring.go, initPreScoreState).

    x: 5 * 1.609 + 2 + 5 * 1.609 + 4 = 22.09, y: 2 + 4 = 6, bare: 2.
    """
    fleet = TWO_ZONES | {"x2": {"labels": {HOSTNAME: "x2"}}}
    table = NamedFleet(fleet, "kubernetes").run("x", *[small("a")] * 5)
    assert table.scores(small("a", siblings=of(app="a")), "PodTopologySpread", raw=True) == {"x": 22, "y": 6, "x2": 2}


def test_policy_may_spread_siblings_by_default_as_a_filter():
    table = NamedFleet({"x": zone("1"), "y": zone("2")}, OWNERS_APART).run("x", small("a"))
    assert table.fits(small("a", siblings=of(app="a"))) == "y"
    assert table.fits(small("a")) == "x y"


# -- preferences ------------------------------------------------------------------------------------------------------


def test_preferred_guests_count_by_weight_and_are_scaled():
    """x: 2 * 10 = 20, y: -5, z: 0; then 100 * (s + 5) / 25."""
    table = NamedFleet(THREE_ZONES, ONLY_NEAR).run("x", small("a"), small("a")).run("y", small("b"))
    wanted = small(
        preferred_affinity=(WeightedGuestTerm(10, GuestTerm(ZONE, of(app="a"))),),
        preferred_anti_affinity=(WeightedGuestTerm(5, GuestTerm(ZONE, of(app="b"))),),
    )
    assert table.scores(wanted, "near_guests", raw=True) == {"x": 20, "y": -5, "z": 0}
    assert table.scores(wanted, "near_guests") == {"x": 100, "y": 0, "z": 20}


def test_preferences_of_placed_guests_count_too():
    """x: required by two, 2 * 1; y: wanted with 7; z: unwanted with 3; then 100 * (s + 3) / 10."""
    near_a = GuestTerm(ZONE, of(app="a"))
    table = NamedFleet(THREE_ZONES, ONLY_NEAR)
    table.run("x", small("b", affinity=(near_a,)), small("b", affinity=(near_a,)))
    table.run("y", small("b", preferred_affinity=(WeightedGuestTerm(7, near_a),)))
    table.run("z", small("b", preferred_anti_affinity=(WeightedGuestTerm(3, near_a),)))
    assert table.scores(small("a"), "near_guests", raw=True) == {"x": 2, "y": 7, "z": -3}
    assert table.scores(small("a"), "near_guests") == {"x": 50, "y": 100, "z": 0}
    assert table.scores(small("c"), "near_guests") == {}


def test_preferences_meet_hosts_without_the_label_nowhere():
    table = NamedFleet({"x": zone("1"), "bare": {}}, ONLY_NEAR).run("bare", small("a"))
    wanted = small(preferred_affinity=(WeightedGuestTerm(10, GuestTerm(ZONE, of(app="a"))),))
    assert table.scores(wanted, "near_guests") == {}
    assert table.run("x", small("a")).scores(wanted, "near_guests") == {"x": 100, "bare": 0}


def test_preferences_refuse_nobody_and_equal_ones_cancel_out():
    table = NamedFleet({"x": zone("1"), "y": zone("2")}, ONLY_NEAR).run("x", small("a")).run("y", small("a"))
    wanted = small(preferred_anti_affinity=(WeightedGuestTerm(10, GuestTerm(ZONE, of(app="a"))),))
    assert table.scores(wanted, "near_guests") == {"x": 0, "y": 0}


# -- images -----------------------------------------------------------------------------------------------------------


def images(**sizes: int) -> dict[str, Any]:
    return {"images": tuple((name, size * MIB) for name, size in sizes.items())}


@pytest.mark.parametrize(
    ("having", "wanted", "score"),
    [
        (4, ("app",), 100),  # 1000 MiB everywhere, which is the most
        (2, ("app",), 48),  # 1000 * 2/4 = 500: 100 * (500 - 23) / (1000 - 23) = 48.8
        (1, ("app",), 23),  # 250: 100 * 227 / 977 = 23.2
        (4, ("app", "none"), 49),  # two containers, up to 2000: 100 * 977 / 1977 = 49.4
        (2, ("app", "app"), 49),  # each container counts its image: 2 * 500
        (4, ("none",), 0),
    ],
)
def test_images_count_by_size_and_share_of_hosts(having, wanted, score):
    fleet = {name: images(app=1000) if at < having else {} for at, name in enumerate("abcd")}
    table = NamedFleet(fleet, ONLY_IMAGES)
    scores = table.scores(small(images=wanted), "image_locality")
    assert scores == {name: score if at < having else 0 for at, name in enumerate("abcd")}


@pytest.mark.parametrize(("size", "score"), [(23, 0), (32, 0), (33, 1), (999, 99), (1000, 100), (5000, 100)])
def test_images_below_23_mib_count_nothing_and_beyond_1000_no_more(size, score):
    table = NamedFleet({"a": images(app=size)}, ONLY_IMAGES)
    assert table.scores(small(images=("app",)), "image_locality") == {"a": score}


def test_the_share_of_an_image_follows_hosts_that_come_and_go():
    table = NamedFleet({"a": images(app=1000), "b": {}}, ONLY_IMAGES)
    assert table.scores(small(images=("app",)), "image_locality") == {"a": 48, "b": 0}
    table.apply(HostJoined(host=host("c", **images(app=1000))))
    assert table.scores(small(images=("app",)), "image_locality") == {"a": 65, "b": 0, "c": 65}  # 100 * 643 / 977


# -- one guest per host -----------------------------------------------------------------------------------------------


def test_with_one_guest_per_host_the_first_keeps_the_host():
    alone = policy("spread", one_guest_per_host=True)
    table = NamedFleet({"x": {}, "y": {}}, alone).run("x", small())
    assert table.fits(small()) == "y"
    assert table.run("y", small()).fits(small()) == ""
    assert table.why(small()) == dict.fromkeys("xy", Reason("resources", "insufficient", "guests"))


# -- racks and servers, for VMs ---------------------------------------------------------------------------------------

SERVERS = {
    f"s{rack}{at}": {"cpu": 16_000, "labels": {RACK: f"r{rack}", HOSTNAME: f"s{rack}{at}"}}
    for rack in (1, 2, 3)
    for at in (1, 2)
}


def test_replicas_of_a_database_vm_fill_different_racks():
    replica = spec(cpu=4000, labels=labels({"db": "orders"}), anti_affinity=(GuestTerm(RACK, of(db="orders")),))
    table = NamedFleet(SERVERS, "pack")
    taken = []
    for number in range(4):
        table.apply(GuestArrived(guest=guest(f"orders-{number}", replica)))
        table.follow(table.engine.step(0))
        taken.append(table.place_of(f"orders-{number}"))
    assert taken == ["s11", "s21", "s31", ""]


def test_a_vm_stays_in_the_rack_of_its_storage_vm_but_on_another_server():
    storage = spec(cpu=4000, labels=labels({"role": "storage"}))
    table = NamedFleet(SERVERS, "pack").run("s21", storage)
    wanted = spec(
        affinity=(GuestTerm(RACK, of(role="storage")),),
        anti_affinity=(GuestTerm(HOSTNAME, of(role="storage")),),
    )
    assert table.fits(wanted) == "s22"


def test_vms_of_a_service_spread_over_racks_and_softly_over_servers():
    web = spec(
        cpu=1000,
        labels=labels({"role": "web"}),
        spread=(Spread(RACK, 1, of(role="web")), Spread(HOSTNAME, 1, of(role="web"), False)),
    )
    table = NamedFleet(SERVERS, ONLY_SPREAD)
    for number in range(9):
        table.apply(GuestArrived(guest=guest(f"web-{number}", web)))
        table.follow(table.engine.step(0))
    held = {name: len(guests) for name, guests in table.twin.held.items()}
    assert [held["s11"] + held["s12"], held["s21"] + held["s22"], held["s31"] + held["s32"]] == [3, 3, 3]
    assert set(held.values()) == {1, 2}


# -- numbers that no front could send ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        {"preferred_affinity": (WeightedGuestTerm(2**70, GuestTerm(ZONE, of(app="a"))),)},
        {"preferred_anti_affinity": (WeightedGuestTerm(2**62, GuestTerm(ZONE, of(app="a"))),)},
        {"spread": (Spread(ZONE, 2**70, of(app="a")),)},
        {"spread": (Spread(ZONE, 1, of(app="a"), True, 2**70),)},
    ],
)
def test_numbers_beyond_all_bounds_are_refused_when_the_guest_arrives(said):
    table = NamedFleet(THREE_ZONES)
    with pytest.raises(FactError):
        table.apply(GuestArrived(guest=guest("new", small("a", **said))))
