"""Placement of a whole set of guests: run to the end, and summarize the result.

``place_guests`` is ``hostler place`` as a function from values to values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import msgspec

from hostler.engine import Engine
from hostler.engine.journals.journal import Recorder
from hostler.manifests.scheduler_message import gang_message, scheduler_message
from hostler.model import (
    CPU,
    GUESTS,
    MEMORY,
    Action,
    Decision,
    DecisionNote,
    Evict,
    Guest,
    GuestSpec,
    Host,
    Policy,
    Tenancy,
    amount_of,
    may_give,
)
from hostler.model.notes import PLACED_AND_EVICTED
from hostler.model.vocabulary import with_notes
from hostler.queries.inputs import PlacementInput, apply_input, is_pending, open_engine
from hostler.queries.preemptions import Eviction, Nomination, Preemptions
from hostler.queries.runs import Advance, decide_all, ignore_progress
from hostler.queries.waiting_notes import add_notes, would_evict

__all__ = [
    "EVICTED", "OverfullHost", "Placement", "PlacementSummary", "ResourceShare", "find_overfull_hosts", "place_guests",
]  # fmt: skip

EVICTED = "evicted"  # the state of a guest that was placed and evicted again
MAX_VERDICTS = 500_000  # of hosts on shapes for messages; each takes about 30 µs


class ResourceShare(msgspec.Struct, frozen=True):
    """How much of a resource is used, and how much all hosts may give."""

    used: int
    total: int

    @property
    def percent(self) -> float | None:
        """Return the used part in percent, or None if the hosts have none."""
        return 100 * self.used / self.total if self.total else None


class PlacementSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A placement in numbers."""

    guests: int
    placed: int
    already_placed: int
    not_placed: int
    evicted: int
    hosts: int
    hosts_used: int
    cpu: ResourceShare
    memory: ResourceShare


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The result: guests with their hosts, and the decisions about those that were pending.

    Running guests that were evicted are gone; a guest that this run placed and evicted again is waiting.
    """

    guests: tuple[Guest, ...]
    decisions: Mapping[str, Decision]  # by uid, in the order in which they were made
    evicted: tuple[Eviction, ...]
    nominated: tuple[Nomination, ...]
    tenancy: Tenancy  # as it is after the run: budgets may have less left
    messages: Mapping[str, str]  # by uid: what kube-scheduler would write about a pod that fits nowhere
    message_limit: int | None  # shapes that have a message; None if all have
    would_evict: bool  # evictions are off, and some could help
    summary: PlacementSummary


def place_guests(
    inputs: PlacementInput,
    *,
    journal: Callable[[bytes], object] | None = None,
    with_messages: bool = False,
    evicting: Sequence[Policy] = (),
    advance: Advance = ignore_progress,
) -> Placement:
    """Place every pending guest. Only policies that preempt evict others; see ``with_preemption``.

    ``journal`` gets the run line by line. ``with_messages`` adds kube-scheduler's message to waiting pods. ``evicting``
    are the policies as if they preempted; the result then says whether that would help a guest. ``advance`` is called
    with the number of guests that are done.
    """
    engine = open_engine(inputs)
    driver = engine if journal is None else Recorder(engine, journal)
    preemptions = Preemptions(engine, inputs.guests, inputs.tenancy.budgets)
    order: dict[str, None] = {}
    undone: dict[str, Decision] = {}

    def observe(actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Evict) and action.uid in order:
                undone[action.uid] = _undone(engine.decision(action.uid), action)
            if not preemptions.note(action):
                order[action.uid] = None
        advance(len(actions))

    apply_input(driver, inputs)
    decide_all(driver, observe=observe)
    # Members of a gang that is not complete are never tried, and yet have a reason.
    order |= {guest.uid: None for guest in inputs.guests if is_pending(guest)}
    decisions = {uid: undone.get(uid) or engine.decision(uid) for uid in order}
    decisions |= add_notes(engine, decisions)
    gone = preemptions.gone
    guests = tuple(
        _placed(engine, guest, decisions) if guest.uid not in gone else guest
        for guest in inputs.guests
        if is_pending(guest) or guest.uid not in gone
    )
    messages, message_limit = _messages(engine, inputs, decisions) if with_messages else ({}, None)
    return Placement(
        guests=guests,
        decisions=decisions,
        evicted=preemptions.evicted,
        nominated=preemptions.nominated,
        tenancy=msgspec.structs.replace(inputs.tenancy, budgets=preemptions.budgets),
        messages=messages,
        message_limit=message_limit,
        would_evict=would_evict(engine, evicting, decisions) if evicting else False,
        summary=_sum_up(inputs, guests, gone),
    )


def _undone(decision: Decision, evict: Evict) -> Decision:
    """Return the decision about a guest that this run placed and evicted again: it waits."""
    undone = msgspec.structs.replace(decision, state=EVICTED, host="", devices=(), total=None)
    return with_notes(undone, [DecisionNote(PLACED_AND_EVICTED, evict.host, said=evict.reason)])


def _messages(
    engine: Engine, inputs: PlacementInput, decisions: Mapping[str, Decision]
) -> tuple[dict[str, str], int | None]:
    """Return the message of every waiting pod. Pods of one shape share it; beyond a number of shapes there is none."""
    waiting = [
        uid
        for uid, decision in decisions.items()
        if uid in inputs.pods and not decision.host and uid in engine.view.records
    ]
    spec_of = {uid: engine.view.guest(uid).spec for uid in waiting}
    first = {spec: uid for uid, spec in reversed(spec_of.items())}
    most = max(MAX_VERDICTS // max(len(inputs.hosts), 1), 1)
    shapes = islice(dict.fromkeys(spec_of.values()), most)
    known = {spec: scheduler_message(engine.explain(first[spec]), spec) for spec in shapes}
    found = {uid: known.get(spec) or gang_message(decisions[uid]) for uid, spec in spec_of.items()}
    return {uid: message for uid, message in found.items() if message}, most if len(first) > most else None


def _placed(engine: Engine, guest: Guest, decisions: Mapping[str, Decision]) -> Guest:
    """Return a guest after the run: with its host and its devices."""
    if guest.host and (guest.on_devices or not guest.spec.devices):
        return guest
    # Of a guest that ran before, only the engine knows which devices it was given.
    decision = decisions.get(guest.uid) or engine.decision(guest.uid)
    if not decision.host:
        return guest
    return msgspec.structs.replace(guest, host=decision.host, on_devices=decision.devices)


def _sum_up(inputs: PlacementInput, guests: Sequence[Guest], gone: frozenset[str]) -> PlacementSummary:
    """Count every guest once: one that was placed and evicted again counts as evicted."""
    pending = sum(map(is_pending, inputs.guests))
    already = len(guests) - pending  # less those that ran and are gone
    on_hosts = [guest for guest in guests if guest.host]
    policy = inputs.policy

    def share(name: str) -> ResourceShare:
        total = sum(may_give(host, name, policy.overcommit, policy.reserve) for host in inputs.hosts)
        return ResourceShare(sum(amount_of(guest.spec.requests, name) for guest in on_hosts), total)

    return PlacementSummary(
        guests=len(inputs.guests),
        placed=len(on_hosts) - already,
        already_placed=already,
        not_placed=sum(not guest.host and guest.uid not in gone for guest in guests),
        evicted=len(gone),
        hosts=len(inputs.hosts),
        hosts_used=len({guest.host for guest in on_hosts}),
        cpu=share(CPU),
        memory=share(MEMORY),
    )


class OverfullHost(msgspec.Struct, frozen=True):
    """A host whose running guests use more of a resource than it may give."""

    host: str
    resource: str
    held: int
    limit: int


def find_overfull_hosts(inputs: PlacementInput) -> list[OverfullHost]:
    """Find hosts whose running guests use more than the hosts may give."""
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for guest in inputs.guests:
        if guest.host:
            held[guest.host].update(_held(guest.spec))
    found: list[OverfullHost] = []
    for host in inputs.hosts:
        for name, amount in sorted(held.get(host.name, {}).items()):
            limit = _limit(inputs, host, name)
            if limit is not None and amount > limit:
                found.append(OverfullHost(host.name, name, amount, limit))
    return found


def _held(spec: GuestSpec) -> dict[str, int]:
    return {GUESTS: 1, **dict(spec.requests)}


def _limit(inputs: PlacementInput, host: Host, name: str) -> int | None:
    """Return what a host may give; None if the number of guests is not limited."""
    if name == GUESTS and not any(resource == GUESTS for resource, _ in host.capacity):
        return None
    return may_give(host, name, inputs.policy.overcommit, inputs.policy.reserve)
