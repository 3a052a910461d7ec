"""Our own journals: the guests that arrived in a recorded run, when, and how long they ran.

A guest runs from its Bind (or its arrival, where it ran already) until it left; who left unplaced stayed from its
arrival. Hosts are all that ever joined, as they were last. A guest that changed counts as it arrived.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hostler.engine import Engine
from hostler.engine.journals.journal import CheckpointEntry, FactEntry, Journal, StepEntry, read_journal
from hostler.errors import InputError, JournalError
from hostler.model import (
    Bind,
    Event,
    Gang,
    GangChanged,
    Guest,
    GuestArrived,
    GuestBound,
    GuestLeft,
    GuestsArrived,
    Host,
    HostChanged,
    HostJoined,
    HostsJoined,
)
from hostler.sim.traces.demand import with_chosen_hosts
from hostler.sim.traces.files import read_first_bytes, read_unpacked
from hostler.sim.traces.options import TraceOptions
from hostler.sim.workload import FOREVER, Workload

__all__ = ["read_journal_trace", "recognizes_journal"]

_USUAL_HOST = (64_000, 256 * 2**30)
_OPENED = b'{"entry":"opened"'


def recognizes_journal(path: Path) -> bool:
    """Say whether a file begins as a journal does."""
    return read_first_bytes(path)[9:].startswith(_OPENED)


@dataclass(slots=True)
class _Stay:
    """One guest: when it came, began to run, and left."""

    guest: Guest
    arrived: int
    started: int | None = None
    left: int | None = None


class _Story:
    """What a journal tells, read from its beginning."""

    def __init__(self, journal: Journal) -> None:
        self.now = journal.header.clock_start
        self.hosts: dict[str, Host] = {}
        self.gangs: dict[str, Gang] = {}
        self.stays: dict[str, _Stay] = {}
        for number, entry in enumerate(journal.entries):
            if isinstance(entry, FactEntry):
                self.now = max(self.now, entry.event.at)
                self._apply(entry.event)
            elif isinstance(entry, StepEntry):
                self.now = max(self.now, entry.now)
                for action in entry.actions:
                    if isinstance(action, Bind) and action.uid in self.stays:
                        self.stays[action.uid].started = self.now
            elif number == 0:
                self._restore(entry)

    def _apply(self, event: Event) -> None:
        if isinstance(event, HostJoined | HostChanged):
            self.hosts[event.host.name] = event.host
        elif isinstance(event, HostsJoined):
            self.hosts.update((host.name, host) for host in event.hosts)
        elif isinstance(event, GuestArrived | GuestsArrived):
            for guest in _guests(event):
                started = self.now if guest.host else None
                self.stays.setdefault(guest.uid, _Stay(guest, self.now, started))
        elif isinstance(event, GangChanged):
            self.gangs[event.gang.key] = event.gang
        elif isinstance(event, GuestLeft) and event.uid in self.stays:
            self.stays[event.uid].left = self.now
        elif isinstance(event, GuestBound) and event.uid in self.stays and self.stays[event.uid].started is None:
            self.stays[event.uid].started = self.now

    def _restore(self, saved: CheckpointEntry) -> None:
        """Begin with what a checkpoint holds, where a rotated journal begins with one."""
        state = Engine.restore(saved.checkpoint).state
        self.now = max(self.now, state.now)
        self.hosts.update((host.name, host) for host in state.cluster.host_at if host is not None)
        self.gangs.update(state.gangs.gangs)
        for uid, record in state.guests.items():
            self.stays[uid] = _Stay(record.guest, self.now, self.now if record.host else None)


def read_journal_trace(path: Path, options: TraceOptions) -> Workload:
    """Read the guests of a journal with their times."""
    lines = read_unpacked(path).splitlines(keepends=True)
    try:
        journal = read_journal(lines)
    except JournalError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint or "only the last line may be torn") from error
    if journal.torn:
        options.note(f"{path}: {journal.torn}")
    story = _Story(journal)
    stays = list(story.stays.values())
    if not stays:
        raise InputError(f"{path}: no guest arrived in this journal", hint="it holds nothing to simulate")
    specs = {spec: number for number, spec in enumerate(dict.fromkeys(stay.guest.spec for stay in stays))}
    keys = {stay.guest.gang for stay in stays if stay.guest.gang}
    gangs = tuple(gang for key, gang in story.gangs.items() if key in keys)
    number_of = {gang.key: number for number, gang in enumerate(gangs)}
    gang_of = [number_of.get(stay.guest.gang, -1) for stay in stays] if gangs else []
    workload = Workload(
        name=path.name.split(".")[0],
        hosts=tuple(story.hosts.values()),
        specs=tuple(specs),
        spec_of=np.array([specs[stay.guest.spec] for stay in stays], dtype=np.int64),
        names=list(_names(stays)),
        arrives_ns=np.array([stay.arrived for stay in stays], dtype=np.int64),
        runs_ns=np.array([_runs(stay) for stay in stays], dtype=np.int64),
        gangs=gangs,
        gang_of=np.array(gang_of, dtype=np.int64),
    ).by_arrival()
    return with_chosen_hosts(workload, options, cpu_milli=_USUAL_HOST[0], memory_bytes=_USUAL_HOST[1])


def _guests(event: GuestArrived | GuestsArrived) -> Iterator[Guest]:
    if isinstance(event, GuestArrived):
        yield event.guest
        return
    hosts = event.hosts or ("",) * len(event.names)
    for name, uid, number, host in zip(event.names, event.uids or event.names, event.spec_of, hosts, strict=True):
        yield Guest(name=name, uid=uid, spec=event.specs[number], host=host)


def _runs(stay: _Stay) -> int:
    if stay.left is None:
        return FOREVER
    return stay.left - (stay.started if stay.started is not None else stay.arrived)


def _names(stays: list[_Stay]) -> Iterator[str]:
    """Yield names that differ: one that comes back, or is in another namespace too, gets a number."""
    seen: dict[str, int] = {}
    for stay in stays:
        name = stay.guest.name
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}~{seen[name]}"
