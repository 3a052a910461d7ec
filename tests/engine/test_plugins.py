"""Plugins of third parties in plain Python: they work, they are checked, and they decide like what they imitate."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import pytest

from hostler.engine import ClusterView, Engine, Registry, Wake
from hostler.errors import DuplicateNameError, InputError, PluginError, UnknownNameError
from hostler.model import (
    DeviceRequest,
    Expression,
    GuestArrived,
    GuestLeft,
    GuestSpec,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    PluginUse,
    Policy,
    ScorerUse,
    Term,
    WeightedTerm,
    amounts,
)
from hostler.model.policies import DEFAULT_FILTERS
from hostler.model.reasons import ReasonKind
from tests.engine.fleet import (
    GIB,
    SECOND,
    arrive,
    binds,
    declared,
    engine_with,
    guest,
    host,
    place,
    policy,
    reasons,
    spec,
)

FILTERS = tuple(PluginUse(name) for name in DEFAULT_FILTERS)


class CoolRacks:
    """A scorer of one's own: racks by a number on a label, the coolest first."""

    name = "cool_racks"
    normalizer = "none"

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._view = view
        self._label = str(args.get("label", "heat"))

    def evaluate(self, spec: GuestSpec, rows: np.ndarray) -> np.ndarray:
        return np.array([-int(value or 0) for value in self._view.labels(self._label, rows)], dtype=np.int64)


class QuietHours:
    """A filter of one's own: hosts with three guests are busy, hosts named after night sleep."""

    name = "quiet_hours"
    reasons = declared("quiet_hours", "busy", "asleep", cures=frozenset({Wake.ROOM_FREED, Wake.HOST_JOINED}))

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._view = view

    def evaluate(self, spec: GuestSpec, rows: np.ndarray) -> np.ndarray:
        busy = self._view.used("guests", rows) >= 3
        asleep = np.array([self._view.host(row).name.startswith("night") for row in rows])
        return np.where(busy, 1, np.where(asleep, 2, 0))


EXTRA = {"cool_racks": CoolRacks, "quiet_hours": QuietHours}


def with_plugins(hosts: list[Host], *, scorers=(), filters=FILTERS, extra=EXTRA, **fields) -> Engine:
    chosen = Policy(name="own", scorers=tuple(scorers), filters=tuple(filters), **fields)
    return engine_with(hosts, chosen, registry=Registry(extra=extra))


# -- they work --------------------------------------------------------------------------------------------------------


def test_a_scorer_of_a_third_party_decides():
    hosts = [host("a", labels={"heat": "9"}), host("b", labels={"heat": "2"}), host("c", labels={"heat": "5"})]
    engine = with_plugins(hosts, scorers=[ScorerUse("cool_racks")])
    assert place(engine, guest("g")) == ["b"]
    assert engine.decision("g").total == -2


def test_a_scorer_of_a_third_party_has_arguments_and_a_weight():
    hosts = [host("a", labels={"cold": "9"}), host("b", labels={"cold": "2"})]
    engine = with_plugins(hosts, scorers=[ScorerUse("cool_racks", -3, '{"label": "cold"}')])
    assert place(engine, guest("g")) == ["a"]
    assert engine.decision("g").total == 27


def test_a_scorer_of_a_third_party_adds_to_built_in_ones():
    hosts = [host("a", 4000, labels={"heat": "0"}), host("b", 8000, labels={"heat": "0"})]
    engine = with_plugins(hosts, scorers=[ScorerUse("least_allocated"), ScorerUse("cool_racks", 100)])
    assert place(engine, guest("g")) == ["b"]
    engine.apply(HostChanged(host=host("b", 8000, labels={"heat": "7"})))
    assert place(engine, guest("h")) == ["a"]


def test_third_party_filter_has_its_own_reasons_and_cures():
    engine = with_plugins([host("day"), host("night1")], filters=(*FILTERS, PluginUse("quiet_hours")))
    tiny = [guest(f"g{i}", cpu=1, memory=1) for i in range(4)]
    assert place(engine, *tiny, now=0) == ["day", "day", "day", ""]
    assert reasons(engine.decision("g3")) == {"quiet_hours: busy": 1, "quiet_hours: asleep": 1}
    engine.apply(HostChanged(host=host("night1", labels={"x": "y"})))
    assert engine.step(60 * SECOND) == []
    engine.apply(GuestLeft(uid="g0"))
    assert binds(engine.step(120 * SECOND)) == {"g3": "day"}


def test_a_filter_of_a_third_party_sees_each_placement_of_a_run():
    engine = with_plugins([host("a"), host("b")], filters=(*FILTERS, PluginUse("quiet_hours")), ties=("name",))
    arrive(engine, *(guest(f"g{i}", cpu=1, memory=1) for i in range(7)))
    assert [getattr(a, "host", "") for a in engine.step(0)] == ["a"] * 3 + ["b"] * 3 + [""]


def test_plugins_go_with_a_fork_and_a_restore():
    hosts = [host("a", labels={"heat": "9"}), host("b", labels={"heat": "2"})]
    engine = with_plugins(hosts, scorers=[ScorerUse("cool_racks")])
    restored = Engine.restore(engine.checkpoint(), Registry(extra=EXTRA))
    assert place(engine.fork(), guest("g")) == place(restored, guest("g")) == ["b"]


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (("busy",), "no list of reasons"),
        (declared("other", "busy"), "for 'other'"),
        (
            (ReasonKind(plugin="own", code="busy", meaning="No.", is_resolvable=True, cures=frozenset()),),
            "as one that an eviction resolves",
        ),
        (
            (ReasonKind(plugin="own", code="busy", meaning="No.", is_resolvable=False, cures="all"),),
            "without cures",
        ),
        (declared("own", "x\udcff"), "no text"),
        (declared("own", *map(str, range(1001))), "more than 1000"),
    ],
    ids=["strings", "plugin", "resolvable", "cures", "unicode", "many"],
)
def test_filter_with_wrong_declarations_is_rejected(reasons, words):
    class Own(QuietHours):
        name = "own"

    Own.reasons = reasons
    with pytest.raises(PluginError, match=words):
        with_plugins([host("a")], filters=(PluginUse("own"),), extra={"own": Own})


def test_an_explanation_shows_a_third_party_s_scores_and_reasons():
    hosts = [host("a", labels={"heat": "9"}), host("night")]
    engine = with_plugins(hosts, scorers=[ScorerUse("cool_racks", 2)], filters=(PluginUse("quiet_hours"), *FILTERS))
    arrive(engine, guest("g"))
    by_host = {v.host: v for v in engine.explain("g").verdicts}
    assert [(s.plugin, s.raw, s.weighted) for s in by_host["a"].scores] == [("cool_racks", -9, -18)]
    assert [f.reason.text() for f in by_host["night"].failures] == ["asleep"]


def test_the_view_shows_limits_uses_and_guests():
    seen: list = []

    class Looker(CoolRacks):
        def evaluate(self, spec: GuestSpec, rows: np.ndarray) -> np.ndarray:
            view = self._view
            names = [view.host(row).name for row in rows]
            seen.append(
                {
                    name: (limit, used, free, sorted(view.guests(row)))
                    for name, limit, used, free, row in zip(
                        names, view.limit("cpu", rows).tolist(), view.used("cpu", rows).tolist(),
                        view.free("cpu", rows).tolist(), rows.tolist(), strict=True,
                    )
                }
            )  # fmt: skip
            assert view.limit("nothing of the kind", rows).tolist() == [0] * len(rows)
            return rows * 0

    engine = with_plugins(
        [host("a", 4000), host("b", 2000)], scorers=[ScorerUse("looker")], extra={"looker": Looker},
        overcommit=(("cpu", 2_000_000),),
    )  # fmt: skip
    place(engine, guest("g", cpu=500))
    assert seen[0] == {"a": (8000, 0, 8000, []), "b": (4000, 0, 4000, [])}
    place(engine, guest("h", cpu=500))
    assert seen[-1]["a"] == (8000, 500, 7500, ["g"])


# -- they are checked -------------------------------------------------------------------------------------------------


def broken_scorer(answer) -> type:
    class Broken(CoolRacks):
        def evaluate(self, spec: GuestSpec, rows: np.ndarray):
            return answer(rows)

    return Broken


def broken_filter(answer) -> type:
    class Broken(QuietHours):
        def evaluate(self, spec: GuestSpec, rows: np.ndarray):
            return answer(rows)

    return Broken


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda rows: np.zeros(len(rows)), id="floats"),
        pytest.param(lambda rows: np.zeros(len(rows) + 1, dtype=np.int64), id="too many"),
        pytest.param(lambda rows: np.zeros((len(rows), 1), dtype=np.int64), id="two dimensions"),
        pytest.param(lambda rows: 7, id="one number"),
        pytest.param(lambda rows: None, id="nothing"),
        pytest.param(lambda rows: ["high"] * len(rows), id="words"),
        pytest.param(lambda rows: np.full(len(rows), 2**41), id="a score beyond 2^40"),
        pytest.param(lambda rows: np.full(len(rows), -(2**41)), id="a score below -2^40"),
        pytest.param(lambda rows: np.full(len(rows), 2**63, dtype=np.uint64), id="a score beyond 64 bits"),
    ],
)
def test_a_scorer_that_breaks_its_contract_is_named(answer):
    engine = with_plugins([host("a")], scorers=[ScorerUse("mine")], extra={"mine": broken_scorer(answer)})
    arrive(engine, guest("g"))
    with pytest.raises(PluginError, match="cool_racks"):
        engine.step(0)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda rows: np.full(len(rows), 3), id="a reason that it does not have"),
        pytest.param(lambda rows: np.full(len(rows), -1), id="a negative verdict"),
        pytest.param(lambda rows: np.zeros(len(rows)), id="floats"),
        pytest.param(lambda rows: np.zeros(0, dtype=np.int64), id="too few"),
    ],
)
def test_a_filter_that_breaks_its_contract_is_named(answer):
    filters = (*FILTERS, PluginUse("mine"))
    engine = with_plugins([host("a")], filters=filters, extra={"mine": broken_filter(answer)})
    arrive(engine, guest("g"))
    with pytest.raises(PluginError, match="quiet_hours"):
        engine.step(0)


def test_a_guest_whose_plugin_failed_is_not_lost():
    calls: list = []

    def moody(rows: np.ndarray):
        calls.append(rows)
        return None if len(calls) == 1 else rows * 0

    engine = with_plugins([host("a")], scorers=[ScorerUse("mine")], extra={"mine": broken_scorer(moody)})
    arrive(engine, guest("g"), guest("h"))
    with pytest.raises(PluginError):
        engine.step(0)
    assert {engine.decision(uid).state for uid in ("g", "h")} == {"active"}
    assert binds(engine.step(0)) == {"g": "a", "h": "a"}


@pytest.mark.parametrize(
    ("use", "nearest"),
    [
        pytest.param({"scorers": [ScorerUse("least_alocated")]}, "least_allocated", id="a built-in scorer"),
        pytest.param({"scorers": [ScorerUse("cool_rack")]}, "cool_racks", id="a third party's scorer"),
        pytest.param({"filters": [PluginUse("resource")]}, "resources", id="a kernel filter"),
        pytest.param({"filters": [PluginUse("quiet_hour")]}, "quiet_hours", id="a third party's filter"),
        pytest.param({"filters": [PluginUse("taint")]}, "taints", id="a built-in filter"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_name(use, nearest):
    with pytest.raises(UnknownNameError) as caught:
        with_plugins([], **use)
    assert repr(nearest) in caught.value.hint


def test_a_name_like_no_other_is_answered_with_all_names():
    with pytest.raises(UnknownNameError) as caught:
        with_plugins([], scorers=[ScorerUse("zzz")])
    assert "least_allocated" in caught.value.hint
    assert "cool_racks" in caught.value.hint


def test_a_plugin_may_not_take_the_name_of_a_built_in_one():
    with pytest.raises(DuplicateNameError):
        Registry(extra={"balanced": CoolRacks})


def test_a_filter_is_no_scorer_and_a_scorer_no_filter():
    with pytest.raises(InputError):
        with_plugins([], filters=[PluginUse("cool_racks")])

    class Nothing:
        def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
            pass

    with pytest.raises(InputError):
        with_plugins([], scorers=[ScorerUse("nothing")], extra={"nothing": Nothing})


@pytest.mark.parametrize(
    "args",
    [
        pytest.param("[1]", id="a list"),
        pytest.param("{", id="half an object"),
        pytest.param('{"resources": {}}', id="no resources"),
        pytest.param('{"resources": {"cpu": 0}}', id="weight of zero"),
        pytest.param('{"resources": {"cpu": 101}}', id="weight beyond 100"),
        pytest.param('{"resources": {"cpu": true}}', id="a truth value"),
        pytest.param('{"resource": {"cpu": 1}}', id="an unknown argument"),
        pytest.param('{"points": [[0, 11]]}', id="a point beyond 10"),
        pytest.param('{"points": [[50, 1], [50, 2]]}', id="points that do not ascend"),
        pytest.param('{"points": []}', id="no points"),
        pytest.param('{"points": [[0]]}', id="half a point"),
    ],
)
def test_arguments_that_cannot_be_are_refused(args):
    with pytest.raises(InputError):
        with_plugins([], scorers=[ScorerUse("capacity_ratio", 1, args)])


# -- they decide like what they imitate -------------------------------------------------------------------------------


class LikeLeastAllocated:
    name = "like_least_allocated"
    normalizer = "none"

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._view = view

    def evaluate(self, spec: GuestSpec, rows: np.ndarray) -> np.ndarray:
        wanted, view = dict(spec.requests), self._view
        scores = [
            (view.free(resource, rows) - wanted[resource]) * 100 // view.limit(resource, rows)
            for resource in ("cpu", "memory")
        ]
        return (scores[0] + scores[1]) // 2


class LikeResources:
    name = "like_resources"
    reasons = declared("like_resources", "insufficient")

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._view = view

    def evaluate(self, spec: GuestSpec, rows: np.ndarray) -> np.ndarray:
        short = np.zeros(len(rows), dtype=bool)
        for resource, amount in spec.requests:
            short |= self._view.free(resource, rows) < amount
        return short.astype(np.int64)


class LikePreferredHosts:
    name = "like_preferred_hosts"
    normalizer = "max"

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._view = view

    def evaluate(self, spec: GuestSpec, rows: np.ndarray) -> np.ndarray:
        hosts = [self._view.host(row) for row in rows.tolist()]
        return np.array(
            [sum(p.weight for p in spec.preferred_hosts if p.term.matches(h.name, h.labels)) for h in hosts],
            dtype=np.int64,
        )


WISH = (
    WeightedTerm(30, Term((Expression("zone", "In", ("x",)),))),
    WeightedTerm(7, Term((Expression("zone", "Exists"),))),
)
IMITATIONS = {c.name: c for c in (LikeLeastAllocated, LikeResources, LikePreferredHosts)}
OTHERS = tuple(use for use in FILTERS if use.name != "resources")
PAIRS = [
    pytest.param(
        {"scorers": [ScorerUse("least_allocated")]},
        {"scorers": [ScorerUse("like_least_allocated")]},
        id="least allocated",
    ),
    pytest.param(
        {"filters": FILTERS}, {"filters": (*OTHERS, PluginUse("like_resources"))}, id="resources"
    ),
    pytest.param(
        {"scorers": [ScorerUse("preferred_hosts", 3), ScorerUse("balanced")]},
        {"scorers": [ScorerUse("like_preferred_hosts", 3), ScorerUse("balanced")]}, id="preferred hosts",
    ),
    pytest.param(
        {"scorers": [ScorerUse("least_allocated"), ScorerUse("gpu_best_fit", 2)]},
        {"scorers": [ScorerUse("like_least_allocated"), ScorerUse("gpu_best_fit", 2)]}, id="beside a normalised scorer",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("original", "imitation"), PAIRS)
@pytest.mark.parametrize("seed", range(3))
def test_a_plugin_decides_exactly_like_the_built_in_that_it_imitates(original, imitation, seed):
    rng = Random(seed)
    engines = [
        with_plugins([], extra=IMITATIONS, ties=("fewer_guests", "name"), **fields) for fields in (original, imitation)
    ]

    def tell(event) -> None:
        for engine in engines:
            engine.apply(event)

    def machine(i: int) -> Host:
        return Host(
            name=f"h{i}", capacity=amounts({"cpu": rng.choice([4000, 8000]), "memory": rng.choice([4, 8]) * GIB}),
            labels=(("zone", rng.choice("xy")),), cordoned=rng.random() < 0.1,
        )  # fmt: skip

    for i in range(20):
        tell(HostJoined(host=machine(i)))
    for turn in range(60):
        shape = spec(cpu=rng.choice([500, 1000, 2500]), memory=rng.choice([1, 2]) * GIB, priority=rng.choice([0, 1]),
                     preferred_hosts=rng.choice([(), WISH]))  # fmt: skip
        tell(GuestArrived(guest=guest(f"g{turn}", shape)))
        if rng.random() < 0.3:
            tell(GuestLeft(uid=f"g{rng.randrange(turn + 1)}"))
        if rng.random() < 0.15:
            tell(HostLeft(name=f"h{rng.randrange(20)}"))
        if rng.random() < 0.15:
            tell(HostJoined(host=machine(rng.randrange(20))))
        if rng.random() < 0.6:
            now = engines[0].now + 2 * SECOND
            left, right = (engine.step(now) for engine in engines)
            assert binds(left) == binds(right)
            assert [(a.uid, type(a)) for a in left] == [(a.uid, type(a)) for a in right]


def test_a_policy_with_a_plugin_chooses_devices_like_any_other():
    machine = host("a", gpus=2)
    plain = engine_with([machine], policy("spread", devices="best"))
    own = with_plugins([machine], scorers=[ScorerUse("cool_racks")], devices="best")
    for engine in (plain, own):
        arrive(engine, guest("t", gpu=(1, 400), host="a", on_devices=(1,)))
        place(engine, guest("g", devices=(DeviceRequest("gpu", 1, 300),)))
        assert engine.decision("g").devices == (1,)
