"""All state of one engine, in one place: what a checkpoint writes and a fork copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush

from hostler.engine.cache.cache import VerdictCache
from hostler.engine.cache.wide_rows import DEFAULT_BUDGET, CacheBudget
from hostler.engine.cluster.cluster import Cluster
from hostler.engine.cluster.shapes import Shape, ShapeTable
from hostler.engine.cluster.tables import Tables
from hostler.engine.policy.policy_columns import resources_of
from hostler.engine.policy.profiles import Profiles
from hostler.engine.policy.registry import Registry
from hostler.engine.state.gang_book import GangBook
from hostler.engine.state.nominations import MOVE, NOMINATION, Attempts, Nomination, VictimMove
from hostler.engine.state.queue import Queue, WaitKey
from hostler.engine.state.quotas import Quotas
from hostler.engine.state.records import GuestRecord
from hostler.engine.state.turns import Turns
from hostler.errors import InputError
from hostler.model import Budget, GuestSpec, Policy, QueueRules, Reservation

__all__ = ["State", "is_for"]

MAX_TOMBSTONES = 262_144


def is_for(reservation: Reservation, spec: GuestSpec, gang: str) -> bool:
    """Say whether a guest may use reserved room."""
    if reservation.gang and reservation.gang == gang:
        return True
    if reservation.tenant and reservation.tenant == spec.tenant:
        return True
    return reservation.selector is not None and reservation.selector.matches(spec.labels)


_LAST_TIME = 2**62 - 1


def _go_on() -> None:
    """Pause for no time."""


class State:
    """Hosts, guests, queue, and everything else that influences a decision.

    ``pause`` is called between units of work of about a millisecond. A front may set it to give other threads time. It
    must not use the engine. Twins have no pause, because it is not part of any decision.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        clock_start: int,
        seed: int,
        rules: QueueRules,
        registry: Registry,
        cache_budget: CacheBudget = DEFAULT_BUDGET,
    ) -> None:
        if not -(2**63) <= seed < 2**63 or not -(2**63) <= clock_start < 2**62:
            raise InputError("the seed or the clock's start does not fit 64 bits")
        self.pause: Callable[[], None] = _go_on
        self.seed = seed
        self.now = clock_start
        self.rules = rules
        self.registry = registry
        self.cache_budget = cache_budget
        self.decisions = 0  # sequence number of the last decision
        self.arrivals = 0
        self.asks = 0
        self.tables = Tables()
        self.cluster = Cluster(self.tables)
        self.shapes = ShapeTable(self.tables)
        self.profiles = Profiles(policies, self.cluster, registry)
        self.cluster.use_limit_sets(self.profiles.limit_sets)
        self._resources: list[str] = []  # that the policies look at
        self.reservations: dict[str, Reservation] = {}
        self.in_force: set[str] = set()  # names of the reservations that have begun and not ended
        self.pass_of: dict[str, int] = {}  # the pass of each reservation
        self.quotas = Quotas()
        self.cache = VerdictCache(self.cluster, self.profiles, self.passes, cache_budget)
        self.guests: dict[str, GuestRecord] = {}
        self.queue = Queue()
        self.turns = Turns()
        self.parked: dict[str, set[str]] = {}  # host name to guests that are bound there while it is away
        self.left_guests: dict[str, None] = {}
        self.left_hosts: dict[str, int] = {}  # uid to the version at which the host left
        self.ready: dict[str, None] = {}  # prepared guests whose bind is due
        self.deadlines: list[tuple[int, int, str]] = []  # time, decision or ask, uid; stale ones are skipped
        self.improved_rows: set[int] = set()
        self.widened_rows: set[int] = set()  # of those, hosts that changed themselves: evictions may help there now
        self.gangs = GangBook(lambda: self.guests)
        self.budgets: dict[str, Budget] = {}
        self.budgets_version = 0
        self.nominations: dict[str, Nomination] = {}
        self.evicting: dict[str, str] = {}  # victims on their way, to the uid of their preemptor
        self.moves: dict[str, VictimMove] = {}  # those of them that move to another host instead of ending
        self.unmoved: dict[str, None] = {}  # those whose move failed: the next step evicts them
        self.ordered: dict[str, None] = {}  # those of them whose eviction was asked for here
        self.spent: dict[str, int] = {}  # disruptions since a budget was last stated
        self.allowed_now: dict[str, int] | None = None  # what budgets allow, worked out; None: do it again
        self.unnominated: dict[str, None] = {}  # guests whose nomination ended, to be told
        self.abandoned: dict[str, str] = {}  # prepared guests that were taken back, to their hosts, to be told
        self.attempts: dict[str, Attempts] = {}  # of preemptors
        self.cascades: dict[GuestSpec, tuple[int, int]] = {}  # evicted specs: depth of the cascade, time
        self.quota_freed = False  # some of what quotas limit was given back since waiting guests were last looked at
        # Since waiting guests were last looked at: shapes whose guests were placed or left, by identity; and whether
        # something else moved that may concern everybody who looks at others.
        self.moved: dict[int, Shape] = {}
        self.has_shifted = False
        self._name_resources()

    def use_policies(self, profiles: Profiles) -> None:
        """Use other policies from now on, and update the limits of hosts."""
        self.cluster.use_limit_sets(profiles.limit_sets)
        self.profiles = profiles
        self.cache.use_profiles(profiles)
        self._name_resources()

    def _name_resources(self) -> None:
        """Add the policies to the users of the resources that their scorers read."""
        before, self._resources = self._resources, resources_of(self.profiles.profiles)
        for name in self._resources:
            self.tables.resources.acquire(name)
        for name in before:
            self.tables.resources.drop(name)
        self.renumber()

    def use_names(self, values: Sequence[Sequence[str]], free: Sequence[Sequence[int]]) -> None:
        """Restore the names of a checkpoint with their numbers, before there are hosts."""
        tables = self.tables
        for table, names, numbers in zip((tables.resources, tables.kinds, tables.models), values, free, strict=True):
            table.refill(names, numbers)
        self._resources = []
        self._name_resources()

    def renumber(self) -> None:
        """Update everything that depends on names that hosts, policies or reservations added or released.

        Guests add no names to the tables, so their shapes are updated: before a released number gets another name, no
        shape, booking, hold or cache slot uses it.
        """
        rebuilt = set()
        for number in self.shapes.naming(self.tables.changes()):
            before = self.shapes.shapes[number]
            after = self.shapes.rebuild(number)
            self.cache.forget(number)
            self.cluster.replace_shape(before, after)
            rebuilt.add(number)
        self.tables.settle()
        for uid, nomination in self.nominations.items() if rebuilt else ():
            record, row = self.guests.get(uid), self.cluster.row_of.get(nomination.host)
            if record is None or row is None or record.shape not in rebuilt:
                continue
            hold = self.cluster.holds.get(NOMINATION + uid, row)
            if hold is not None:
                self.cluster.hold(NOMINATION + uid, hold._replace(amounts=self.shape(record).amounts))
        for uid, move in self.moves.items() if rebuilt else ():
            record, row = self.guests.get(uid), self.cluster.row_of.get(move.host)
            hold = self.cluster.holds.get(MOVE + uid, row) if row is not None else None
            if record is not None and hold is not None and record.shape in rebuilt:
                self.cluster.hold(MOVE + uid, hold._replace(amounts=self.shape(record).amounts))

    def forget_shapes(self) -> None:
        """Forget the shapes of a rejected fact, so that nothing of it stays."""
        if self.shapes.fresh:
            self.shapes.take_back()
            self.cache.use_profiles(self.profiles)

    def shape(self, record: GuestRecord) -> Shape:
        """Return a guest's shape."""
        return self.shapes.shapes[record.shape]

    def wait_key(self, shape: Shape) -> WaitKey:
        """Return the key of the verdicts about a shape."""
        return shape.number, self.profiles.find_number(shape.spec.policy)

    def note_improvement(self, row: int, left: Shape | None = None) -> None:
        """Note that a row may now take guests that it rejected; ``left`` is the shape of a guest that left it."""
        self.improved_rows.add(row)
        if left is not None:
            self.note_move(left)
        else:
            self.has_shifted = True

    def note_move(self, shape: Shape) -> None:
        """Note that a guest of a shape was placed."""
        self.moved[id(shape)] = shape

    def specs_of_moved(self) -> list[GuestSpec]:
        """Return the specs of guests that moved, in an order that depends on the specs alone."""
        return sorted(dict.fromkeys(shape.spec for shape in self.moved.values()), key=repr)

    def passes(self, spec: GuestSpec, gang: str = "") -> list[int]:
        """Return the guest's passes to reserved room."""
        return [self.pass_of[name] for name, r in self.reservations.items() if is_for(r, spec, gang)]

    def note_budgets_changed(self) -> None:
        """Note that budgets allow other disruptions from now on."""
        self.budgets_version += 1
        self.allowed_now = None

    def after(self, ns: int) -> int:
        """Return the time after so many nanoseconds, or the last possible time."""
        return min(self.now + ns, _LAST_TIME)

    def add_deadline(self, at: int, number: int, uid: str) -> None:
        """Schedule a deadline."""
        heappush(self.deadlines, (at, number, uid))

    def remember_left_guest(self, uid: str) -> None:
        """Remember that a guest left, so that late facts about it change nothing."""
        self.left_guests[uid] = None
        if len(self.left_guests) > MAX_TOMBSTONES:
            del self.left_guests[next(iter(self.left_guests))]

    def remember_left_host(self, identity: str, version: int) -> None:
        """Remember that a host left (its uid, else its name), so that older facts about it change nothing."""
        known = self.left_hosts.pop(identity, 0)
        self.left_hosts[identity] = max(known, version)
        if len(self.left_hosts) > MAX_TOMBSTONES:
            del self.left_hosts[next(iter(self.left_hosts))]

    def put_guest(self, record: GuestRecord) -> None:
        """Store a new or changed guest; shapes without guests may be released."""
        known = self.guests.get(record.guest.uid)
        if known is None or known.shape != record.shape:
            self.shapes.acquire(record.shape)
            if known is not None:
                self._release_shape(known.shape)
        self.guests[record.guest.uid] = record

    def remove_guest(self, uid: str) -> None:
        """Forget a guest."""
        self._release_shape(self.guests.pop(uid).shape)

    def _release_shape(self, number: int) -> None:
        for freed in self.shapes.release(number):
            self.cache.forget(freed)

    def is_parked(self, record: GuestRecord) -> bool:
        """Say whether the guest's host is absent."""
        return bool(record.host) and record.guest.uid in self.parked.get(record.host, ())

    def copy(self) -> State:
        """Return an independent copy. Verdicts are not copied; they are computed again when needed."""
        twin = State.__new__(State)
        twin.__dict__.update(self.__dict__)
        twin.pause = _go_on
        twin.tables = self.tables.copy()
        twin.cluster = self.cluster.copy(twin.tables)
        twin.shapes = self.shapes.copy(twin.tables)
        twin.profiles = Profiles(self.profiles.policies, twin.cluster, self.registry)
        twin.reservations = self.reservations.copy()
        twin.pass_of = self.pass_of.copy()
        twin.in_force = self.in_force.copy()
        twin.quotas = self.quotas.copy()
        twin.cache = VerdictCache(twin.cluster, twin.profiles, twin.passes, self.cache_budget)
        twin.cache.fit_passes(1 + max(twin.pass_of.values(), default=0))
        twin.guests = self.guests.copy()
        twin.queue = self.queue.copy()
        twin.turns = self.turns.copy()
        twin.parked = {host: uids.copy() for host, uids in self.parked.items()}
        twin.left_guests = self.left_guests.copy()
        twin.left_hosts = self.left_hosts.copy()
        twin.ready = self.ready.copy()
        twin.deadlines = self.deadlines.copy()
        twin.improved_rows = self.improved_rows.copy()
        twin.widened_rows = self.widened_rows.copy()
        twin.moved = self.moved.copy()
        twin.gangs = self.gangs.copy(lambda: twin.guests)
        twin.budgets = self.budgets.copy()
        twin.nominations = self.nominations.copy()
        twin.evicting = self.evicting.copy()
        twin.moves = self.moves.copy()
        twin.unmoved = self.unmoved.copy()
        twin.ordered = self.ordered.copy()
        twin.spent = self.spent.copy()
        twin.allowed_now = None
        twin.unnominated = self.unnominated.copy()
        twin.abandoned = self.abandoned.copy()
        twin.attempts = self.attempts.copy()
        twin.cascades = self.cascades.copy()
        return twin
