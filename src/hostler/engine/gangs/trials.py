"""Trials: members of a gang placed inside a transaction, then kept or undone.

Larger members go first. Rejected members are retried as long as others are placed, because a member may need another
one nearby. If that does not reach the minimum, a bounded search follows. Trials that fail spend the share of the gang's
tenant, and pause when it is spent. A trial whose number is known (``capacity.py``) costs its share, but is not made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from hostler.engine.cache.cache import GangRights
from hostler.engine.cache.reasons import NamedCounts, split_counts
from hostler.engine.cache.totals import own_total
from hostler.engine.gangs.capacity import members_per_row
from hostler.engine.gangs.search import EXPANSIONS, search
from hostler.engine.kernels.layout import Bools, Int64s
from hostler.engine.policy.profiles import NO_POLICY
from hostler.engine.runs import KernelRuns
from hostler.engine.state.records import GuestRecord
from hostler.engine.state.search_shares import SearchPaused, SearchPosition, SearchShare
from hostler.engine.state.state import State
from hostler.engine.state.transaction import Transaction
from hostler.engine.verdicts.selection import answered_rows, best_row
from hostler.model import Gang, Reason

__all__ = ["PlacedMember", "RejectedMember", "Trial", "Trials"]

_MAX_DOMAINS = 64
_SEARCHED_DOMAINS = 8
_FEW_EXPANSIONS = 500
_MEMBERS_PER_UNIT = 8  # members that the kernel tries and takes back for the price of one placement of the search


class PlacedMember(NamedTuple):
    """A member with its host and devices."""

    record: GuestRecord
    policy: int
    row: int
    devices: tuple[int, ...]
    total: int | float
    feasible: int
    reasons: NamedCounts


class RejectedMember(NamedTuple):
    """A member without a host, with the reasons."""

    record: GuestRecord
    policy: int
    reasons: NamedCounts


class Trial(NamedTuple):
    """The placed and the rejected members."""

    placed: list[PlacedMember]
    refused: list[RejectedMember]
    domain: str = ""


class Trials:
    """Tries gangs on the real columns."""

    def __init__(self, state: State, runs: KernelRuns) -> None:
        self._state = state
        self._runs = runs
        self._heeds_answers = False

    @contextmanager
    def by_rights_of(self, gang: Gang, members: Sequence[GuestRecord]) -> Iterator[None]:
        """Let the members use room that is held for others, by their gang's priority and reservations."""
        state = self._state
        rights = {}
        if len(state.cluster.holds):
            for record in members:
                policy = state.profiles.find_number(record.guest.spec.policy)
                passes = state.passes(record.guest.spec, gang.key) if state.reservations else []
                rights[record.shape, policy] = GangRights(state.gangs.priority(gang.key), passes)
        state.cache.lend(rights)
        try:
            yield
        finally:
            state.cache.lend({})

    @contextmanager
    def by_answers(self) -> Iterator[None]:
        """Let answers from outside decide where members may go. They are not known for hosts that are not free yet."""
        self._heeds_answers = True
        try:
            yield
        finally:
            self._heeds_answers = False

    def hosts_to_ask(self, record: GuestRecord) -> Int64s:
        """Return the rows of the hosts about which a member's answer is needed.

        Other members may open more hosts for a member that needs them nearby. So it is asked about all hosts.
        """
        state = self._state
        shape, policy = state.shape(record), state.profiles.find_number(record.guest.spec.policy)
        if shape.spec.affinity or shape.spec.spread:
            is_asked = state.cluster.columns().present[: state.cluster.rows] == 1
        else:
            is_asked = state.cache.codes(state.cache.slot(shape, policy))[0] == 0
        rows: Int64s = np.flatnonzero(is_asked).astype(np.int64)
        return rows

    def best(
        self,
        gang: Gang,
        members: Sequence[GuestRecord],
        need: int,
        transaction: Transaction,
        share: SearchShare,
        position: SearchPosition,
    ) -> Trial:
        """Leave the best trial booked: enough members placed, or as many as possible.

        Continues from the position, and raises SearchPaused when the share is spent.
        """
        if not gang.topology:
            return self._anywhere(gang, members, need, transaction, share, position)
        masks = self._masks(gang)
        if position.domains is None:
            position.domains = self._domains(gang, members, need, masks)
        domains = [(name, masks[name]) for name in position.domains if name in masks]
        position.greedy = min(position.greedy, len(domains))
        takes = self._members_per_row(members)
        for name, among in domains[position.greedy :]:
            if share.is_spent and share.pauses:
                raise SearchPaused
            placed = _count(takes, among, len(members))
            if placed == len(members):
                trial = self._greedy(members, transaction, among, takes)
                placed = len(trial.placed)
                if placed == len(members):
                    return trial._replace(domain=name)
                transaction.undo()
            share.spend(1 + len(members) // _MEMBERS_PER_UNIT)
            position.greedy += 1
            if position.best is None or placed > position.best[0]:
                position.best = (placed, name)
        best = position.best
        for name, among in domains[position.searched : _SEARCHED_DOMAINS] if best and best[0] < need else ():
            # Where the number is known, no order of members reaches more.
            found = self._search(gang, members, need, transaction, among, share, position) if takes is None else None
            if found is not None:
                return found._replace(domain=name)
            position.end_domain()
            position.searched += 1
        chosen = masks.get(best[1]) if best is not None else None
        if best is None or chosen is None:
            everywhere = ((Reason("gang", "no_domain", gang.topology), len(self._state.cluster)),)
            return Trial([], [RejectedMember(record, NO_POLICY, everywhere) for record in members])
        return self._greedy(members, transaction, chosen, takes)._replace(domain=best[1])

    def _anywhere(
        self,
        gang: Gang,
        members: Sequence[GuestRecord],
        need: int,
        transaction: Transaction,
        share: SearchShare,
        position: SearchPosition,
    ) -> Trial:
        """Leave the best trial booked for a gang without a fixed domain."""
        takes = self._members_per_row(members)
        if not position.greedy:
            if _count(takes, None, len(members)) >= need:
                trial = self._greedy(members, transaction, None, takes)
                if len(trial.placed) >= need:
                    return trial
                transaction.undo()
            share.spend(1 + len(members) // _MEMBERS_PER_UNIT)
            position.greedy = 1
        found = self._search(gang, members, need, transaction, None, share, position) if takes is None else None
        return found or self._greedy(members, transaction, None, takes)

    def in_domain(self, gang: Gang, members: Sequence[GuestRecord], domain: str, transaction: Transaction) -> Trial:
        """Leave as many members booked as the greedy order places in a domain (None: anywhere)."""
        among = self._masks(gang).get(domain) if domain else None
        return self._greedy(members, transaction, among)._replace(domain=domain)

    def in_order(self, members: Sequence[GuestRecord]) -> list[GuestRecord]:
        """Return the members, the largest first, equal shapes together, then by age."""
        if len({record.shape for record in members}) == 1:
            return sorted(members, key=lambda record: record.arrival)
        limits = self._state.cluster.columns().limit[0].sum(axis=0, dtype=np.float64)
        shapes = self._state.shapes.shapes

        def size(record: GuestRecord) -> float:
            return max(amount / max(float(limits[resource]), 1.0) for resource, amount in shapes[record.shape].amounts)

        return sorted(members, key=lambda record: (-size(record), record.shape, record.arrival))

    def _masks(self, gang: Gang) -> dict[str, Bools]:
        """Return the hosts of each domain by name; if the gang already runs in a domain, only that one."""
        state = self._state
        column, values = state.cluster.marks.column(gang.topology)
        hosts = [state.guests[uid].host for uid in state.gangs.placed(gang.key)]
        rows = [row for host in hosts if (row := state.cluster.row_of.get(host)) is not None]
        numbers = {number for number in set(column[: state.cluster.rows].tolist()) if number >= 0}
        if rows:
            numbers &= {int(column[rows[0]])}
        return {values.values[number]: column == number for number in sorted(numbers)}

    def _domains(self, gang: Gang, members: Sequence[GuestRecord], need: int, masks: Mapping[str, Bools]) -> list[str]:
        """Return the domains that may have room for the gang, the tightest first."""
        columns = self._state.cluster.columns()
        least = self._least(members, need)
        wanted = [resource for resource in least if resource]
        free = (columns.limit[:, :, wanted].max(axis=0) - columns.used[:, wanted]).clip(min=0).astype(np.float64)
        shares = (free / np.maximum(columns.limit[0][:, wanted].sum(axis=0, dtype=np.float64), 1.0)).sum(axis=1)
        ranked = sorted((float(shares[mask].sum()), name) for name, mask in masks.items())
        roomy = [
            name
            for _, name in ranked
            if all(free[masks[name], at].sum() >= least[resource] for at, resource in enumerate(wanted))
        ]
        # If none has enough, the roomiest ones show how close the gang comes.
        return roomy[:_MAX_DOMAINS] or [name for _, name in ranked[-_SEARCHED_DOMAINS:]]

    def _least(self, members: Sequence[GuestRecord], need: int) -> dict[int, int]:
        """Return the least amounts that so many members need."""
        shapes = [dict(self._state.shapes.shapes[record.shape].amounts) for record in members]
        resources = sorted({resource for shape in shapes for resource in shape})
        return {r: sum(sorted(shape.get(r, 0) for shape in shapes)[:need]) for r in resources}

    def _greedy(
        self,
        members: Sequence[GuestRecord],
        transaction: Transaction,
        among: Bools | None,
        takes: Int64s | None = None,
    ) -> Trial:
        """Place what fits; with known numbers per row a second pass over the rejected would change nothing."""
        left = self.in_order(members)
        placed: list[PlacedMember] = []
        refused: list[RejectedMember] = []
        while left:
            found, refused = self._pass(left, transaction, among)
            placed += found
            left = [item.record for item in refused] if found and takes is None else []
        return Trial(placed, refused)

    def _pass(
        self, members: Sequence[GuestRecord], transaction: Transaction, among: Bools | None
    ) -> tuple[list[PlacedMember], list[RejectedMember]]:
        """Try every member once, in runs that fit the cache. The result must not depend on the size of the runs."""
        state = self._state
        begun: set[int] = set()  # policies whose turns continue from run to run
        placed: list[PlacedMember] = []
        refused: list[RejectedMember] = []
        for records, policies in self._runs_of(members, refused):
            state.pause()
            if self._needs_answer(policies[0]):
                self._place_answered(records[0], policies[0], transaction, among, placed, refused)
                continue
            prepared = self._runs.prepare(records, policies, [False] * len(records))
            slots = set(prepared.slots.tolist())
            if among is not None:
                state.cache.confine(slots, among)
            result = self._runs.decide(prepared, 0, len(records), after=begun)
            begun |= prepared.policies
            if among is not None:
                state.cache.set_free(slots)
            counts = split_counts(result.counts)
            for i, record in enumerate(records):
                row = int(result.rows[i])
                feasible, refusing = counts[i]
                reasons = state.cache.name_counts(int(prepared.slots[i]), refusing)
                if row < 0:
                    refused.append(RejectedMember(record, policies[i], reasons))
                    continue
                shape = state.shapes.shapes[record.shape]
                devices = tuple(int(d) for d in result.devices[i, : shape.device_count]) if shape.asks else ()
                state.cluster.guests_on[row][record.guest.uid] = shape
                state.cluster.counters.note(shape.number, row, 1)
                transaction.note_booked(row, shape, devices, record.guest.uid)
                total = own_total(int(result.totals[i]), state.profiles.profiles[policies[i]], shape)
                placed.append(PlacedMember(record, policies[i], row, devices, total, feasible, reasons))
        return placed, refused

    def _members_per_row(self, members: Sequence[GuestRecord]) -> Int64s | None:
        """Return how many members each row takes, if that can be counted; equal members may have different answers."""
        find = self._state.profiles.find_number
        if any(self._needs_answer(policy) for policy in {find(one.guest.spec.policy) for one in members}):
            return None
        return members_per_row(self._state, members)

    def _needs_answer(self, policy: int) -> bool:
        if not self._heeds_answers or policy == NO_POLICY:
            return False
        ask = self._state.profiles.profiles[policy].policy.ask
        return ask is not None and ask.always

    def _place_answered(
        self,
        record: GuestRecord,
        policy: int,
        transaction: Transaction,
        among: Bools | None,
        placed: list[PlacedMember],
        refused: list[RejectedMember],
    ) -> None:
        """Place one member on the best host that its answer allows. Without an answer there is none."""
        state = self._state
        shape = state.shape(record)
        slot = state.cache.slot(shape, policy)
        codes, counts = state.cache.codes(slot)
        feasible, refusing = split_counts(counts[None, :])[0]
        reasons = state.cache.name_counts(slot, refusing)
        rows: Int64s = np.flatnonzero(codes == 0).astype(np.int64)
        if among is not None:
            rows = rows[among[rows]]
        ask = state.profiles.profiles[policy].policy.ask
        assert ask is not None
        rows, bonus = answered_rows(state, record, ask, rows)
        if not len(rows):
            outside = ((Reason("ask", "refused_by", ask.name), feasible),) if feasible else ()
            refused.append(RejectedMember(record, policy, (*reasons, *outside)))
            return
        number = self._runs.draw(record)
        row, total = best_row(state, slot, policy, rows, bonus, number)
        devices = state.cache.choose_devices(slot, row, number, shape.device_count)
        transaction.book(row, shape, devices, record.guest.uid)
        placed.append(PlacedMember(record, policy, row, devices, total, feasible, reasons))

    def _runs_of(
        self, members: Sequence[GuestRecord], refused: list[RejectedMember]
    ) -> Iterator[tuple[list[GuestRecord], list[int]]]:
        state = self._state
        most = state.cache.distinct_limit()
        records: list[GuestRecord] = []
        policies: list[int] = []
        distinct: set[tuple[int, int]] = set()
        for record in members:
            policy = state.profiles.find_number(record.guest.spec.policy)
            if policy == NO_POLICY:
                refused.append(RejectedMember(record, policy, ()))
                continue
            is_full = (record.shape, policy) not in distinct and len(distinct) >= most
            is_alone = not state.profiles.profiles[policy].is_static or self._needs_answer(policy)
            if records and (is_full or is_alone or self._needs_answer(policies[-1])):
                yield records, policies
                records, policies, distinct = [], [], set()
            records.append(record)
            policies.append(policy)
            distinct.add((record.shape, policy))
        if records:
            yield records, policies

    def _search(
        self,
        gang: Gang,
        members: Sequence[GuestRecord],
        need: int,
        transaction: Transaction,
        among: Bools | None,
        share: SearchShare,
        position: SearchPosition,
    ) -> Trial | None:
        state = self._state
        known = [(r, state.profiles.find_number(r.guest.spec.policy)) for r in self.in_order(members)]
        refusals = state.gangs.refusals.get(gang.key, 0)
        expansions = max(EXPANSIONS >> refusals, _FEW_EXPANSIONS)  # one that no search helped is not searched for long
        wanted = [(r, p) for r, p in known if p != NO_POLICY]
        if any(self._needs_answer(policy) for _, policy in wanted):
            return None  # members of one shape may have different answers, so they are tried in one order only
        found = search(state, transaction, wanted, need, among, expansions, share, position)
        if found is None:
            return None
        policies = {r.guest.uid: p for r, p in known}
        placed = [PlacedMember(p.record, policies[p.record.guest.uid], p.row, p.devices, 0, 0, ()) for p in found]
        done = {p.record.guest.uid for p in found}
        rest = [r for r, _ in known if r.guest.uid not in done]
        more, refused = self._pass(rest, transaction, among) if rest else ([], [])
        return Trial(placed + more, refused)


def _count(takes: Int64s | None, among: Bools | None, most: int) -> int:
    """Return how many members some rows take, or all members if only a trial can tell."""
    if takes is None:
        return most
    return min(int((takes if among is None else takes[among[: len(takes)]]).sum()), most)
