"""A slow twin of what guests say about each other, in plain Python: it recounts everything from who is where.

Written from ``kubernetes-scheduling.md`` 2.4 (filters) and 2.7 (scores); where that is too short, from the behaviour of
kube-scheduler 1.37 that it describes. Room, hosts' own marks and allocation scores are those of ``twin``. Nothing is
kept between two questions but hosts, guests and the labels of namespaces.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hostler.engine import Engine
from hostler.engine.cluster.counters import CounterKey
from hostler.engine.cluster.terms import MatchedGuests, ResolvedTerm
from hostler.engine.cluster.terms import TermHolders as HeldTerm
from hostler.model import (
    Action,
    Bind,
    Defer,
    Event,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestsArrived,
    GuestSpec,
    GuestTerm,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostPort,
    HostsJoined,
    Labels,
    NamespaceChanged,
    Policy,
    QueueRules,
    Reason,
    ScorerUse,
    Selector,
    Spread,
)
from tests.engine import twin

HOSTNAME = "kubernetes.io/hostname"
MIB = 1 << 20
LEFT_OUT = -1  # the raw score of a host that soft spreading passes over


class PeerVerdicts(NamedTuple):
    """What the twin says about one guest: hosts that may win, why others refuse, and all scores of those that fit.

    A host that refuses has all the reasons that may be named first: several only where guests that run already stand
    in the way, because nothing says which of them is named.
    """

    winners: tuple[str, ...]
    refused: dict[str, tuple[Reason, ...]]
    totals: dict[str, int]
    raws: dict[str, dict[str, int]]  # host to scorer, as it is shown
    weighted: dict[str, dict[str, int]]
    bests: tuple[str, ...] = ()  # hosts of equal worth, before ties are broken


class PlacedGuest(NamedTuple):
    """A guest on a host that is there."""

    uid: str
    spec: GuestSpec
    host: Host


# -- who is meant -----------------------------------------------------------------------------------------------------


def selects(selector: Selector | None, labels: Labels) -> bool:
    """All requirements must hold; no selector selects nobody, an empty one everybody."""
    if selector is None:
        return False
    values = dict(labels)
    for wanted in selector.expressions:
        has, value = wanted.key in values, values.get(wanted.key)
        holds = {
            "In": has and value in wanted.values,
            "NotIn": not has or value not in wanted.values,
            "Exists": has,
            "DoesNotExist": not has,
        }
        if not holds[wanted.operator]:
            return False
    return True


def value_of(host: Host, key: str) -> str | None:
    return dict(host.labels).get(key)


def are_near(one: Host, other: Host, key: str) -> bool:
    """Both hosts have the label, with the same value."""
    return value_of(one, key) is not None and value_of(one, key) == value_of(other, key)


def is_open(spec: GuestSpec, host: Host) -> bool:
    """No taint keeps the guest off the host."""
    hard = [taint for taint in host.taints if taint.effect != "PreferNoSchedule"]
    return all(any(t.tolerates(taint) for t in spec.tolerations) for taint in hard)


def accepts(spec: GuestSpec, host: Host) -> bool:
    """The guest's own selector and affinity accept the host."""
    if any(dict(host.labels).get(key) != value for key, value in spec.host_selector):
        return False
    return not spec.host_affinity or any(term.matches(host.name, host.labels) for term in spec.host_affinity)


def collide(one: HostPort, other: HostPort) -> bool:
    """Same protocol and port, and the same address or one that means all."""
    if (one.protocol, one.port) != (other.protocol, other.port):
        return False
    return one.address == other.address or "" in (one.address, other.address)


class GuestTwin(twin.Twin):
    """The slow twin, with what guests say about each other."""

    def __init__(self, *policies: Policy) -> None:
        super().__init__(*policies)
        self.namespaces: dict[str, Labels] = {}

    def book(self, host: str, uid: str, spec: GuestSpec, devices: tuple[int, ...]) -> None:
        """Note where a guest is, on a host that is there or that nobody has heard of yet."""
        self.held.setdefault(host, {})
        super().book(host, uid, spec, devices)

    def placed(self) -> list[PlacedGuest]:
        """All guests whose host is there; those of absent hosts count for nothing."""
        return [
            PlacedGuest(uid, held.spec, host)
            for name, host in self.hosts.items()
            for uid, held in self.held.get(name, {}).items()
        ]

    def means(self, term: GuestTerm, owner: str, other: GuestSpec) -> bool:
        """The term of a guest in the namespace ``owner`` is about the other guest."""
        if not selects(term.selector, other.labels):
            return False
        if not term.namespaces and term.namespace_selector is None:
            return other.namespace == owner
        if other.namespace in term.namespaces:
            return True
        return selects(term.namespace_selector, self.namespaces.get(other.namespace, ()))

    def limit(self, policy: Policy, host: Host, resource: str) -> int:
        limit = super().limit(policy, host, resource)
        return min(limit, 1) if resource == "guests" and policy.one_guest_per_host else limit

    # -- filters ------------------------------------------------------------------------------------------------------

    def why_not_here(self, policy: Policy, spec: GuestSpec, host: Host) -> tuple[Reason, ...]:
        """Return the reasons that may be named first; none means that the host fits."""
        alone = self.why_not(policy, spec, host)
        if alone is not None:
            return (alone,)
        names = [use.name for use in policy.filters]
        found: Iterable[Reason] = ()
        if "ports" in names:
            found = self.taken_ports(spec, host)
        if not found and "spread" in names:
            found = self.crowded(policy, spec, host)
        if not found and "guest_affinity" in names:
            found = self.unmet(spec, host) or self.apart(spec, host) or self.kept_away(spec, host)
        return tuple(found)

    def taken_ports(self, spec: GuestSpec, host: Host) -> list[Reason]:
        here = [port for guest in self.placed() if guest.host is host for port in guest.spec.ports]
        taken = [port for port in spec.ports if any(collide(port, other) for other in here)]
        return [Reason("ports", "port_taken", port.text()) for port in taken[:1]]

    def crowded(self, policy: Policy, spec: GuestSpec, host: Host) -> list[Reason]:
        """Hard spreading: the first constraint whose skew would be too large, or whose label the host lacks."""
        hard = [spread for spread in self.spreads(policy, spec) if spread.is_hard]
        keys = {spread.topology for spread in hard}
        for spread in hard:
            domain = value_of(host, spread.topology)
            if domain is None:
                return [Reason("spread", "no_topology_label", spread.topology)]
            counts = self.counts_by_domain(spread, spec, keys)
            least = min(counts.values()) if len(counts) >= max(spread.min_domains, 1) else 0
            itself = int(selects(spread.selector, spec.labels))
            if counts.get(domain, 0) + itself - least > spread.max_skew:
                return [Reason("spread", "skew_too_large", spread.text())]
        return []

    def unmet(self, spec: GuestSpec, host: Host) -> list[Reason]:
        """Required affinity: near to guests that all terms mean; the first of its kind may go anywhere with the labels.

        Guests on hosts without any of the labels are near to nobody, so they do not make others come second.
        """
        terms = spec.affinity
        friends = [g.host for g in self.placed() if all(self.means(t, spec.namespace, g.spec) for t in terms)]
        has_some = any(value_of(friend, term.topology) is not None for friend in friends for term in terms)
        is_first = not has_some and all(self.means(term, spec.namespace, spec) for term in terms)
        for term in terms:
            is_near = any(are_near(host, friend, term.topology) for friend in friends)
            if value_of(host, term.topology) is None or not (is_near or is_first):
                return [Reason("guest_affinity", "affinity_unmet", term.text())]
        return []

    def apart(self, spec: GuestSpec, host: Host) -> list[Reason]:
        """Required anti-affinity of the guest itself."""
        for term in spec.anti_affinity:
            foes = [g.host for g in self.placed() if self.means(term, spec.namespace, g.spec)]
            if any(are_near(host, foe, term.topology) for foe in foes):
                return [Reason("guest_affinity", "anti_affinity", term.text())]
        return []

    def kept_away(self, spec: GuestSpec, host: Host) -> list[Reason]:
        """Required anti-affinity of those who are there already."""
        return [
            Reason("guest_affinity", "existing_anti_affinity", term.text())
            for guest in self.placed()
            for term in guest.spec.anti_affinity
            if self.means(term, guest.spec.namespace, spec) and are_near(host, guest.host, term.topology)
        ]

    # -- spreading ----------------------------------------------------------------------------------------------------

    def spreads(self, policy: Policy, spec: GuestSpec) -> list[Spread]:
        """The guest's own constraints, else the policy's defaults for the guests of one owner."""
        if spec.spread or spec.siblings is None:
            return list(spec.spread)
        return [Spread(**default, selector=spec.siblings) for default in defaults_of(policy)]

    def counts_by_domain(self, spread: Spread, spec: GuestSpec, keys: Iterable[str]) -> dict[str | None, int]:
        """Count the guests of the namespace that the selector means, over the hosts that count for the constraint."""
        hosts = [host for host in self.hosts.values() if all(value_of(host, key) is not None for key in keys)]
        if spread.honor_affinity:
            hosts = [host for host in hosts if accepts(spec, host)]
        if spread.honor_taints:
            hosts = [host for host in hosts if is_open(spec, host)]
        counts = dict.fromkeys((value_of(host, spread.topology) for host in hosts), 0)
        for guest in self.placed():
            if guest.host in hosts and self.is_counted(spread, spec, guest.spec):
                counts[value_of(guest.host, spread.topology)] += 1
        return counts

    def is_counted(self, spread: Spread, spec: GuestSpec, other: GuestSpec) -> bool:
        """Only guests of the namespace that stay; a selector without requirements counts nobody."""
        has_requirements = spread.selector is not None and bool(spread.selector.expressions)
        is_there = other.namespace == spec.namespace and not other.is_leaving
        return has_requirements and is_there and selects(spread.selector, other.labels)

    def crowding(self, policy: Policy, spec: GuestSpec, feasible: list[Host]) -> list[int] | None:
        """Soft spreading: how crowded each host's domains are, LEFT_OUT for hosts without all the labels."""
        soft = [spread for spread in self.spreads(policy, spec) if not spread.is_hard]
        if not soft:
            return None
        # The defaults of a policy also serve hosts that lack a label: those are spread by the labels they have.
        keys = {spread.topology for spread in soft} if spec.spread else set()
        scored = [host for host in feasible if all(value_of(host, key) is not None for key in keys)]
        sums = dict.fromkeys((host.name for host in scored), 0.0)
        for spread in soft:
            is_host = spread.topology == HOSTNAME
            # A missing label is a value like any other when domains are counted.
            domains = len(scored) if is_host else len({value_of(host, spread.topology) for host in scored})
            counts = {} if is_host else self.counts_by_domain(spread, spec, keys)
            for host in scored:
                domain = value_of(host, spread.topology)
                if domain is None:
                    continue
                count = self.count_on(host, spread, spec) if is_host else counts.get(domain, 0)
                sums[host.name] += count * math.log(domains + 2) + (spread.max_skew - 1)
        return [math.floor(sums[host.name] + 0.5) if host.name in sums else LEFT_OUT for host in feasible]

    def count_on(self, host: Host, spread: Spread, spec: GuestSpec) -> int:
        return sum(g.host is host and self.is_counted(spread, spec, g.spec) for g in self.placed())

    # -- scores -------------------------------------------------------------------------------------------------------

    def attraction(self, spec: GuestSpec, feasible: list[Host]) -> list[int] | None:
        """Preferred affinity both ways, and required affinity of those who are there with weight 1."""
        pulls: Counter[tuple[str, str]] = Counter()  # (topology, value) to weight
        has_any = False
        for guest in self.placed():
            for weight, term, owner, other in self.wishes(spec, guest.spec):
                value = value_of(guest.host, term.topology)
                if value is not None and self.means(term, owner.namespace, other):
                    pulls[term.topology, value] += weight
                    has_any = True
        if not has_any:
            return None
        return [sum(pulls[key, value] for key, value in host.labels) for host in feasible]

    @staticmethod
    def wishes(spec: GuestSpec, other: GuestSpec) -> Iterator[tuple[int, GuestTerm, GuestSpec, GuestSpec]]:
        """Yield (weight, term, whose term it is, whom it may mean) of a new guest and one that is there."""
        for near in spec.preferred_affinity:
            yield near.weight, near.term, spec, other
        for far in spec.preferred_anti_affinity:
            yield -far.weight, far.term, spec, other
        for term in other.affinity:
            yield 1, term, other, spec
        for near in other.preferred_affinity:
            yield near.weight, near.term, other, spec
        for far in other.preferred_anti_affinity:
            yield -far.weight, far.term, other, spec

    def image_score(self, spec: GuestSpec, host: Host) -> int:
        """Size times share of the hosts that have the image, summed, from 23 MiB to 1000 MiB for each image."""
        total = 0
        for image in spec.images:
            having = [other for other in self.hosts.values() if image in dict(other.images)]
            if host in having:
                total += int(dict(host.images)[image] * (len(having) / len(self.hosts)))
        least, most = 23 * MIB, 1000 * MIB * len(spec.images)
        return 100 * (min(max(total, least), most) - least) // (most - least)

    def raw_scores(self, policy: Policy, use: ScorerUse, spec: GuestSpec, hosts: list[Host]) -> list | None:
        match use.name:
            case "near_guests":
                return self.attraction(spec, hosts)
            case "even_spread":
                return self.crowding(policy, spec, hosts)
            case "image_locality":
                return [self.image_score(spec, host) for host in hosts] if spec.images else None
            case "preferred_taints" if use.args and json.loads(use.args).get("always"):
                return [twin.soft_taints(spec, host) for host in hosts]
        return super().raw_scores(policy, use, spec, hosts)

    # -- decisions ----------------------------------------------------------------------------------------------------

    def judge(self, spec: GuestSpec) -> PeerVerdicts:
        """Work out one decision from nothing."""
        policy = self.policies[spec.policy]
        self.see(name for name, _ in spec.requests)
        refused: dict[str, tuple[Reason, ...]] = {}
        feasible: list[Host] = []
        for host in self.hosts.values():
            reasons = self.why_not_here(policy, spec, host)
            if reasons:
                refused[host.name] = reasons
            else:
                feasible.append(host)
        if not feasible:
            return PeerVerdicts((), refused, {}, {}, {})
        totals = {host.name: 0 for host in feasible}
        raws: dict[str, dict[str, int]] = {host.name: {} for host in feasible}
        weighted: dict[str, dict[str, int]] = {host.name: {} for host in feasible}
        first = dict.fromkeys(totals, 0)  # soft constraints that come before the score
        for use in (*policy.scorers, *preferences(policy, spec)):
            raw = self.raw_scores(policy, use, spec, feasible)
            if raw is None:
                continue
            shown = use.shown_as or use.name
            for host, before, value in zip(feasible, raw, scaled(use.name, raw), strict=True):
                raws[host.name][shown] = before
                weighted[host.name][shown] = use.weight * value
                sums = totals if use in policy.scorers else first
                sums[host.name] += use.weight * value
        top = max(((first[name], totals[name]) for name in totals), default=(0, 0))
        best = [host for host in feasible if (first[host.name], totals[host.name]) == top]
        winners = tuple(host.name for host in self.first_by_ties(policy, best))
        return PeerVerdicts(winners, refused, totals, raws, weighted, tuple(host.name for host in best))

    def broken_by(self, uid: str) -> list[str]:
        """Say which hard constraints do not hold for a guest where it is now, its own or those of others."""
        own = next(guest for guest in self.placed() if guest.uid == uid)
        others = [guest for guest in self.placed() if guest.uid != uid]
        policy, spec, host = self.policies[own.spec.policy], own.spec, own.host
        broken = []
        for other in others:
            same_host = other.host is host
            if same_host and any(collide(one, two) for one in spec.ports for two in other.spec.ports):
                broken.append(f"shares a port with {other.uid}")
            if same_host and policy.one_guest_per_host:
                broken.append(f"is not alone but with {other.uid}")
            for holder, term, subject in (
                *((spec, term, other.spec) for term in spec.anti_affinity),
                *((other.spec, term, spec) for term in other.spec.anti_affinity),
            ):
                if self.means(term, holder.namespace, subject) and are_near(host, other.host, term.topology):
                    broken.append(f"is near {other.uid}, against {term.text()}")
        broken += [f"is not near {term.text()}" for term in spec.affinity if not self.has_friends(own, term, others)]
        hard = [spread for spread in self.spreads(policy, spec) if spread.is_hard]
        for spread in hard:
            counts = self.counts_by_domain(spread, spec, {other.topology for other in hard})
            domain = value_of(host, spread.topology)
            least = min(counts.values()) if len(counts) >= max(spread.min_domains, 1) else 0
            if domain is None or counts.get(domain, 0) - least > spread.max_skew:
                broken.append(f"is not spread: {spread.text()}")
        if not is_open(spec, host) or not accepts(spec, host):
            broken.append("is on a host that it may not use")
        return broken

    def has_friends(self, own: PlacedGuest, term: GuestTerm, others: list[PlacedGuest]) -> bool:
        """A guest that all terms select is near, or there is none anywhere and the guest itself would be one."""
        spec = own.spec
        friends = [o.host for o in others if all(self.means(t, spec.namespace, o.spec) for t in spec.affinity)]
        if any(are_near(own.host, friend, term.topology) for friend in friends):
            return True
        counted = any(value_of(friend, t.topology) is not None for friend in friends for t in spec.affinity)
        return not counted and all(self.means(t, spec.namespace, spec) for t in spec.affinity)

    # -- counters -----------------------------------------------------------------------------------------------------

    def recount(self, key: CounterKey) -> list[int]:
        """Return what a counter of the engine should have in its domains, in order of size, without zeros."""
        eligible = key.eligibility
        counts: Counter[str | None] = Counter()
        for guest in self.placed():
            host = guest.host
            domain = value_of(host, key.topology) if key.topology else host.name
            if domain is None:
                continue
            if eligible is not None:
                asking = GuestSpec(host_selector=eligible.selector, host_affinity=eligible.terms)
                open_to = GuestSpec(tolerations=eligible.tolerations or ())
                has_keys = all(value_of(host, wanted) is not None for wanted in eligible.keys)
                if not has_keys or not accepts(asking, host):
                    continue
                if eligible.tolerations is not None and not is_open(open_to, host):
                    continue
            counts[domain] += self.times(key, guest.spec)
        return sorted(count for count in counts.values() if count)

    def times(self, key: CounterKey, spec: GuestSpec) -> int:
        """Return how often a guest counts for a counter."""
        counted = key.counted
        if isinstance(counted, MatchedGuests):
            if spec.is_leaving and not counted.with_leaving:
                return 0
            return int(all(self.means(as_term(term), "", spec) for term in counted.terms))
        if isinstance(counted, HeldTerm):
            own: list[tuple[int, GuestTerm]]
            match counted.kind:
                case "affinity":
                    own = [(0, term) for term in spec.affinity]
                case "anti_affinity":
                    own = [(0, term) for term in spec.anti_affinity]
                case "preferred":
                    own = [(wish.weight, wish.term) for wish in spec.preferred_affinity]
                case "preferred_not":
                    own = [(wish.weight, wish.term) for wish in spec.preferred_anti_affinity]
            wanted = (counted.weight, as_term(counted.term))
            return sum((weight, in_full(term, spec.namespace)) == wanted for weight, term in own)
        return spec.ports.count(counted.port)


def in_full(term: GuestTerm, owner: str) -> GuestTerm:
    """Spell out that a term without namespaces means those of its owner's."""
    if not term.namespaces and term.namespace_selector is None:
        return GuestTerm(term.topology, term.selector, (owner,), None)
    return GuestTerm(term.topology, term.selector, tuple(sorted(term.namespaces)), term.namespace_selector)


def preferences(policy: Policy, spec: GuestSpec) -> list[ScorerUse]:
    """Return what soft constraints are measured by where they come first: only for guests that have any themselves."""
    is_choosy = spec.preferred_hosts or spec.preferred_affinity or spec.preferred_anti_affinity
    if policy.soft_constraints != "first" or not (is_choosy or any(not one.is_hard for one in spec.spread)):
        return []
    return [ScorerUse(name) for name in ("preferred_hosts", "near_guests", "even_spread")]


def as_term(term: ResolvedTerm) -> GuestTerm:
    return GuestTerm(term.topology, term.selector, term.namespaces, term.namespace_selector)


def defaults_of(policy: Policy) -> list[dict]:
    """Return the default spreading that a policy brings."""
    arguments = [json.loads(use.args) for use in policy.scorers if use.name == "even_spread" and use.args]
    return [default for each in arguments for default in each.get("defaults", ())]


def scaled(scorer: str, raw: list[int]) -> list[int]:
    """Bring raw scores of all feasible hosts to 0..100."""
    if scorer == "near_guests":
        low, high = min(raw), max(raw)
        return [int(100.0 * ((value - low) / (high - low))) if high > low else 0 for value in raw]
    if scorer == "even_spread":
        counted = [value for value in raw if value != LEFT_OUT] or [0]
        low, high = min(counted), max(counted)
        shares = [100 * (high + low - value) // high if high else 100 for value in raw]
        return [0 if value == LEFT_OUT else share for value, share in zip(raw, shares, strict=True)]
    return twin.normalised(twin.NORMALISERS.get(scorer, "none"), raw)


# -- an engine and its twin -------------------------------------------------------------------------------------------


class EnginePair:
    """An engine and its twin, told the same; the twin follows the engine's decisions."""

    def __init__(self, *policies: Policy, seed: int = 0, rules: QueueRules | None = None) -> None:
        self.engine = Engine(policies, seed=seed, rules=rules)
        self.twin = GuestTwin(*policies)
        self.specs: dict[str, GuestSpec] = {}  # of all guests that have not left

    def apply(self, event: Event) -> None:
        """Tell both a fact."""
        self.engine.apply(event)
        slow = self.twin
        match event:
            case HostJoined(host=host) | HostChanged(host=host):
                slow.put(host)
            case HostsJoined(hosts=hosts):
                for host in hosts:
                    slow.put(host)
            case HostLeft(name=name):
                slow.drop(name)
            case GuestArrived(guest=guest) | GuestChanged(guest=guest):
                where = guest.host or self.place_of(guest.uid)
                slow.free(guest.uid)
                self.specs[guest.uid] = guest.spec
                if where:
                    slow.book(where, guest.uid, guest.spec, ())
            case GuestsArrived(specs=specs, spec_of=spec_of, names=names):
                self.specs.update({name: specs[at] for name, at in zip(names, spec_of, strict=True)})
            case GuestLeft(uid=uid):
                slow.free(uid)
                self.specs.pop(uid, None)
            case GuestBound(uid=uid, host=name):
                slow.free(uid)
                slow.book(name, uid, self.specs[uid], ())
            case NamespaceChanged(name=name, labels=labels):
                slow.namespaces[name] = labels

    def place_of(self, uid: str) -> str:
        """Return the host of a guest, absent or not."""
        return next((name for name, held in self.twin.held.items() if uid in held), "")

    def step(self, seconds: int = 0) -> list[Action]:
        """Let the engine decide, and the twin take its decisions over unchecked."""
        actions = self.engine.step(self.engine.now + seconds * 1_000_000_000)
        for action in actions:
            if isinstance(action, Bind):
                self.take_over(action)
        return actions

    def take_over(self, action: Bind) -> None:
        self.twin.book(action.host, action.uid, self.specs[action.uid], ())

    def follow(self, actions: list[Action]) -> None:
        """Check decisions one after another against the twin, which takes them over."""
        for action in actions:
            expected = self.twin.judge(self.specs[action.uid])
            decision = self.engine.decision(action.uid)
            assert decision.hosts == len(self.twin.hosts)
            assert decision.feasible == len(expected.totals)
            check_reasons({count.reason: count.hosts for count in decision.reasons}, expected)
            if isinstance(action, Defer):
                assert expected.totals == {}
                assert action.reasons == decision.reasons
                continue
            assert isinstance(action, Bind)
            assert action.host in expected.winners, (action, expected)
            assert decision.total == expected.totals[action.host]
            self.take_over(action)

    def check_explanation(self, uid: str) -> None:
        """Compare every host's verdict on a guest with the twin's; what the guest itself holds is set aside."""
        explanation = self.engine.explain(uid)
        where = self.place_of(uid)
        held = self.twin.held[where].pop(uid) if where else None
        expected = self.twin.judge(self.specs[uid])
        if held is not None:
            self.twin.held[where][uid] = held
        assert {v.host for v in explanation.verdicts} == set(self.twin.hosts)
        assert sorted(explanation.feasible) == sorted(expected.totals)
        for verdict in explanation.verdicts:
            if verdict.fits:
                assert {s.plugin: s.raw for s in verdict.scores} == expected.raws[verdict.host]
                assert {s.plugin: s.weighted for s in verdict.scores} == expected.weighted[verdict.host]
                assert verdict.total == expected.totals[verdict.host]
            else:
                assert verdict.failures[0].reason in expected.refused[verdict.host]
        if explanation.feasible:
            assert explanation.verdicts[0].host in expected.bests

    def check_counters(self) -> None:
        """Compare every counter of the engine with a count of the guests, by the engine and by the twin."""
        state = self.engine.state
        tallies = state.cluster.counters.tallies()
        assert tallies == state.cluster.counters.recount({s.number: s.spec for s in state.shapes.shapes})
        for key, tally in tallies.items():
            assert sorted(tally.values()) == self.twin.recount(key), key


def check_reasons(named: dict[Reason, int], expected: PeerVerdicts) -> None:
    """Compare reasons with the number of hosts; where several may be named first, any of them will do."""
    certain = Counter(reasons[0] for reasons in expected.refused.values() if len(set(reasons)) == 1)
    open_choices = [set(reasons) for reasons in expected.refused.values() if len(set(reasons)) > 1]
    rest = Counter(named)
    rest.subtract(certain)
    assert all(count >= 0 for count in rest.values()), (named, expected.refused)
    assert rest.total() == len(open_choices), (named, expected.refused)
    assert set(+rest) <= set().union(*open_choices), (named, expected.refused)
