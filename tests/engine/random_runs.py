"""Random runs of an engine: seeded facts about a small cluster that react to what the engine decided.

A run is a source of ``RunStep``: the facts since the last step, and when and how far to step. It reads nothing but the
actions of earlier steps, so any engine that is given the same turns must answer the same. To add a kind of fact, write
a method that returns facts and name it in ``_KINDS`` with how often it is drawn and which share of runs has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import msgspec

from hostler.engine.cache.wide_rows import CacheBudget
from hostler.model import (
    Abandon,
    Action,
    Answered,
    Ask,
    AskUse,
    Bind,
    BindFailed,
    Budget,
    BudgetChanged,
    BudgetLeft,
    Device,
    DeviceRequest,
    Event,
    Evict,
    EvictFailed,
    Expression,
    Gang,
    GangChanged,
    GangLeft,
    Guest,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestSpec,
    GuestTerm,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostPort,
    Move,
    NamespaceChanged,
    Policy,
    PolicyChanged,
    PreemptionRules,
    Prepare,
    Prepared,
    QueueRules,
    Quota,
    QuotasChanged,
    Reservation,
    ReservationChanged,
    ReservationLeft,
    Selector,
    Spread,
    Taint,
    Term,
    Toleration,
    WeightedGuestTerm,
    amount_of,
    amounts,
    labels,
)
from tests.engine.fleet import SECOND, policy

APPS = ("a", "b", "c")
RARE = tuple(f"rare-{n}" for n in range(9))  # names that few hosts have: they come, go and come again
TENANTS = ("", "", "t", "u")
NAMESPACES = ("default", "default", "default", "other")
GANGS = ("g0", "g1")
_LIMITS = PreemptionRules(max_evictions=6, window_ns=60 * SECOND, wait_ns=20 * SECOND, max_repeats=2, max_cascade=2)


class FewSlots(CacheBudget):
    """Room for so few shapes that slots are given up all the time, while those that stay are warm.

    A plain budget of few bytes empties the whole cache between decisions of a small cluster: then nothing is warm.
    """

    def entries(self, entry_bytes: int) -> int:
        """Return how many entries of a size a pool may have."""
        return self.least_entries


BUDGETS = (CacheBudget(), FewSlots(least_entries=2), FewSlots(least_entries=5), FewSlots(least_entries=9),
           CacheBudget(0, 3))  # fmt: skip


class RunStep(NamedTuple):
    """What happens until the next step, and that step."""

    facts: tuple[Event, ...]
    now: int
    limit: int | None


def app(name: str) -> Selector:
    """Select guests by their app."""
    return Selector((Expression("app", "In", (name,)),))


def policies(rng: Random) -> tuple[Policy, ...]:
    """Return one or two policies that evict and one that takes turns or asks outside; the first is the default."""
    strict = msgspec.structs.replace(_LIMITS, budgets="strict")
    movable = msgspec.structs.replace(_LIMITS, movable_first=True, moves=True)
    evicting = [
        policy("first_fit", preemption=rng.choice((strict, movable)), reclaim=True),
        policy("spread", preemption=movable),
        policy("kubernetes", preemption=rng.choice((_LIMITS, movable)), reclaim=rng.random() < 0.5),
    ]
    others = [
        policy("round_robin"),
        policy("pack", ask=AskUse("judge", timeout_ns=5 * SECOND, ignorable=rng.random() < 0.5, always=True)),
    ]
    return (*rng.sample(evicting, 2), rng.choice(others))


class RandomRun:
    """One seeded run. ``turn`` returns what happens next; ``notice`` takes what the engine did about it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.seed = seed
        self.policies = policies(rng)
        self.rules = QueueRules(
            flush_after_ns=rng.choice((30, 300)) * SECOND,
            jitter_percent=rng.choice((0, 10)),
            prepare_timeout_ns=20 * SECOND,
            search_units=rng.choice((1, 1, 4, 128)),  # searches of gangs that go on in later steps
        )
        self.most_guests = rng.choice((8, 12, 16, 24))
        self.cache_budget = rng.choice(BUDGETS)
        self.hosts: dict[str, Host] = {}
        self.guests: dict[str, Guest] = {}  # that have not left
        self.placed: dict[str, str] = {}  # by what the run knows
        self.gone: dict[str, Host] = {}  # hosts that left; they may come again, as they were or changed
        self._names = 0
        self._now = 0
        self._late: list[tuple[int, Event]] = []  # answers on their way, with the turn that brings them
        self._turns = 0
        # Every run leaves some kinds out, so that those that stay meet each other more often.
        kinds = [(kind, weight) for kind, weight, share in self._KINDS if rng.random() < share]
        self._kinds = [kind for kind, weight in kinds for _ in range(weight)]
        self._has_gangs = RandomRun._gang in self._kinds

    # -- driving ------------------------------------------------------------------------------------------------------

    def turn(self) -> RunStep:
        """Return the facts up to the next step, and the step."""
        rng = self.rng
        self._turns += 1
        facts: list[Event] = []
        if self._turns == 1:
            facts += [HostJoined(host=self._host(f"h{n}")) for n in range(rng.randint(2, 6))]
            facts += [fact for _ in range(rng.randint(1, 4)) for fact in self._tenancy()]
        due = [fact for turn, fact in self._late if turn <= self._turns]
        self._late = [(turn, fact) for turn, fact in self._late if turn > self._turns]
        facts += due
        for _ in range(rng.choice((0, 1, 1, 2, 3, 5)) if self._turns > 1 else 5):
            facts += rng.choice(self._kinds)(self)
        self._now += rng.choice((0, 1, 1, 2, 5, 12, 40)) * SECOND
        for fact in facts:
            self._remember(fact)
        return RunStep(tuple(facts), self._now, rng.choice((None, None, None, None, 1, 3)))

    def notice(self, actions: Sequence[Action]) -> None:
        """Answer what the engine asked for: soon, late, with a failure, or never."""
        for action in actions:
            match action:
                case Bind():
                    if self.rng.random() < 0.12:
                        self._answer(BindFailed(uid=action.uid, host=action.host, reason="lost"))
                    else:
                        self._answer(GuestBound(uid=action.uid, host=action.host))
                case Prepare():
                    error = "no disk" if self.rng.random() < 0.2 else ""
                    self._answer(Prepared(uid=action.uid, host=action.host, error=error), self._delay())
                case Ask():
                    self._answer(self._judgement(action), self._delay())
                case Evict():
                    if self.rng.random() < 0.25:
                        self._answer(EvictFailed(uid=action.uid, reason="not allowed"))
                    else:  # most victims leave late, some never
                        self._answer(GuestLeft(uid=action.uid), self.rng.choice((1, 2, 3, 6, 99)))
                case Move():
                    self._carry_out_move(action)
                case Abandon():
                    pass

    def _carry_out_move(self, move: Move) -> None:
        """Let a guest move: it arrives at its destination, and later one of its two ends is given up."""
        source = self.guests.get(move.uid)
        if source is None or self.rng.random() < 0.4:
            self._answer(EvictFailed(uid=move.uid, reason="it cannot move"))
            return
        self._names += 1
        uid = f"m{self._names}"
        arrives = self.rng.choice((1, 1, 1, 2))
        moved = msgspec.structs.replace(source, name=uid, uid=uid, host=move.target, on_devices=(), replaces=move.uid)
        self._answer(GuestArrived(guest=moved), arrives)
        over = arrives + self.rng.choice((0, 1, 2, 4, 99))
        self._answer(GuestLeft(uid=uid if self.rng.random() < 0.3 else move.uid), over)

    def _answer(self, fact: Event, turns: int | None = None) -> None:
        self._late.append((self._turns + (self.rng.choice((1, 1, 1, 2, 4)) if turns is None else turns), fact))

    def _delay(self) -> int:
        """Return after how many turns an answer from outside comes; some come too late, some never."""
        return self.rng.choice((1, 1, 1, 2, 4, 99))

    def _remember(self, fact: Event) -> None:
        match fact:
            case HostJoined(host=host) | HostChanged(host=host):
                self.hosts[host.name] = host
            case HostLeft(name=name):
                if name in self.hosts:
                    self.gone[name] = self.hosts.pop(name)
            case GuestArrived(guest=guest) | GuestChanged(guest=guest):
                self.guests[guest.uid] = guest
                if guest.host:
                    self.placed[guest.uid] = guest.host
            case GuestBound(uid=uid, host=host):
                self.placed[uid] = host
            case GuestLeft(uid=uid):
                self.guests.pop(uid, None)
                self.placed.pop(uid, None)

    # -- facts --------------------------------------------------------------------------------------------------------

    def _host(self, name: str) -> Host:
        rng = self.rng
        zone = rng.choice(("x", "y", "y", ""))
        return Host(
            name=name,
            capacity=amounts(
                {"cpu": rng.randint(2, 8), "memory": rng.randint(4, 12), "guests": rng.choice((3, 20))}
                | dict.fromkeys(rng.sample(RARE, rng.choice((0, 0, 1, 2))), 2)
            ),
            devices=(Device(rng.choice(("gpu", "gpu", *RARE[:3])), rng.choice(("A", "B", *RARE))),)
            * rng.choice((0, 0, 1, 2)),
            labels=labels({"zone": zone, "host": name} if zone else {"host": name}),
            taints=rng.choice(((), (), (), (Taint("dedicated", name),))),
            cordoned=rng.random() < 0.1,
            rank=rng.randint(0, 2),
        )

    def _term(self) -> GuestTerm:
        rng = self.rng
        spaces = rng.choice(((), (), ("default", "other")))
        chosen = Selector((Expression("team", "In", ("red",)),)) if rng.random() < 0.15 else None
        return GuestTerm(rng.choice(("zone", "host")), app(rng.choice(APPS)), spaces, chosen)

    def _spec(self) -> GuestSpec:
        rng = self.rng
        name = rng.choice(APPS)
        wants = amounts(
            {"cpu": rng.choice((0, 1, 1, 2, 3, 4)), "memory": rng.choice((0, 1, 2, 3))}
            | dict.fromkeys(rng.sample(RARE, rng.choice((0, 0, 0, 0, 1))), 1)
        )
        kind, models = rng.choice(("gpu", "gpu", RARE[0])), rng.choice(((), ("A",), ("B", *RARE[4:])))
        gpus = (DeviceRequest(kind, rng.choice((1, 2)), rng.choice((500, 1000)), models),)
        return GuestSpec(
            requests=wants,
            devices=gpus if rng.random() < 0.15 else (),
            priority=rng.choice((0, 0, 5, 9)),
            policy=rng.choice(("", *(each.name for each in self.policies))),
            labels=labels({"app": name}),
            namespace=rng.choice(NAMESPACES),
            tenant=rng.choice(TENANTS),
            affinity=(self._term(),) if rng.random() < 0.15 else (),
            anti_affinity=(self._term(),) if rng.random() < 0.3 else (),
            preferred_affinity=(WeightedGuestTerm(5, self._term()),) if rng.random() < 0.1 else (),
            preferred_anti_affinity=(WeightedGuestTerm(7, self._term()),) if rng.random() < 0.1 else (),
            spread=(Spread(rng.choice(("zone", "host")), rng.choice((1, 2)), app(name), rng.random() < 0.7),)
            if rng.random() < 0.25
            else (),
            siblings=app(name) if rng.random() < 0.2 else None,
            ports=(HostPort(rng.choice((80, 81))),) if rng.random() < 0.08 else (),
            tolerations=(Toleration("dedicated", "Exists"),) if rng.random() < 0.3 else (),
            host_selector=labels({"zone": "x"}) if rng.random() < 0.1 else (),
            may_preempt=rng.random() < 0.85,
            prepare=("disk",) if rng.random() < 0.1 else (),
            is_pinned=rng.random() < 0.1,
            move_labels=rng.choice((None, (), (), (), (), labels({"zone": "y"}))),
        )

    def _arrival(self) -> list[Event]:
        """A few guests come, most of them pending, some of one shape, some in a gang."""
        rng = self.rng
        if len(self.guests) >= self.most_guests:
            return self._departure()
        spec = self._spec()
        gang = f"default/{rng.choice(GANGS)}" if self._has_gangs and rng.random() < 0.2 else ""
        found: list[Event] = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            self._names += 1
            runs = not gang and self.hosts and rng.random() < 0.15
            where = rng.choice(sorted(self.hosts)) if runs else ""
            name = f"v{self._names}"
            found.append(GuestArrived(guest=Guest(name=name, uid=name, spec=spec, host=where, gang=gang)))
            if rng.random() < 0.4:
                spec = self._spec()
        return found

    def _preemptor(self) -> list[Event]:
        """A guest comes that may evict others and wants much; one that leaves its host may come with it."""
        rng = self.rng
        spec = msgspec.structs.replace(
            self._spec(), priority=9, may_preempt=True, policy=self.policies[rng.randint(0, 1)].name, prepare=(),
            requests=amounts({"cpu": rng.randint(2, 4)}), devices=(), host_selector=(), affinity=(),
            host_name=rng.choice((*sorted(self.hosts), "", "")),
        )  # fmt: skip
        self._names += 1
        name = f"p{self._names}"
        found: list[Event] = [GuestArrived(guest=Guest(name=name, uid=name, spec=spec))]
        return found + self._departure() if rng.random() < 0.2 else found

    def _relocation(self) -> list[Event]:
        """A guest comes that needs most of one host, where small guests run that can move."""
        rng = self.rng
        if not self.hosts or len(self.guests) >= self.most_guests:
            return self._departure()
        name = rng.choice(sorted(self.hosts))
        cpu = amount_of(self.hosts[name].capacity, "cpu")
        anywhere = (Toleration("dedicated", "Exists"),)
        small = GuestSpec(
            requests=amounts({"cpu": 1}), move_labels=rng.choice(((), (), labels({"zone": "y"}))), tolerations=anywhere,
            labels=labels({"app": rng.choice(APPS)}), tenant=rng.choice(TENANTS), is_pinned=rng.random() < 0.1,
            anti_affinity=(self._term(),) if rng.random() < 0.1 else (),
        )  # fmt: skip
        found: list[Event] = []
        for _ in range(rng.choice((1, 1, 2))):
            self._names += 1
            found.append(
                GuestArrived(guest=Guest(name=f"s{self._names}", uid=f"s{self._names}", spec=small, host=name))
            )
        self._names += 1
        large = msgspec.structs.replace(
            small, requests=amounts({"cpu": rng.randint(max(cpu - 1, 1), cpu)}), priority=9, host_name=name,
            policy=self.policies[rng.randint(0, 1)].name, anti_affinity=(), is_pinned=False,
        )  # fmt: skip
        return [*found, GuestArrived(guest=Guest(name=f"p{self._names}", uid=f"p{self._names}", spec=large))]

    def _departure(self) -> list[Event]:
        """A guest leaves, preferably a placed one."""
        found = sorted(self.placed if self.placed and self.rng.random() < 0.8 else self.guests)
        return [GuestLeft(uid=self.rng.choice(found))] if found else []

    def _resize(self) -> list[Event]:
        """A guest becomes another shape, or its end is decided."""
        if not self.guests:
            return []
        known = self.guests[self.rng.choice(sorted(self.guests))]
        spec = self._spec()
        if self.rng.random() < 0.3:
            spec = msgspec.structs.replace(known.spec, is_leaving=True)
        where = self.placed.get(known.uid, "")
        gang = f"default/{self.rng.choice(GANGS)}" if known.gang and self.rng.random() < 0.3 else known.gang
        return [GuestChanged(guest=msgspec.structs.replace(known, spec=spec, host=where, gang=gang))]

    def _move_host(self) -> list[Event]:
        """A host comes, goes, or changes."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.3 or len(self.hosts) < 2:
            if self.gone and rng.random() < 0.8:
                name, before = self.gone.popitem()
                return [HostJoined(host=before if rng.random() < 0.6 else self._host(name))]
            return [HostJoined(host=self._host(f"h{rng.randint(0, 7)}"))]
        name = rng.choice(sorted(self.hosts))
        if roll < 0.6:
            return [HostLeft(name=name)]
        if roll < 0.75:
            flipped = not self.hosts[name].cordoned
            return [HostChanged(host=msgspec.structs.replace(self.hosts[name], cordoned=flipped))]
        return [HostChanged(host=self._host(name))]

    def _gang(self) -> list[Event]:
        """A gang is declared, changes or goes; members come with it."""
        rng = self.rng
        name = rng.choice(GANGS)
        if rng.random() < 0.15:
            return [GangLeft(key=f"default/{name}")]
        gang = Gang(
            name=name,
            min_count=rng.randint(1, 4),
            priority=rng.choice((None, None, 5, 9)),
            topology=rng.choice(("", "", "zone")),
            disruption=rng.choice(("single", "all")),
            when_broken=rng.choice(("keep", "prefer_repair", "release_after")),
            release_after_ns=15 * SECOND,
            head_of_line=rng.choice(("skip", "reserve")),
        )
        found: list[Event] = [GangChanged(gang=gang)]
        spec = self._spec()
        for _ in range(rng.randint(1, 4) if len(self.guests) < self.most_guests else 0):
            self._names += 1
            member = f"m{self._names}"
            found.append(GuestArrived(guest=Guest(name=member, uid=member, spec=spec, gang=gang.key)))
            if rng.random() < 0.5:
                spec = self._spec()
        return found

    def _tenancy(self) -> list[Event]:
        """Budgets, quotas, reservations or a namespace's labels change."""
        rng = self.rng
        match rng.randint(0, 6):
            case 0 | 1:
                name = rng.choice(("b0", "b1"))
                budget = Budget(name=name, selector=app(rng.choice(APPS)), allowed=rng.choice((0, 0, 1, 2)))
                return [BudgetChanged(budget=budget)]
            case 2:
                return [BudgetLeft(key=f"default/{rng.choice(('b0', 'b1'))}")]
            case 3:
                quotas = [
                    Quota(tenant=tenant, min=amounts({"cpu": (least := rng.randint(0, 5))}),
                          max=rng.choice(((), amounts({"cpu": least + rng.randint(0, 5), "memory": 12}))))
                    for tenant in ("t", "u") if rng.random() < 0.7
                ]  # fmt: skip
                return [QuotasChanged(quotas=tuple(quotas))]
            case 4:
                return [ReservationLeft(name=rng.choice(("r", "s")))]
            case 5:
                marks = labels({"team": "red"}) if rng.random() < 0.6 else ()
                return [NamespaceChanged(name=rng.choice(NAMESPACES), labels=marks)]
        whose = rng.choice(("t", "u", *GANGS, "app"))
        start = self._now + rng.choice((0, 0, 20)) * SECOND
        length = rng.choice((0, 30, 90)) * SECOND
        return [
            ReservationChanged(
                reservation=Reservation(
                    name=rng.choice(("r", "s")),
                    amounts=amounts({"cpu": rng.randint(0, 4)}),
                    hosts=rng.choice(((), (Term((Expression("zone", "In", ("y",)),)),))),
                    tenant=whose if whose in TENANTS else "",
                    gang=f"default/{whose}" if whose in GANGS else "",
                    selector=app("a") if whose == "app" else None,
                    since=start,
                    until=start + length if length else 0,
                )
            )
        ]

    def _other_policies(self) -> list[Event]:
        """The policies change their order, or one of them goes."""
        found = list(self.policies)
        self.rng.shuffle(found)
        return [PolicyChanged(policies=tuple(found[: self.rng.randint(1, len(found))]))]

    def _judgement(self, ask: Ask) -> Event:
        rng = self.rng
        if rng.random() < 0.15:
            return Answered(uid=ask.uid, ask=ask.ask, error="no answer")
        likes = [host for host in ask.hosts if rng.random() < 0.6]
        refused = tuple((host, "too warm") for host in ask.hosts if host not in likes)
        return Answered(uid=ask.uid, ask=ask.ask, scores=tuple((h, rng.randint(0, 9)) for h in likes), refused=refused)

    # How often a kind is drawn in the runs that have it, and which share of runs has it.
    _KINDS: tuple[tuple[Callable[[RandomRun], list[Event]], int, float], ...] = (
        (_arrival, 8, 1),
        (_preemptor, 4, 0.75),
        (_relocation, 5, 0.5),
        (_departure, 5, 1),
        (_resize, 2, 0.5),
        (_move_host, 4, 0.75),
        (_gang, 4, 0.6),
        (_tenancy, 3, 0.8),
        (_other_policies, 1, 0.3),
    )
