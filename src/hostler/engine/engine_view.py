"""What can be read of an engine without changing it: the tables behind its decisions, for fronts.

Fronts read here, never the engine's state: ``make check`` rejects that. All mappings are live and read-only; records,
nominations and entries in them are immutable. Nothing here changes a decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from hostler.engine.gang_book import GANG
from hostler.engine.nominations import Nomination
from hostler.engine.queue import QUEUE_NAMES, WAITING
from hostler.engine.quotas import wants
from hostler.engine.records import GuestRecord
from hostler.engine.reservations import RESERVATION
from hostler.engine.state import State
from hostler.engine.victims import allowed_now, budgets_of
from hostler.engine.view import ClusterView
from hostler.errors import NamesFullError, UnknownNameError
from hostler.model import Budget, Gang, Guest, GuestSpec, Host, QueueRules, Quota, Reservation

__all__ = ["GATHERING", "EngineView", "GangView", "PendingGuest", "QuotaView"]

GATHERING = "gathering"  # the state of members whose gang cannot be tried yet, so that it is in no queue


class PendingGuest(NamedTuple):
    """A guest that waits: how, and when it is tried again at the latest."""

    uid: str
    state: str  # one of QUEUE_NAMES, or GATHERING
    due: int


class EngineView:
    """A read-only look at one engine."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.gangs = GangView(state)
        self.quotas = QuotaView(state)

    # -- guests ----------------------------------------------------------------------------------------------------

    @property
    def records(self) -> Mapping[str, GuestRecord]:
        """Return what the engine remembers of each guest, by uid, in order of arrival."""
        return MappingProxyType(self._state.guests)

    def guest(self, uid: str) -> Guest:
        """Return a guest as it was last told of; UnknownNameError."""
        record = self._state.guests.get(uid)
        if record is None:
            raise UnknownNameError(f"there is no guest with uid {uid!r}")
        return record.guest

    @property
    def nominations(self) -> Mapping[str, Nomination]:
        """Return where guests, and gangs by their queue key, wait for victims to leave."""
        return MappingProxyType(self._state.nominations)

    @property
    def evicting(self) -> Mapping[str, str]:
        """Return the victims that have not left yet, with the uid of each one's preemptor."""
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
        """Return how many entries the queue has: guests, and gangs as one each."""
        return len(self._state.queue.entries)

    def queue_counts(self) -> dict[str, int]:
        """Count the entries of the queue by their state; a gang is one entry."""
        found = Counter(QUEUE_NAMES[entry.state] for entry in self._state.queue.entries.values())
        return {name: found[name] for name in QUEUE_NAMES}

    def pending_guests(self) -> Iterator[PendingGuest]:
        """Iterate over the guests that wait, without those for whom an answer from outside is awaited."""
        state = self._state
        entries, gangs = state.queue.entries, state.gangs
        for key, entry in state.queue.in_order():
            due = entry.flush_at if entry.state == WAITING else entry.until
            members = gangs.pending(key.removeprefix(GANG)) if key.startswith(GANG) else (key,)
            for uid in members:
                if uid in state.guests:
                    yield PendingGuest(uid, QUEUE_NAMES[entry.state], due)
        for key in gangs.members:
            if GANG + key not in entries:
                for uid in gangs.pending(key):
                    yield PendingGuest(uid, GATHERING, 0)

    # -- budgets and reservations ----------------------------------------------------------------------------------

    @property
    def budgets(self) -> Mapping[str, Budget]:
        """Return the disruption budgets by key."""
        return MappingProxyType(self._state.budgets)

    def broken_budgets(self, victims: Sequence[str]) -> list[tuple[str, str]]:
        """Return victims, by uid, with budgets that do not allow their evictions. The last victims broke them."""
        if not victims or not self._state.budgets:
            return []
        left = allowed_now(self._state)
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
        """Say whether a reservation has begun and not ended."""
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
        """Return a number that changes with everything that happens to a host."""
        return self._state.cluster.version(self.row(name))

    def room_left(self, host: str, resource: str) -> int:
        """Return what a host may still give of a resource by the first policy's limits, reserved or not."""
        state = self._state
        row, number = self.row(host), state.tables.resources.find(resource)
        if number < 0:
            return 0
        state.cluster.fit_layout()  # no host may have had the resource before
        limits = state.profiles.profiles[0].limit_set
        return state.cluster.limit(row, number, limits) - state.cluster.used(row, number)

    def devices_left(self, host: str) -> list[int]:
        """Return the free milli-units of each device of a host."""
        return self._state.cluster.device_left(self.row(host))

    def reserved_on(self, host: str) -> dict[str, dict[str, int]]:
        """Return what reservations keep on a host, by reservation and resource; what their guests use is not kept."""
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
        """Return how many resources have names here."""
        return self._state.tables.resources.used

    @property
    def device_model_count(self) -> int:
        """Return how many models of devices have names here."""
        return self._state.tables.models.used

    def has_resource(self, name: str) -> bool:
        """Say whether a host or a guest ever named a resource."""
        return self._state.tables.resources.find(name) >= 0

    def has_device_model(self, name: str) -> bool:
        """Say whether a host or a guest ever named a model of devices."""
        return self._state.tables.models.find(name) >= 0

    def why_no_room_for_names(self, kinds: Iterable[str], models: Iterable[str]) -> str:
        """Say why the engine has no room for names of devices, or nothing. Other threads may ask."""
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
        """Return all gangs that were told of."""
        return MappingProxyType(self._state.gangs.gangs)

    def members(self, key: str) -> tuple[str, ...]:
        """Return the uids of all members that are there, in order of arrival. Other threads may ask."""
        return tuple(self._state.gangs.members.get(key, ()))

    def pending(self, key: str) -> list[str]:
        """Return the uids of members that are not placed, in order of arrival."""
        return self._state.gangs.pending(key)

    def priority(self, key: str) -> int:
        """Return the gang's priority: its own, else the lowest of its members."""
        return self._state.gangs.priority(key)

    def why_not_ready(self, key: str) -> str:
        """Say why a gang cannot be tried yet, or nothing when it can."""
        return self._state.gangs.why_not_ready(key)

    def is_searched(self, key: str) -> bool:
        """Say whether the search for a gang's hosts was paused and goes on."""
        return key in self._state.gangs.searches.positions

    def is_search_of_tenant(self, spec: GuestSpec) -> bool:
        """Say whether the search for some gang of a guest's tenant goes on."""
        return self._state.gangs.searches.has_search(spec)

    def only_reserves(self, key: str) -> bool:
        """Say whether a gang holds room while it waits, without anybody being evicted for it."""
        return self._state.gangs.reserving == key and GANG + key not in self._state.nominations


class QuotaView:
    """Quotas of tenants, and what counts against them."""

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def by_tenant(self) -> Mapping[str, Quota]:
        """Return the quotas."""
        return MappingProxyType(self._state.quotas.quotas)

    @property
    def used(self) -> Mapping[str, Mapping[str, int]]:
        """Return what placed guests take, by tenant and resource."""
        return MappingProxyType(self._state.quotas.used)

    def used_of(self, tenant: str, resource: str) -> int:
        """Return what a tenant's placed guests take of a resource."""
        return self._state.quotas.used.get(tenant, {}).get(resource, 0)

    def wanted(self, spec: GuestSpec, resource: str) -> int:
        """Return what a guest would count against its tenant's quota."""
        return wants(spec, resource)

    def exceeded(self, spec: GuestSpec) -> tuple[str, bool] | None:
        """Return the first resource that is beyond the quota, and whether by the tenant's maximum."""
        return self._state.quotas.exceeded(spec)
