"""Forgetting what was kept long enough: events, operations, idempotency keys, deleted VMs, silent replicas.

A busy service writes thousands of entries a second, and as many must go when their time is over. So batches follow each
other until nothing is left that is too old, each short, with pauses in which the writer is everybody else's.
``history_time`` says what time it is for that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from hostler.control.fleet.presence import forget_hearsay
from hostler.control.fleet.times import SECOND
from hostler.control.fleet.waiting import wait
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, idempotency, lease, log, operations, vms
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.control.fleet.fleet import Fleet

__all__ = ["Tidied", "keep_tidy", "tidy", "tidy_all"]

_HEARSAY_S = 600
_LOOKS = 64  # at entries behind a batch whose times say nothing


class Tidied(msgspec.Struct, frozen=True, kw_only=True):
    """What one batch removed, and whether it left nothing of any kind that is too old."""

    gone: int
    is_all: bool


async def keep_tidy(fleet: Fleet, stopping: asyncio.Event) -> None:
    """Forget again and again, while this replica leads, until told to stop."""
    while not stopping.is_set():
        try:
            await tidy_all(fleet, stopping)
        except HostlerError as error:
            fleet.tell(f"old things are not removed: {error.message}")
        await wait(stopping, fleet.times.tidy_s)


async def tidy_all(fleet: Fleet, stopping: asyncio.Event) -> int:
    """Forget everything that is too old now, batch after batch; return how much that was, 0 while another leads."""
    gone, is_all, epoch = 0, False, fleet.books.epoch
    if not epoch:
        return 0
    now_ns = await fleet.history.now(fleet)

    def work(connection: Connection) -> Tidied:
        lease.check_epoch(connection, epoch)
        return tidy(connection, fleet.settings, now_ns, at_once=fleet.times.tidy_at_once)

    while fleet.books.is_leader and not is_all and not stopping.is_set():
        done = await fleet.database.write(work)
        gone, is_all = gone + done.gone, done.is_all
        if not is_all:
            await wait(stopping, fleet.times.tidy_pause_s)
    return gone


def tidy(connection: Connection, settings: ControlSettings, now_ns: int, *, at_once: int) -> Tidied:
    """Remove some of what is too old: of each kind at most so many, as much as one short transaction can."""

    def before(seconds: float) -> int:
        return now_ns - int(seconds * SECOND)

    counts = (
        operations.forget_finished(connection, before(settings.keep_operations_s), limit=at_once),
        idempotency.forget_expired(connection, now_ns, limit=at_once),
        vms.forget_deleted(connection, before(settings.keep_events_s), limit=at_once),
        _forget_log(connection, before(settings.keep_events_s), now_ns, at_once),
    )
    few = forget_hearsay(connection, before(_HEARSAY_S))  # as many as there were replicas
    return Tidied(gone=sum(counts) + few, is_all=max(counts) < at_once)


def _forget_log(connection: Connection, before_ns: int, now_ns: int, at_once: int) -> int:
    """Forget entries that are too old and that no start needs.

    Those of a clock that was ahead are as old as what follows them: they keep nothing else here until their time comes,
    however many they are.
    """
    bound, entries = 0, log.oldest(connection, at_once)
    for seq, at_ns in entries:
        if before_ns <= at_ns <= now_ns:
            break
        if at_ns < before_ns:
            bound = seq
    else:
        if not bound and len(entries) == at_once:
            behind = log.sample(connection, entries[-1][0], _LOOKS)
            bound = entries[-1][0] if any(at_ns < before_ns for at_ns in behind) else 0
    return log.forget_before(connection, bound + 1) if bound else 0
