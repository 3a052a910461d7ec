"""PodDisruptionBudgets become budgets."""

import pytest

from hostler.errors import InputError
from hostler.manifests import read_manifests
from hostler.model import Budget, Expression, Selector
from tests.manifests.samples import lines, thing

WEB = Selector((Expression("app", "In", ("web",)),))


def budget(name="b", *, status=None, **spec):
    fields = {"spec": spec, **({"status": status} if status is not None else {})}
    return thing("PodDisruptionBudget", name, version="policy/v1", namespace="shop", **fields)


def read(data):
    found = read_manifests([data])
    (one,) = found.budgets
    return one, lines(found.notes)


SELECT_WEB = {"selector": {"matchLabels": {"app": "web"}}}


def test_a_budget_has_what_the_cluster_worked_out():
    data = budget(
        minAvailable="50%",
        status={"disruptionsAllowed": 2, "disruptedPods": {"b": "2026-01-01T00:00:00Z", "a": None}},
        **SELECT_WEB,
    )
    assert read(data) == (Budget(name="b", namespace="shop", selector=WEB, allowed=2, disrupted=("a", "b")), [])


@pytest.mark.parametrize("status", [None, {}, {"disruptionsAllowed": None}], ids=["none", "empty", "null"])
def test_without_a_status_nothing_may_be_disrupted(status):
    found, notes = read(budget(status=status, maxUnavailable=1, **SELECT_WEB))
    assert found.allowed == 0
    assert notes == [
        "PodDisruptionBudget shop/b: status.disruptionsAllowed is missing: no disruption is allowed",
    ]


def test_a_budget_without_a_selector_is_about_nobody():
    assert read(budget(status={"disruptionsAllowed": 0}))[0].selector is None


def test_an_empty_selector_is_about_nobody_as_preemption_sees_it():
    found, notes = read(budget(selector={}, status={"disruptionsAllowed": 1}))
    assert found.selector is None
    assert notes == ["PodDisruptionBudget shop/b: spec.selector is empty: preemption takes it for no pod at all"]


BROKEN = {
    "a negative number": (
        budget(status={"disruptionsAllowed": -1}),
        "status.disruptionsAllowed: -1 is not between 0 and 2^31 - 1",
    ),
    "a number that is text": (
        budget(status={"disruptionsAllowed": "all"}),
        "status.disruptionsAllowed: expected int | null, got str",
    ),
    "an unknown operator": (
        budget(selector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
        "spec.selector.matchExpressions[0].operator: 'Gt' is not an operator",
    ),
    "a selector that is text": (budget(selector="app=web"), "spec.selector: expected object | null, got str"),
    "a list of pods": (
        budget(status={"disruptedPods": ["a"]}),
        "status.disruptedPods: expected object, got array",
    ),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_malformed_budget_is_refused_with_name_and_path(data, message):
    with pytest.raises(InputError) as caught:
        read_manifests([data])
    assert caught.value.message == f"PodDisruptionBudget shop/b: {message}"
