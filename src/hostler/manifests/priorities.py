"""Priorities of pods and groups: given as a number, or by the name of a PriorityClass.

As the admission of Kubernetes does it: a class gives its value, and whether its pods may preempt; who
names no class gets the default one, if there is one. Used by ``pods``, ``gangs`` and ``surroundings``.
"""

from __future__ import annotations

from hostler.errors import InputError
from hostler.manifests.objects import Pod
from hostler.manifests.places import child
from hostler.manifests.policy_objects import PriorityClass

__all__ = ["UNKNOWN_CLASS", "PriorityClasses", "check_priority", "may_preempt", "seed_priority"]

UNKNOWN_CLASS = "is not evaluated: give the PriorityClass, or spec.priority"
SEED_PRIORITY = "priority"  # an annotation of the first scheduler, from which this project grew

# The two classes that every cluster has; others are objects of their own.
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_LIMIT = 2**31  # Kubernetes' int32
_NEVER, _LOWER = "Never", "PreemptLowerPriority"


class PriorityClasses:
    """The classes that are known by name, and the default one."""

    def __init__(self) -> None:
        self._values = dict(_BUILT_IN)
        self._never: set[str] = set()
        self._defaults: dict[str, int] = {}

    def add(self, item: PriorityClass) -> None:
        """Take a class in, in place of one of that name; a wrong one leaves the old one."""
        name, value = item.metadata.name, check_priority(item.value, "value")
        is_never = not may_preempt(item.preemption_policy, "preemptionPolicy")
        self.remove(name)
        self._values[name] = value
        if is_never:
            self._never.add(name)
        if item.global_default:
            self._defaults[name] = item.value

    def remove(self, name: str) -> None:
        """Forget a class; those that every cluster has get back what they are."""
        self._values.pop(name, None)
        self._never.discard(name)
        self._defaults.pop(name, None)
        if name in _BUILT_IN:
            self._values[name] = _BUILT_IN[name]

    def class_of(self, name: str) -> str:
        """Return the class that counts for who names this one: itself, or the default where none is named."""
        # Of several defaults the lowest counts, as in Kubernetes.
        return name or min(self._defaults, key=lambda known: (self._defaults[known], known), default="")

    def value(self, name: str) -> int | None:
        """Return the priority of a class; None when nobody declared it."""
        return self._values.get(name)

    def is_never_preempting(self, name: str) -> bool:
        """Say whether pods of this class are placed without preemption."""
        return name in self._never


def check_priority(priority: int, path: str) -> int:
    """Refuse a priority that Kubernetes' 32 bits cannot hold."""
    if not -_LIMIT <= priority < _LIMIT:
        raise InputError(f"{path}: {priority} is not between -2^31 and 2^31 - 1")
    return priority


def may_preempt(policy: str, path: str) -> bool:
    """Read a preemption policy."""
    if policy not in ("", _NEVER, _LOWER):
        raise InputError(f"{path}: {policy!r} is not a policy", hint=f"policies: {_LOWER}, {_NEVER}")
    return policy != _NEVER


def seed_priority(pod: Pod) -> int | None:
    """Read the priority from the first scheduler's annotation; None when it is not there."""
    text = pod.metadata.annotations.get(SEED_PRIORITY)
    if text is None:
        return None
    path = child("metadata.annotations", SEED_PRIORITY)
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10):
        raise InputError(f"{path}: {text!r} is not a whole number", hint='such as "100"')
    return check_priority(int(text), path)
