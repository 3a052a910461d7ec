"""Namespaces and disruption budgets: told when they change. Used by ``world``."""

from __future__ import annotations

import msgspec

from hostler.errors import InputError
from hostler.kube.api.client import Broken
from hostler.kube.facts.problems import CONVERSION_ERRORS, Problems, text_of
from hostler.manifests.budgets import read_budget
from hostler.manifests.places import check_keys, check_name, object_place
from hostler.manifests.policy_objects import Namespace, PodDisruptionBudget
from hostler.model import Budget, BudgetChanged, BudgetLeft, Event, Labels, NamespaceChanged, labels

__all__ = ["BudgetBook", "NamespaceBook"]

_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the API server gives every namespace this label


class NamespaceBook:
    """The labels of namespaces."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self.told: dict[str, Labels] = {}

    def take(self, name: str, new: Namespace | Broken | None, now: int) -> list[Event]:
        """Take a namespace in, or forget it; one that does not decode keeps its labels."""
        problem = new.error if isinstance(new, Broken) else ""
        self._problems.note(object_place("Namespace", "", name), text_of(InputError(problem)) if problem else "")
        if isinstance(new, Broken):
            return []
        found = () if new is None else labels({**new.metadata.labels, _NAMESPACE_NAME: name})
        if found == self.told.get(name, ()):
            return []
        if new is None:
            del self.told[name]
        else:
            self.told[name] = found
        return [NamespaceChanged(name=name, labels=found, at=now)]


class BudgetBook:
    """Disruption budgets."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self.told: dict[str, Budget] = {}

    def take(self, key: tuple[str, str], new: PodDisruptionBudget | Broken | None, now: int) -> list[Event]:
        """Take a budget in, or forget it; one that makes no sense stays as it was, so that nobody is evicted by it."""
        place = object_place("PodDisruptionBudget", *key)
        try:
            budget = _read(new, place)
        except CONVERSION_ERRORS as error:
            self._problems.note(place, text_of(error))
            return []
        self._problems.note(place, "")
        named = "/".join(key)
        if budget is None:
            return [BudgetLeft(key=named, at=now)] if self.told.pop(named, None) is not None else []
        if budget == self.told.get(named):
            return []
        self.told[named] = budget
        return [BudgetChanged(budget=budget, at=now)]


def _read(new: PodDisruptionBudget | Broken | None, place: str) -> Budget | None:
    if new is None:
        return None
    if isinstance(new, Broken):
        raise InputError(new.error)
    check_name(new.metadata.name, "metadata.name")
    check_keys(new.metadata.labels, "metadata.labels")
    budget, _ = read_budget(new, place)
    return msgspec.structs.replace(budget, version=0)
