"""Gangs for the tests: short ways to write them, a front, a plain reading of the rules, and seeded hard instances.

An instance is a few hosts and the members of one gang, which must all be placed. ``solve`` is an exhaustive search
of its own: plain Python, with its own reading of the constraints, so that it can tell what the engine should find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec

from hostler.engine import Engine
from hostler.engine.preemption.victims import allowed_disruptions
from hostler.engine.state.records import PLACED_STATES
from hostler.model import (
    Action,
    Bind,
    Budget,
    BudgetChanged,
    Evict,
    Expression,
    Gang,
    GangChanged,
    Guest,
    GuestArrived,
    GuestBound,
    GuestLeft,
    GuestSpec,
    GuestTerm,
    Host,
    HostsJoined,
    Nominate,
    Policy,
    PreemptionRules,
    Prepare,
    Prepared,
    Selector,
    Spread,
    amount_of,
    amounts,
    labels,
    may_give,
)
from tests.engine.fleet import guest, policy

# -- short ways to write things ---------------------------------------------------------------------------------------


def preempting(name: str = "first_fit", *, reclaim: bool = False, **rules: Any) -> Policy:
    """Return a policy that evicts guests of lower priority; hosts go by their names unless another one is named."""
    return policy(name, preemption=PreemptionRules(**rules), reclaim=reclaim)


def wants(name: str, cpu: int, /, priority: int = 0, **fields: Any) -> Guest:
    """Return a pending guest that asks for cpu alone; ``app`` labels it, ``gang`` makes it a member."""
    own = {key: fields.pop(key) for key in ("gang", "started") if key in fields}
    if own.get("gang"):
        own["gang"] = f"default/{own['gang']}"
    if "app" in fields:
        fields["labels"] = labels({"app": fields.pop("app")})
    made = guest(name, **{key: fields.pop(key) for key in ("uid", "version", "host") if key in fields},
                 **{"cpu": cpu, "memory": 0, "priority": priority} | fields)  # fmt: skip
    return msgspec.structs.replace(made, **own)


def runs(engine: Engine, host: str, *guests: Guest) -> None:
    """Let guests run on a host by a fact."""
    for each in guests:
        engine.apply(GuestArrived(guest=msgspec.structs.replace(each, host=host)))


def app(name: str) -> Selector:
    """Select guests by their app."""
    return Selector((Expression("app", "In", (name,)),))


def protect(engine: Engine, name: str, allowed: int, *, version: int = 0, disrupted: tuple[str, ...] = ()) -> None:
    """Put a budget over all guests of one app."""
    budget = Budget(name=name, version=version, selector=app(name), allowed=allowed, disrupted=disrupted)
    engine.apply(BudgetChanged(budget=budget))


def allowed(engine: Engine, name: str) -> int:
    """Return how many of an app may still be disrupted."""
    return allowed_disruptions(engine.state)[f"default/{name}"]


def form(engine: Engine, name: str, min_count: int, /, **fields: Any) -> None:
    """Let a gang be there, or change."""
    engine.apply(GangChanged(gang=Gang(name=name, min_count=min_count, **fields)))


def members(gang: str, count: int, cpu: int = 1000, /, first: int = 0, **fields: Any) -> list[Guest]:
    """Return members of a gang that are all alike, named after it."""
    return [wants(f"{gang}-{i}", cpu, gang=gang, **fields) for i in range(first, first + count)]


def evicted(actions: Iterable[Action]) -> list[str]:
    """Return the uids that actions evict."""
    return [a.uid for a in actions if isinstance(a, Evict)]


def nominated(actions: Iterable[Action]) -> dict[str, str]:
    """Return the hosts that actions keep for guests, by uid."""
    return {a.uid: a.host for a in actions if isinstance(a, Nominate)}


def held_for(engine: Engine) -> dict[str, list[str]]:
    """Return what is held on hosts: host to the names of the holds."""
    cluster = engine.state.cluster
    found = {name: [hold for hold, _ in cluster.holds.on(row)] for name, row in cluster.row_of.items()}
    return {name: names for name, names in sorted(found.items()) if names}


def places(engine: Engine, *uids: str) -> list[str]:
    """Return where guests are ("" for nowhere)."""
    return [engine.decision(uid).host for uid in uids]


def leave(engine: Engine, *uids: str) -> None:
    """Let guests leave."""
    for uid in uids:
        engine.apply(GuestLeft(uid=uid))


class SimpleFront:
    """Carries out what an engine says: binds, preparations and, unless told otherwise, evictions."""

    def __init__(self, engine: Engine, *, evicts: bool = True) -> None:
        self.engine = engine
        self.evicts = evicts
        self.evictions: list[str] = []  # all that were ever asked for

    def step(self, now: int | None = None) -> list[Any]:
        """Step once and carry everything out."""
        engine = self.engine
        actions = engine.step(engine.now if now is None else now)
        for action in actions:
            if isinstance(action, Bind):
                engine.apply(GuestBound(uid=action.uid, host=action.host))
            elif isinstance(action, Prepare):
                engine.apply(Prepared(uid=action.uid, host=action.host))
            elif isinstance(action, Evict):
                self.evictions.append(action.uid)
                if self.evicts:
                    engine.apply(GuestLeft(uid=action.uid))
        return list(actions)

    def settle(self, until: int, most: int = 200) -> list[Any]:
        """Step whenever a step is due, up to a time; return all actions."""
        done: list[Any] = []
        for _ in range(most):
            due = self.engine.next_due()
            if due is None or due > until:
                return done
            done += self.step(max(due, self.engine.now))
        raise AssertionError(f"still busy after {most} steps: {done[-10:]}")


# -- a plain reading of the rules -------------------------------------------------------------------------------------


class PlainCluster:
    """Hosts and placed guests in plain dictionaries, with a slow reading of every rule."""

    def __init__(self, engine: Engine) -> None:
        state = engine.state
        self.hosts = {host.name: host for host in engine.hosts()}
        self.policies = {"": engine.policies[0]} | {policy.name: policy for policy in engine.policies}
        self.placed = {uid: (r.guest, r.host) for uid, r in state.guests.items() if r.state in PLACED_STATES}
        self.devices = {uid: record.devices for uid, record in state.guests.items() if record.state in PLACED_STATES}
        self.guests = {uid: record.guest for uid, record in state.guests.items()}
        self.quotas = dict(state.quotas.quotas)
        self.budgets = dict(state.budgets)
        self.gangs = dict(state.gangs.gangs)
        self.now = state.now

    def on(self, host: str) -> list[Guest]:
        return [guest for guest, where in self.placed.values() if where == host]

    def near(self, topology: str, host: str) -> list[Guest]:
        """Return the guests in a host's domain."""
        value = dict(self.hosts[host].labels).get(topology)
        names = {name for name, h in self.hosts.items() if dict(h.labels).get(topology) == value}
        return [guest for guest, where in self.placed.values() if where in names] if value is not None else []

    def check_place(self, guest: Guest, name: str) -> None:
        """Check that a guest may go to a host, next to all who are placed."""
        host, spec = self.hosts[name], guest.spec
        policy = self.policies[spec.policy]
        assert not host.cordoned
        own = dict(host.labels)
        assert all(own.get(key) == value for key, value in spec.host_selector)
        for resource, amount in spec.requests:
            taken = amount + sum(amount_of(other.spec.requests, resource) for other in self.on(name))
            if amount:
                assert taken <= may_give(host, resource, policy.overcommit, policy.reserve), (guest.uid, resource)
        for term in spec.anti_affinity:
            assert not [g for g in self.near(term.topology, name) if matches(term, g)], (guest.uid, "own anti-affinity")
        for other, where in self.placed.values():
            for term in other.spec.anti_affinity:
                if where in self.hosts and matches(term, guest):
                    assert other not in self.near(term.topology, name), (guest.uid, "anti-affinity of", other.uid)
        if spec.affinity:
            self.check_affinity(guest, name)
        for spread in spec.spread:
            self.check_spread(guest, name, spread)

    def check_devices(self, guest: Guest, name: str, devices: Sequence[int]) -> None:
        """Check that a guest gets the devices that it asks for, and that they have so much left."""
        left = [device.milli for device in self.hosts[name].devices]
        for other in self.on(name):
            for at, milli in zip(self.devices[other.uid], _millis(other), strict=False):
                if at < len(left):  # the host may have lost it meanwhile
                    left[at] -= milli
        assert len(devices) == len(_millis(guest))
        for at, milli in zip(devices, _millis(guest), strict=True):
            left[at] -= milli
            assert left[at] >= 0, (guest.uid, "device", at)

    def check_affinity(self, guest: Guest, name: str) -> None:
        terms = guest.spec.affinity
        there = [g for g, where in self.placed.values() if where in self.hosts and all(matches(t, g) for t in terms)]
        labelled = [g for g in there if any(g in self.near(t.topology, self.placed[g.uid][1]) for t in terms)]
        own = dict(self.hosts[name].labels)
        assert all(term.topology in own for term in terms)
        if not labelled and all(matches(term, guest) for term in terms):
            return
        assert all(any(g in self.near(term.topology, name) for g in there) for term in terms), (guest.uid, "affinity")

    def check_spread(self, guest: Guest, name: str, spread: Spread) -> None:
        values = {
            dict(h.labels)[spread.topology]: h.name
            for h in self.hosts.values()
            if all(s.topology in dict(h.labels) for s in guest.spec.spread)
            and all(dict(h.labels).get(k) == v for k, v in guest.spec.host_selector)
        }
        assert spread.topology in dict(self.hosts[name].labels)

        def counted(host: str) -> int:
            eligible = [
                g
                for g in self.near(spread.topology, host)
                if all(s.topology in dict(self.hosts[self.placed[g.uid][1]].labels) for s in guest.spec.spread)
                and all(dict(self.hosts[self.placed[g.uid][1]].labels).get(k) == v for k, v in guest.spec.host_selector)
            ]
            return sum(spread.selector.matches(g.spec.labels) and not g.spec.is_leaving for g in eligible)

        own = int(spread.selector.matches(guest.spec.labels))
        least = min(counted(host) for host in values.values())
        assert counted(name) + own - least <= spread.max_skew, (guest.uid, "spread")

    def check_quota(self, guest: Guest) -> None:
        """Check that a guest is within its tenant's maximum, and borrows no more than others leave."""
        quota = self.quotas.get(guest.spec.tenant)
        if quota is None:
            return
        names = {name for q in self.quotas.values() for name, _ in (*q.min, *q.max)}
        for name in names:
            asked = amount_of(guest.spec.requests, name)
            if not asked:
                continue
            used = {tenant: self.used(tenant, name) for tenant in self.quotas}
            then = used[guest.spec.tenant] + asked
            if any(known == name for known, _ in quota.max):
                assert then <= amount_of(quota.max, name), (guest.uid, "beyond its maximum")
            promised = sum(amount_of(q.min, name) for q in self.quotas.values())
            if promised and then > amount_of(quota.min, name):
                assert sum(used.values()) + asked <= promised, (guest.uid, "borrows too much")

    def check_maximum(self, members: Iterable[str]) -> None:
        """Check that tenants have no more than their maximum of what members of a gang ask for, all of them placed.

        What a gang may borrow depends on the order in which its members are looked at, which is not that of the binds.
        """
        for uid in members:
            one = self.guests[uid].spec
            quota = self.quotas.get(one.tenant)
            for name, most in quota.max if quota is not None else ():
                assert not amount_of(one.requests, name) or self.used(one.tenant, name) <= most, (uid, name)

    def used(self, tenant: str, name: str) -> int:
        return sum(amount_of(g.spec.requests, name) for g, _ in self.placed.values() if g.spec.tenant == tenant)

    def disrupt(self, guest: Guest, *, strictly: bool) -> None:
        """Count an eviction against all budgets, and check that none of them is broken."""
        for key, budget in self.budgets.items():
            selected = budget.selector is not None and budget.selector.matches(guest.spec.labels)
            if selected and budget.namespace == guest.spec.namespace and guest.name not in budget.disrupted:
                self.budgets[key] = msgspec.structs.replace(budget, allowed=budget.allowed - 1)
                assert not strictly or self.budgets[key].allowed >= 0, (guest.uid, "breaks", key)


def _millis(guest: Guest) -> list[int]:
    return [request.milli for request in guest.spec.devices for _ in range(request.count)]


def matches(term: GuestTerm, guest: Guest) -> bool:
    return term.selector is not None and term.selector.matches(guest.spec.labels)


# -- seeded instances -------------------------------------------------------------------------------------------------


class MemberKind(NamedTuple):
    """Members that are all alike: what each asks for, and what it says about the others."""

    members: int
    cpu: int
    memory: int
    app: str
    near: tuple[str, str] | None = None  # topology and app that must be there
    apart: tuple[tuple[str, str], ...] = ()  # topologies and apps that must not be there
    even: tuple[str, int, str] | None = None  # topology, skew and app to spread by


class InstanceHost(NamedTuple):
    """A host of an instance."""

    name: str
    cpu: int
    memory: int
    zone: str

    def domain(self, topology: str) -> str:
        """Return the domain that the host is in."""
        return self.zone if topology == "zone" else self.name


class Instance(NamedTuple):
    """Hosts and the members of one gang, which must all be placed."""

    seed: int
    hosts: tuple[InstanceHost, ...]
    kinds: tuple[MemberKind, ...]

    @property
    def size(self) -> int:
        """Return the number of members."""
        return sum(kind.members for kind in self.kinds)


def instance(seed: int) -> Instance:
    """Return one of many instances: hosts nearly filled by members that say something about each other.

    The members are cut from the hosts, so that their amounts fit in one way at least; the constraints come on top, and
    ``solve`` tells whether that way, or any other, is still open.
    """
    rng = Random(seed)
    hosts = tuple(
        InstanceHost(f"h{i}", rng.randint(4, 12), rng.randint(4, 12), rng.choice("xy" if seed % 2 else "xyz"))
        for i in range(rng.randint(3, 6))
    )
    pieces: list[tuple[int, int]] = []
    for machine in hosts:
        cpu, memory = machine.cpu, machine.memory
        for _ in range(rng.randint(1, 3)):
            if cpu < 1 or memory < 1 or len(pieces) == 8:
                break
            piece = (rng.randint(max(1, cpu // 3), cpu), rng.randint(max(1, memory // 3), memory))
            cpu, memory = cpu - piece[0], memory - piece[1]
            pieces.append(piece)
    sizes = sorted(Counter(_rounded(piece, rng) for piece in pieces).items())
    apps = [rng.choice("abc") for _ in sizes]
    kinds = tuple(MemberKind(n, *size, own, *_said(rng, apps)) for (size, n), own in zip(sizes, apps, strict=True))
    return Instance(seed, hosts, kinds)


def _rounded(piece: tuple[int, int], rng: Random) -> tuple[int, int]:
    """Make some pieces alike by cutting them down to even numbers."""
    if rng.random() < 0.5:
        return max(1, piece[0] // 2 * 2), max(1, piece[1] // 2 * 2)
    return piece


def _said(rng: Random, apps: Sequence[str]) -> tuple[Any, Any, Any]:
    topologies = ("zone", "host")
    near = (rng.choice(topologies), rng.choice(apps)) if rng.random() < 0.2 else None
    apart = ((rng.choice(("host", "host", "zone")), rng.choice(apps)),) if rng.random() < 0.4 else ()
    even = (rng.choice(topologies), rng.randint(1, 2), rng.choice(apps)) if rng.random() < 0.25 else None
    return near, apart, even


State = tuple[tuple[int, ...], ...]  # for each kind, how many are on each host


class Rules:
    """The rules of one instance, read once: who is near whom, who minds whom, and who is counted."""

    def __init__(self, case: Instance) -> None:
        self.case = case
        hosts, kinds = case.hosts, case.kinds
        self._near = {
            topology: [[b for b, other in enumerate(hosts) if _is_near(topology, one, other)] for one in hosts]
            for topology in ("zone", "host")
        }
        self._named = {name: [k for k, kind in enumerate(kinds) if kind.app == name] for name in "abc"}
        self._minded: list[list[tuple[str, int]]] = [
            [
                (topology, k)
                for topology in ("zone", "host")
                for k, other in enumerate(kinds)
                if (topology, other.app) in one.apart or (topology, one.app) in other.apart
            ]
            for one in kinds
        ]

    def left_on(self, state: State, at: int) -> tuple[int, int]:
        """Return what a host has left, cpu and memory."""
        cpu, memory = self.case.hosts[at].cpu, self.case.hosts[at].memory
        for kind, row in zip(self.case.kinds, state, strict=True):
            cpu -= kind.cpu * row[at]
            memory -= kind.memory * row[at]
        return cpu, memory

    def count(self, state: State, topology: str, at: int, name: str) -> int:
        """Count the members of an app in the domain of a host."""
        return sum(state[kind][b] for kind in self._named[name] for b in self._near[topology][at])

    def is_open(self, state: State, kind: int, at: int) -> bool:
        """Say whether a host has room for one more, and nobody near minds it or is minded; once shut it stays shut."""
        one = self.case.kinds[kind]
        cpu, memory = self.left_on(state, at)
        if one.cpu > cpu or one.memory > memory:
            return False
        return not any(state[other][b] for topology, other in self._minded[kind] for b in self._near[topology][at])

    def fits(self, state: State, kind: int, at: int) -> bool:
        """Say whether one more of a kind may go to a host, next to all who are placed."""
        one = self.case.kinds[kind]
        if not self.is_open(state, kind, at):
            return False
        if one.near is not None:
            topology, name = one.near
            is_first = one.app == name and not any(any(state[other]) for other in self._named[name])
            if not is_first and not self.count(state, topology, at, name):
                return False
        if one.even is not None:
            topology, skew, name = one.even
            least = min(self.count(state, topology, b, name) for b in range(len(self.case.hosts)))
            if self.count(state, topology, at, name) + (one.app == name) - least > skew:
                return False
        return True

    def is_hopeless(self, state: State, left: Sequence[int]) -> bool:
        """Say whether the hosts that are still open to some kind cannot hold what is left of it."""
        for kind in left:
            one = self.case.kinds[kind]
            missing = one.members - sum(state[kind])
            for at in range(len(self.case.hosts)):
                if missing > 0 and self.is_open(state, kind, at):
                    cpu, memory = self.left_on(state, at)
                    missing -= min(cpu // one.cpu, memory // one.memory)
            if missing > 0:
                return True
        return False


def _is_near(topology: str, one: InstanceHost, other: InstanceHost) -> bool:
    return one.domain(topology) == other.domain(topology)


def add(state: State, kind: int, at: int) -> State:
    """Return the state with one more of a kind on a host."""
    row = state[kind]
    return (*state[:kind], (*row[:at], row[at] + 1, *row[at + 1 :]), *state[kind + 1 :])


def empty(case: Instance) -> State:
    """Return the state in which nobody is placed."""
    return tuple((0,) * len(case.hosts) for _ in case.kinds)


def solve(case: Instance, most: int = 200_000) -> list[tuple[int, int]] | None:
    """Return a way to place all members one after another, as (kind, host), or None when there is none.

    Every set of placements that can be reached is looked at once, whatever the order; what is hopeless is cut off.
    Kinds for which the order does not matter, neither for themselves nor for others, come last and in turn.
    """
    rules = Rules(case)
    before: dict[State, tuple[State, int, int] | None] = {empty(case): None}
    order = sorted(range(len(case.kinds)), key=lambda k: case.kinds[k].cpu + case.kinds[k].memory)
    named = {kind.near[1] for kind in case.kinds if kind.near} | {kind.even[2] for kind in case.kinds if kind.even}
    touchy = {k for k, kind in enumerate(case.kinds) if kind.near or kind.even or kind.app in named}
    stack = [empty(case)]
    while stack:
        state = stack.pop()
        left = [k for k in order if sum(state[k]) < case.kinds[k].members]
        if not left:
            return _steps(before, state)
        if rules.is_hopeless(state, left):
            continue
        # The last one pushed is tried first: the largest kind on its first host.
        for kind in [k for k in left if k in touchy] or left[-1:]:
            for at in range(len(case.hosts) - 1, -1, -1):
                after = add(state, kind, at)
                if after not in before and rules.fits(state, kind, at):
                    before[after] = (state, kind, at)
                    stack.append(after)
        assert len(before) < most, f"instance {case.seed} is too large for an exhaustive search"
    return None


def _steps(before: Mapping[State, tuple[State, int, int] | None], state: State) -> list[tuple[int, int]]:
    steps: list[tuple[int, int]] = []
    while (last := before[state]) is not None:
        state, kind, at = last
        steps.append((kind, at))
    return steps[::-1]


def engine_for(case: Instance, chosen: str) -> Engine:
    """Return an engine with the hosts of an instance, and its gang waiting to be tried."""
    hosts = [
        Host(
            name=machine.name,
            capacity=amounts({"cpu": machine.cpu, "memory": machine.memory}),
            labels=labels({"zone": machine.zone, "host": machine.name}),
        )
        for machine in case.hosts
    ]
    engine = Engine([policy(chosen)], seed=case.seed)
    engine.apply(HostsJoined(hosts=tuple(hosts)))
    form(engine, "team", case.size)
    for number, kind in enumerate(case.kinds):
        shape = GuestSpec(
            requests=amounts({"cpu": kind.cpu, "memory": kind.memory}),
            labels=labels({"app": kind.app}),
            affinity=(GuestTerm(kind.near[0], app(kind.near[1])),) if kind.near else (),
            anti_affinity=tuple(GuestTerm(topology, app(name)) for topology, name in kind.apart),
            spread=(Spread(kind.even[0], kind.even[1], app(kind.even[2])),) if kind.even else (),
        )
        for i in range(kind.members):
            name = f"{number}-{i}"
            engine.apply(GuestArrived(guest=Guest(name=name, uid=name, spec=shape, gang="default/team")))
    return engine
