"""Priorities of pods and groups, as numbers or as names of PriorityClasses.

The rules are those of Kubernetes' admission: a class gives its value and whether its pods may preempt; a pod without a
class gets the default class, if there is one. Used by ``guests``, ``gangs`` and ``surroundings``.
"""

from __future__ import annotations

from hostler.errors import InputError
from hostler.manifests.objects.core import Pod
from hostler.manifests.objects.policies import PriorityClass
from hostler.manifests.places import child

__all__ = ["UNKNOWN_CLASS", "PriorityClasses", "check_priority", "may_preempt", "seed_priority"]

UNKNOWN_CLASS = "is not evaluated: give the PriorityClass, or spec.priority"
SEED_PRIORITY = "priority"  # an annotation of the first scheduler, from which this project grew

# The two classes that every cluster has; others are objects of their own.
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_LIMIT = 2**31  # Kubernetes' int32
_NEVER, _LOWER = "Never", "PreemptLowerPriority"


class PriorityClasses:
    """The known classes by name, and the default class."""

    def __init__(self) -> None:
        self._values = dict(_BUILT_IN)
        self._never: set[str] = set()
        self._defaults: dict[str, int] = {}

    def add(self, item: PriorityClass) -> None:
        """Add a class or replace the one of that name; an invalid class changes nothing."""
        name, value = item.metadata.name, check_priority(item.value, "value")
        is_never = not may_preempt(item.preemption_policy, "preemptionPolicy")
        self.remove(name)
        self._values[name] = value
        if is_never:
            self._never.add(name)
        if item.global_default:
            self._defaults[name] = item.value

    def remove(self, name: str) -> None:
        """Remove a class; classes that every cluster has are reset instead."""
        self._values.pop(name, None)
        self._never.discard(name)
        self._defaults.pop(name, None)
        if name in _BUILT_IN:
            self._values[name] = _BUILT_IN[name]

    def class_of(self, name: str) -> str:
        """Return the class of a name; without a name the default class."""
        # Of several defaults the lowest counts, as in Kubernetes.
        return name or min(self._defaults, key=lambda known: (self._defaults[known], known), default="")

    def value(self, name: str) -> int | None:
        """Return the priority of a class; None if it is unknown."""
        return self._values.get(name)

    def is_never_preempting(self, name: str) -> bool:
        """Say whether pods of this class never preempt."""
        return name in self._never


def check_priority(priority: int, path: str) -> int:
    """Reject a priority outside Kubernetes' 32 bits."""
    if not -_LIMIT <= priority < _LIMIT:
        raise InputError(f"{path}: {priority} is not between -2^31 and 2^31 - 1")
    return priority


def may_preempt(policy: str, path: str) -> bool:
    """Read a preemption policy."""
    if policy not in ("", _NEVER, _LOWER):
        raise InputError(f"{path}: {policy!r} is not a policy", hint=f"policies: {_LOWER}, {_NEVER}")
    return policy != _NEVER


def seed_priority(pod: Pod) -> int | None:
    """Read the priority from the first scheduler's annotation; None if absent."""
    text = pod.metadata.annotations.get(SEED_PRIORITY)
    if text is None:
        return None
    path = child("metadata.annotations", SEED_PRIORITY)
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10):
        raise InputError(f"{path}: {text!r} is not a whole number", hint='such as "100"')
    return check_priority(int(text), path)
