"""The read-only view of an engine, for fronts.

Fronts use this view and never the engine's state; ``make check`` enforces that. All mappings are live and read-only;
records, nominations and queue entries in them are immutable. Nothing here changes a decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from hostler.engine.preemption.victims import allowed_disruptions, budgets_of
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.nominations import Nomination, VictimMove
from hostler.engine.state.queue import QUEUE_NAMES, WAITING
from hostler.engine.state.quotas import wants
from hostler.engine.state.records import PLACED_STATES, GuestRecord
from hostler.engine.state.reservations import RESERVATION, used_by_owners
from hostler.engine.state.state import State
from hostler.engine.view import ClusterView
from hostler.errors import NamesFullError, UnknownNameError
from hostler.model import MAX_AMOUNT, Budget, Gang, Guest, GuestSpec, Host, QueueRules, Quota, Reservation
from hostler.model.decisions import DecisionNote

__all__ = ["GATHERING", "EngineView", "GangView", "PendingGuest", "QuotaView", "ResourceUse"]

GATHERING = "gathering"  # the state of members whose gang cannot be tried yet, so that it is in no queue


class PendingGuest(NamedTuple):
    """A waiting guest: its state in the queue, and the latest time of its next try."""

    uid: str
    state: str  # one of QUEUE_NAMES, or GATHERING
    due: int


class ResourceUse(NamedTuple):
    """How much of a resource is in use: the share of all hosts, and the highest share of one host."""

    resource: str
    share: float
    highest: float


class EngineView:
    """A read-only view of one engine."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.gangs = GangView(state)
        self.quotas = QuotaView(state)

    # -- guests ----------------------------------------------------------------------------------------------------

    @property
    def records(self) -> Mapping[str, GuestRecord]:
        """Return the engine's record of each guest, by uid, in order of arrival."""
        return MappingProxyType(self._state.guests)

    def guest(self, uid: str) -> Guest:
        """Return a guest as the last fact described it; UnknownNameError."""
        record = self._state.guests.get(uid)
        if record is None:
            raise UnknownNameError(f"there is no guest with uid {uid!r}")
        return record.guest

    def placed_specs(self) -> list[tuple[GuestSpec, int]]:
        """Return the specs of placed guests, with the number of guests of each. O(guests)."""
        state = self._state
        counts = Counter(record.shape for record in state.guests.values() if record.state in PLACED_STATES)
        return [(state.shapes.shapes[number].spec, count) for number, count in counts.items()]

    @property
    def nominations(self) -> Mapping[str, Nomination]:
        """Return the hosts where guests, and gangs by their queue key, wait for victims to leave."""
        return MappingProxyType(self._state.nominations)

    @property
    def moves(self) -> Mapping[str, VictimMove]:
        """Return the victims that move to another host, by uid."""
        return MappingProxyType(self._state.moves)

    @property
    def evicting(self) -> Mapping[str, str]:
        """Return the victims that have not left yet, with the uid of each preemptor."""
        return MappingProxyType(self._state.evicting)

    @property
    def decision_count(self) -> int:
        """Return the sequence number of the last decision."""
        return self._state.decisions

    @property
    def rules(self) -> QueueRules:
        """Return the rules of the queue."""
        return self._state.rules

    # -- the queue -------------------------------------------------------------------------------------------------

    @property
    def queue_length(self) -> int:
        """Return the number of queue entries: guests, and gangs as one entry each."""
        return len(self._state.queue.entries)

    def queue_counts(self) -> dict[str, int]:
        """Count the queue entries by state; a gang is one entry."""
        found = Counter(QUEUE_NAMES[entry.state] for entry in self._state.queue.entries.values())
        return {name: found[name] for name in QUEUE_NAMES}

    def pending_guests(self) -> Iterator[PendingGuest]:
        """Iterate over waiting guests, except those that wait for an answer from outside."""
        state = self._state
        entries, gangs = state.queue.entries, state.gangs
        for key, entry in state.queue.in_order():
            due = entry.flush_at if entry.state == WAITING else entry.until
            members = gangs.pending(key.removeprefix(GANG)) if key.startswith(GANG) else (key,)
            for uid in members:
                if uid in state.guests:
                    yield PendingGuest(uid, QUEUE_NAMES[entry.state], due)
        for key in gangs.members:
            if GANG + key not in entries and not gangs.is_asked(key):
                for uid in gangs.pending(key):
                    yield PendingGuest(uid, GATHERING, 0)

    # -- budgets and reservations ----------------------------------------------------------------------------------

    @property
    def budgets(self) -> Mapping[str, Budget]:
        """Return the disruption budgets by key."""
        return MappingProxyType(self._state.budgets)

    def broken_budgets(self, victims: Sequence[str]) -> list[tuple[str, str]]:
        """Return victims by uid with the budgets that do not allow their evictions. The last victims broke them."""
        if not victims or not self._state.budgets:
            return []
        left = allowed_disruptions(self._state)
        found: list[tuple[str, str]] = []
        for uid in reversed(victims):
            for budget in budgets_of(self._state, uid):
                if left[budget.key] < 0:
                    left[budget.key] += 1
                    found.append((uid, budget.key))
        return found

    @property
    def reservations(self) -> Mapping[str, Reservation]:
        """Return the reservations by name."""
        return MappingProxyType(self._state.reservations)

    def is_in_force(self, reservation: str) -> bool:
        """Say whether a reservation has started and not ended."""
        return reservation in self._state.in_force

    # -- hosts -----------------------------------------------------------------------------------------------------

    @property
    def cluster(self) -> ClusterView:
        """Return the columns of all hosts, as plugins see them."""
        return ClusterView(self._state.cluster)

    @property
    def host_count(self) -> int:
        """Return how many hosts there are."""
        return len(self._state.cluster)

    def has_host(self, name: str) -> bool:
        """Say whether there is a host of that name."""
        return name in self._state.cluster.row_of

    def host(self, name: str) -> Host:
        """Return a host; UnknownNameError."""
        return self._state.cluster.host(self.row(name))

    def host_version(self, name: str) -> int:
        """Return a number that changes with every change of a host or its guests."""
        return self._state.cluster.version(self.row(name))

    def room_limit(self, host: str, resource: str) -> int:
        """Return how much of a resource a host may give in all, by the first policy's limits."""
        state = self._state
        row, number = self.row(host), state.tables.resources.find(resource)
        if number < 0:
            return 0
        state.cluster.fit_layout()  # no host may have had the resource before
        return state.cluster.limit(row, number, state.profiles.profiles[0].limit_set)

    def room_left(self, host: str, resource: str) -> int:
        """Return how much of a resource a host may still give by the first policy's limits, reserved or not."""
        state = self._state
        row, number = self.row(host), state.tables.resources.find(resource)
        if number < 0:
            return 0
        state.cluster.fit_layout()  # no host may have had the resource before
        limits = state.profiles.profiles[0].limit_set
        return state.cluster.limit(row, number, limits) - state.cluster.used(row, number)

    def use_of_resources(self) -> list[ResourceUse]:
        """Return the use of each resource by the first policy's limits, on the hosts that have it and limit it."""
        cluster, found = self._state.cluster, []
        cluster.fit_layout()
        columns = cluster.columns()
        present = columns.present[: cluster.rows] == 1
        for number, name in enumerate(self._state.tables.resources.values):
            limit = columns.limit[self._state.profiles.profiles[0].limit_set, : cluster.rows, number]
            rows = (present & (limit > 0) & (limit < MAX_AMOUNT)).nonzero()[0]
            if rows.size:
                used, offered = columns.used[rows, number].astype(float), limit[rows].astype(float)
                found.append(ResourceUse(name, float(used.sum() / offered.sum()), float((used / offered).max())))
        return sorted(found)

    def devices_left(self, host: str) -> list[int]:
        """Return the free milli-units of each device of a host."""
        return self._state.cluster.device_left(self.row(host))

    def used_by_owners(self, reservation: Reservation, host: str, resource: str) -> int:
        """Return how much of a resource of a host the guests use that a reservation is for."""
        return used_by_owners(self._state, reservation, self.row(host), self._state.tables.resources.find(resource))

    def reserved_on(self, host: str) -> dict[str, dict[str, int]]:
        """Return what reservations hold on a host, by reservation and resource, less what their guests use."""
        cluster, names = self._state.cluster, self._state.tables.resources.values
        row = cluster.row_of.get(host)
        found: dict[str, dict[str, int]] = {}
        for name, hold in sorted(cluster.holds.on(row)) if row is not None else ():
            if name.startswith(RESERVATION):
                amounts = {names[number]: amount for number, amount in hold.amounts if amount}
                found[name.removeprefix(RESERVATION)] = dict(sorted(amounts.items()))
        return found

    def row(self, name: str) -> int:
        """Return the row of a host in ``cluster``; UnknownNameError."""
        row = self._state.cluster.row_of.get(name)
        if row is None:
            raise UnknownNameError(f"there is no host {name!r}")
        return row

    # -- names -----------------------------------------------------------------------------------------------------

    @property
    def resource_count(self) -> int:
        """Return the number of named resources."""
        return self._state.tables.resources.used

    @property
    def device_model_count(self) -> int:
        """Return the number of named device models."""
        return self._state.tables.models.used

    def has_resource(self, name: str) -> bool:
        """Say whether any host or guest ever named a resource."""
        return self._state.tables.resources.find(name) >= 0

    def has_device_model(self, name: str) -> bool:
        """Say whether any host or guest ever named a device model."""
        return self._state.tables.models.find(name) >= 0

    def why_no_room_for_names(self, kinds: Iterable[str], models: Iterable[str]) -> str:
        """Say why the engine has no room for device names, or return nothing. May be called from other threads."""
        try:
            self._state.tables.check_room((), kinds, models)
        except NamesFullError as error:
            return error.message
        return ""


class GangView:
    """Gangs, by key: namespace and name."""

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def known(self) -> Mapping[str, Gang]:
        """Return all declared gangs."""
        return MappingProxyType(self._state.gangs.gangs)

    def members(self, key: str) -> tuple[str, ...]:
        """Return the uids of all present members, in order of arrival. May be called from other threads."""
        return tuple(self._state.gangs.members.get(key, ()))

    def pending(self, key: str) -> list[str]:
        """Return the uids of members that are not placed, in order of arrival."""
        return self._state.gangs.pending(key)

    def priority(self, key: str) -> int:
        """Return the gang's priority: its own, or the lowest of its members if it has none."""
        return self._state.gangs.priority(key)

    def why_not_ready(self, key: str) -> DecisionNote | None:
        """Say why a gang cannot be tried yet; None if it can."""
        return self._state.gangs.why_not_ready(key)

    def is_searched(self, key: str) -> bool:
        """Say whether the search for a gang's hosts is paused."""
        return key in self._state.gangs.searches.positions

    def is_search_of_tenant(self, spec: GuestSpec) -> bool:
        """Say whether a search for any gang of a guest's tenant is paused."""
        return self._state.gangs.searches.has_search(spec)

    def only_reserves(self, key: str) -> bool:
        """Say whether a gang holds room while it waits, without evictions for it."""
        return self._state.gangs.reserving == key and GANG + key not in self._state.nominations


class QuotaView:
    """Quotas of tenants, and the amounts that count against them."""

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def by_tenant(self) -> Mapping[str, Quota]:
        """Return the quotas."""
        return MappingProxyType(self._state.quotas.quotas)

    @property
    def used(self) -> Mapping[str, Mapping[str, int]]:
        """Return the amounts of placed guests, by tenant and resource."""
        return MappingProxyType(self._state.quotas.used)

    def used_of(self, tenant: str, resource: str) -> int:
        """Return how much of a resource a tenant's placed guests use."""
        return self._state.quotas.used.get(tenant, {}).get(resource, 0)

    def wanted(self, spec: GuestSpec, resource: str) -> int:
        """Return how much a guest would count against its tenant's quota."""
        return wants(spec, resource)

    def exceeded(self, spec: GuestSpec) -> tuple[str, bool] | None:
        """Return the first resource over the quota, and whether the limit is the tenant's maximum."""
        return self._state.quotas.exceeded(spec)
