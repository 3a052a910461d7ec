"""What ``hostler place`` does: run a fleet to the end, and sum up where everything is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

import msgspec

from hostler.cli.arrivals import arrive_fleet
from hostler.cli.files import atomic_file
from hostler.cli.inputs import Inputs
from hostler.cli.kernels import Kernels
from hostler.cli.preemptions import Eviction, Nomination, Preemptions
from hostler.cli.runs import LONG, Driver, decide, is_pending, open_engine
from hostler.cli.terminal import note, progress
from hostler.cli.waiting import noted, would_evict
from hostler.cli.wording import EVICTED, amount_text, plural
from hostler.config import Tenancy
from hostler.engine import Engine
from hostler.engine.journal import Recorder
from hostler.manifests.messages import gang_message, scheduler_message
from hostler.model import CPU, GUESTS, MEMORY, Decision, Evict, Guest, GuestSpec, Host, Policy, amount_of, may_give

__all__ = ["Placement", "Share", "Summary", "overfull_hosts", "place_all"]

MOST_VERDICTS = 500_000  # of hosts on shapes for messages; each takes about 30 µs


class Share(msgspec.Struct, frozen=True):
    """How much of a resource is used, of all that the hosts may give."""

    used: int
    total: int

    @property
    def percent(self) -> float | None:
        """Return the used part in percent, or None where there is nothing to use."""
        return 100 * self.used / self.total if self.total else None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A placement in numbers."""

    guests: int
    placed: int
    already_placed: int
    not_placed: int
    evicted: int
    hosts: int
    hosts_used: int
    cpu: Share
    memory: Share


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where everything is: guests with their hosts, and the decisions about those that were pending.

    Guests that ran and were evicted are gone; one that was placed by this run and evicted again waits as before.
    """

    inputs: Inputs
    guests: tuple[Guest, ...]
    decisions: Mapping[str, Decision]  # by uid, in the order in which they were made
    evicted: tuple[Eviction, ...]
    nominated: tuple[Nomination, ...]
    tenancy: Tenancy  # as it is after the run: budgets may have less left
    messages: Mapping[str, str]  # by uid: what kube-scheduler would write about a pod that fits nowhere
    would_evict: bool  # evictions are off, and some could help
    summary: Summary


def place_all(
    inputs: Inputs,
    kernels: Kernels,
    *,
    seed: int = 0,
    journal: str = "",
    with_messages: bool = False,
    evicting: Sequence[Policy] = (),
) -> Placement:
    """Place every pending guest; ``journal`` names a file that records the run.

    ``evicting`` are the policies as they would be if they could evict: would that help anybody?
    """
    engine = open_engine(inputs, kernels, seed=seed)
    pending = sum(map(is_pending, inputs.fleet.guests))
    preemptions = Preemptions(engine, inputs.fleet)
    order: dict[str, None] = {}
    undone: dict[str, Decision] = {}
    with _recorded(engine, journal) as driver, progress("placing", pending, is_long=pending > LONG) as advance:
        arrive_fleet(driver, inputs.fleet)
        for action in decide(driver, advance=advance):
            if isinstance(action, Evict) and action.uid in order:
                undone[action.uid] = _undone(engine.decision(action.uid), action)
            if not preemptions.note(action):
                order[action.uid] = None
    # Members of a gang that is not complete are never tried, and yet have a reason.
    order |= {guest.uid: None for guest in inputs.fleet.guests if is_pending(guest)}
    decisions = {uid: undone.get(uid) or engine.decision(uid) for uid in order}
    decisions |= noted(engine, decisions)
    gone = preemptions.gone
    guests = tuple(
        _placed(engine, guest, decisions) if guest.uid not in gone else guest
        for guest in inputs.fleet.guests
        if is_pending(guest) or guest.uid not in gone
    )
    return Placement(
        inputs=inputs,
        guests=guests,
        decisions=decisions,
        evicted=preemptions.evicted,
        nominated=preemptions.nominated,
        tenancy=msgspec.structs.replace(inputs.fleet.tenancy, budgets=preemptions.budgets),
        messages=_messages(engine, inputs, decisions) if with_messages else {},
        would_evict=would_evict(engine, evicting, decisions) if evicting else False,
        summary=_sum_up(inputs, guests, gone),
    )


def _undone(decision: Decision, evict: Evict) -> Decision:
    """Return the decision about a guest that was placed by this run and has to go again: it waits as before."""
    note = f"placed on {evict.host}, then {evict.reason}"
    return msgspec.structs.replace(decision, state=EVICTED, host="", devices=(), total=None, note=note)


def _messages(engine: Engine, inputs: Inputs, decisions: Mapping[str, Decision]) -> dict[str, str]:
    """Write the message of every pod that waits; pods of one shape share it, and very many shapes get none."""
    waiting = [
        uid
        for uid, decision in decisions.items()
        if uid in inputs.pods and not decision.host and uid in engine.view.records
    ]
    spec_of = {uid: engine.view.guest(uid).spec for uid in waiting}
    first = {spec: uid for uid, spec in reversed(spec_of.items())}
    most = max(MOST_VERDICTS // max(len(inputs.fleet.hosts), 1), 1)
    if len(first) > most:
        note(f"'message' is left out of all but {plural(most, 'shape')} of pods that fit nowhere; 'explain' has it")
    shapes = islice(dict.fromkeys(spec_of.values()), most)
    known = {spec: scheduler_message(engine.explain(first[spec]), spec) for spec in shapes}
    found = {uid: known.get(spec) or gang_message(decisions[uid]) for uid, spec in spec_of.items()}
    return {uid: message for uid, message in found.items() if message}


@contextmanager
def _recorded(engine: Engine, journal: str) -> Iterator[Driver]:
    """Yield what takes the facts: the engine, or a recorder that writes the file when all went well."""
    if not journal:
        yield engine
        return
    with atomic_file(journal) as write:
        yield Recorder(engine, write)


def _placed(engine: Engine, guest: Guest, decisions: Mapping[str, Decision]) -> Guest:
    """Return a guest as it is after the run: with its host, and with its devices where it holds any."""
    if guest.host and (guest.on_devices or not guest.spec.devices):
        return guest
    decision = decisions.get(guest.uid) or engine.decision(guest.uid)
    if not decision.host:
        return guest
    return msgspec.structs.replace(guest, host=decision.host, on_devices=decision.devices)


def _sum_up(inputs: Inputs, guests: Sequence[Guest], gone: frozenset[str]) -> Summary:
    """Count every guest once: one that was placed and evicted again counts as evicted."""
    fleet = inputs.fleet
    pending = sum(map(is_pending, fleet.guests))
    already = len(guests) - pending  # less those that ran and are gone
    on_hosts = [guest for guest in guests if guest.host]
    policy = inputs.policy

    def share(name: str) -> Share:
        total = sum(may_give(host, name, policy.overcommit, policy.reserve) for host in fleet.hosts)
        return Share(sum(amount_of(guest.spec.requests, name) for guest in on_hosts), total)

    return Summary(
        guests=len(fleet.guests),
        placed=len(on_hosts) - already,
        already_placed=already,
        not_placed=sum(not guest.host and guest.uid not in gone for guest in guests),
        evicted=len(gone),
        hosts=len(fleet.hosts),
        hosts_used=len({guest.host for guest in on_hosts}),
        cpu=share(CPU),
        memory=share(MEMORY),
    )


def overfull_hosts(inputs: Inputs) -> list[str]:
    """Say which hosts hold more than they may give, by the guests that the input says run there."""
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for guest in inputs.fleet.guests:
        if guest.host:
            held[guest.host].update(_held(guest.spec))
    found: list[str] = []
    for host in inputs.fleet.hosts:
        for name, amount in sorted(held.get(host.name, {}).items()):
            limit = _limit(inputs, host, name)
            if limit is not None and amount > limit:
                found.append(
                    f"host {host.name} holds more {name} than it may give: "
                    f"{amount_text(name, amount)} of {amount_text(name, limit)}"
                )
    return found


def _held(spec: GuestSpec) -> dict[str, int]:
    return {GUESTS: 1, **dict(spec.requests)}


def _limit(inputs: Inputs, host: Host, name: str) -> int | None:
    """Return what a host may give; None where the number of guests is not limited."""
    if name == GUESTS and not any(resource == GUESTS for resource, _ in host.capacity):
        return None
    return may_give(host, name, inputs.policy.overcommit, inputs.policy.reserve)
