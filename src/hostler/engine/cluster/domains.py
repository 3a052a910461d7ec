"""Domains: host rows grouped by the value of a topology label, and masks of hosts that are eligible to count.

A topology is a label key with a number for each value that a present host has; numbers of unused values are reused.
Topology 0 is the row itself. A mask is a set of eligible hosts, described by the rule that makes them eligible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from hostler.engine.cluster.marks import Marks
from hostler.engine.kernels.layout import Bools, Int8s, Int32s, Int64s
from hostler.model import Expression, Host, Labels, Term, Toleration
from hostler.model.selectors import untolerated_taints

__all__ = ["ROW", "Domains", "Eligibility"]

ROW = ""  # the topology in which every host is a domain of its own, whatever its labels


class Eligibility(NamedTuple):
    """The rule for eligible hosts: labels that must exist, the guest's own host constraints, and tolerated taints."""

    keys: tuple[str, ...] = ()
    selector: Labels = ()
    terms: tuple[Term, ...] = ()
    tolerations: tuple[Toleration, ...] | None = None  # None: taints do not matter

    def matches(self, marks: Marks, rows: Int64s) -> Bools:
        """Say which rows are eligible."""
        result: Bools = np.ones(len(rows), dtype=np.bool_)
        for key in self.keys:
            result &= marks.matches(Expression(key, "Exists"), rows)
        for key, value in self.selector:
            result &= marks.matches(Expression(key, "In", (value,)), rows)
        if self.terms:
            any_term: Bools = np.zeros(len(rows), dtype=np.bool_)
            for term in self.terms:
                any_term |= marks.matches_term(term, rows)
            result &= any_term
        if self.tolerations is not None:
            is_open = [not untolerated_taints(self.tolerations, taints) for taints in marks.taint_lists.values]
            result &= np.array(is_open, dtype=np.bool_)[marks.taints[rows]]
        return result


class _Values:
    """The values of one topology label, with how many hosts have each."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.users: list[int] = []
        self.free: list[int] = []

    def enter(self, value: str) -> int:
        number = self.number.get(value)
        if number is None:
            number = self.free.pop() if self.free else len(self.users)
            self.number[value] = number
            if number == len(self.users):
                self.users.append(0)
        self.users[number] += 1
        return number

    def leave(self, value: str) -> None:
        number = self.number[value]
        self.users[number] -= 1
        if not self.users[number]:
            del self.number[value]
            self.free.append(number)

    def copy(self) -> _Values:
        twin = _Values()
        twin.number, twin.users, twin.free = self.number.copy(), self.users.copy(), self.free.copy()
        return twin


class Domains:
    """Topologies and masks as columns over host rows."""

    def __init__(self, rows: int) -> None:
        self._keys: dict[str, int] = {ROW: 0}
        self._values: list[_Values] = [_Values()]
        self._masks: dict[Eligibility, int] = {}
        self.topology: Int32s = np.full((1, rows), -1, dtype=np.int32)
        self.topology[0] = np.arange(rows)
        self.mask: Int8s = np.zeros((1, rows), dtype=np.int8)

    def fit(self, rows: int) -> None:
        """Make room for so many rows."""
        held = self.topology.shape[1]
        if rows <= held:
            return
        grown = np.full((len(self.topology), rows), -1, dtype=np.int32)
        grown[:, :held] = self.topology
        grown[0] = np.arange(rows)
        self.topology = grown
        masks = np.zeros((len(self.mask), rows), dtype=np.int8)
        masks[:, :held] = self.mask
        self.mask = masks

    @property
    def width(self) -> int:
        """Return how many domain numbers the widest topology needs."""
        return max(int(self.topology.shape[1]), *(len(values.users) for values in self._values))

    def topology_of(self, key: str, hosts: list[Host | None]) -> int:
        """Return the number of a topology; a new one is built from the hosts' labels."""
        known = self._keys.get(key)
        if known is not None:
            return known
        number = self._keys[key] = _first_free(self._keys.values())
        if number == len(self._values):
            self._values.append(_Values())
            self.topology = np.vstack((self.topology, np.full((1, self.topology.shape[1]), -1, dtype=np.int32)))
        for row, host in enumerate(hosts):
            if host is not None:
                self._enter(number, key, row, host.labels)
        return number

    def mask_of(self, eligibility: Eligibility, marks: Marks, rows: Int64s) -> int:
        """Return the number of a mask; a new one is built from the hosts' marks."""
        known = self._masks.get(eligibility)
        if known is not None:
            return known
        number = self._masks[eligibility] = _first_free(self._masks.values())
        if number >= len(self.mask):
            self.mask = np.vstack((self.mask, np.zeros_like(self.mask)))
        self.mask[number] = 0
        self.mask[number, rows] = eligibility.matches(marks, rows)
        return number

    def drop_topology(self, key: str) -> None:
        """Delete an unused topology; its number will be reused."""
        number = self._keys.pop(key)
        self._values[number] = _Values()
        self.topology[number] = -1

    def drop_mask(self, eligibility: Eligibility) -> None:
        """Delete an unused mask; its number will be reused."""
        self.mask[self._masks.pop(eligibility)] = 0

    def leave(self, row: int, host: Host) -> None:
        """Remove a host from its domains."""
        labels = dict(host.labels)
        for key, number in self._keys.items():
            if key != ROW and key in labels:
                self._values[number].leave(labels[key])
                self.topology[number, row] = -1
        self.mask[:, row] = 0

    def enter(self, row: int, host: Host, marks: Marks) -> None:
        """Add a host to the domains of its labels."""
        for key, number in self._keys.items():
            if key != ROW:
                self._enter(number, key, row, host.labels)
        for eligibility, number in self._masks.items():
            self.mask[number, row] = eligibility.matches(marks, np.array([row], dtype=np.int64))[0]

    def copy(self) -> Domains:
        """Return an independent copy."""
        twin = Domains.__new__(Domains)
        twin._keys = self._keys.copy()
        twin._values = [values.copy() for values in self._values]
        twin._masks = self._masks.copy()
        twin.topology = self.topology.copy()
        twin.mask = self.mask.copy()
        return twin

    def _enter(self, number: int, key: str, row: int, labels: Labels) -> None:
        for name, value in labels:
            if name == key:
                self.topology[number, row] = self._values[number].enter(value)


def _first_free(taken: Iterable[int]) -> int:
    numbers = set(taken)
    return next(number for number in range(len(numbers) + 1) if number not in numbers)
