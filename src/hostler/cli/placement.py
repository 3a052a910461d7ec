"""What ``hostler place`` does: run a fleet to the end, and sum up where everything is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from hostler.cli.files import atomic_file
from hostler.cli.inputs import Inputs
from hostler.cli.kernels import Kernels
from hostler.cli.runs import LONG, Driver, arrive, decide, is_pending, open_engine
from hostler.cli.terminal import progress
from hostler.cli.wording import amount_text
from hostler.engine import Engine
from hostler.engine.journal import Recorder
from hostler.model import CPU, GUESTS, MEMORY, Decision, Guest, GuestSpec, Host, amount_of, may_give

__all__ = ["Placement", "Share", "Summary", "overfull_hosts", "place_all"]


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
    hosts: int
    hosts_used: int
    cpu: Share
    memory: Share


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where everything is: guests with their hosts, and the decisions about those that were pending."""

    inputs: Inputs
    guests: tuple[Guest, ...]
    decisions: Mapping[str, Decision]  # by uid, in the order in which they were made
    summary: Summary


def place_all(inputs: Inputs, kernels: Kernels, *, seed: int = 0, journal: str = "") -> Placement:
    """Place every pending guest; ``journal`` names a file that records the run."""
    engine = open_engine(inputs, kernels, seed=seed)
    pending = sum(map(is_pending, inputs.fleet.guests))
    with _recorded(engine, journal) as driver, progress("placing", pending, is_long=pending > LONG) as advance:
        arrive(driver, inputs.fleet.hosts, inputs.fleet.guests)
        order = {action.uid: None for action in decide(driver, advance=advance)}
    decisions = {uid: engine.decision(uid) for uid in order}
    guests = tuple(_placed(engine, guest, decisions) for guest in inputs.fleet.guests)
    return Placement(inputs=inputs, guests=guests, decisions=decisions, summary=_sum_up(inputs, guests))


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


def _sum_up(inputs: Inputs, guests: Sequence[Guest]) -> Summary:
    fleet = inputs.fleet
    already = len(fleet.guests) - sum(map(is_pending, fleet.guests))
    on_hosts = [guest for guest in guests if guest.host]
    policy = inputs.policy

    def share(name: str) -> Share:
        total = sum(may_give(host, name, policy.overcommit, policy.reserve) for host in fleet.hosts)
        return Share(sum(amount_of(guest.spec.requests, name) for guest in on_hosts), total)

    return Summary(
        guests=len(guests),
        placed=len(on_hosts) - already,
        already_placed=already,
        not_placed=len(guests) - len(on_hosts),
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
