"""Removes old history: events, operations, idempotency keys, deleted VMs, replicas that are gone.

A busy service writes thousands of entries a second, and must remove as many. So batches follow each other until nothing
too old is left. Each batch is short, with pauses in which others write. ``history_time`` says what time counts.
"""

from __future__ import annotations

import asyncio

import msgspec

from hostler.control.fleet.agent_service import AgentService
from hostler.control.fleet.presence import forget_hearsay
from hostler.control.fleet.times import SECOND, wait
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection
from hostler.control.store.history import lease, log
from hostler.control.store.rows import idempotency, operations, vms
from hostler.errors import HostlerError

__all__ = ["ForgottenBatch", "forget_all", "forget_batch", "keep_forgetting"]

_HEARSAY_S = 600
_LOOKS = 64  # at entries behind a batch whose times say nothing


class ForgottenBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What one batch removed, and whether nothing too old is left."""

    gone: int
    is_all: bool


async def keep_forgetting(fleet: AgentService, stopping: asyncio.Event) -> None:
    """Remove again and again, while this replica leads, until told to stop."""
    while not stopping.is_set():
        try:
            await forget_all(fleet, stopping)
        except HostlerError as error:
            fleet.tell(f"old history is not removed: {error.message}")
        await wait(stopping, fleet.times.tidy_s)


async def forget_all(fleet: AgentService, stopping: asyncio.Event) -> int:
    """Remove everything that is too old now, batch by batch; return how much that was, 0 while another leads."""
    gone, is_all, epoch = 0, False, fleet.books.epoch
    if not epoch:
        return 0
    now_ns = await fleet.history.advance()

    def work(connection: Connection) -> ForgottenBatch:
        lease.check_epoch(connection, epoch)
        return forget_batch(connection, fleet.settings, now_ns, at_once=fleet.times.tidy_at_once)

    while fleet.books.is_leader and not is_all and not stopping.is_set():
        done = await fleet.database.write(work)
        gone, is_all = gone + done.gone, done.is_all
        if not is_all:
            await wait(stopping, fleet.times.tidy_pause_s)
    return gone


def forget_batch(connection: Connection, settings: ControlSettings, now_ns: int, *, at_once: int) -> ForgottenBatch:
    """Remove some of what is too old: at most so many of each kind, as one short transaction can."""

    def before(seconds: float) -> int:
        return now_ns - int(seconds * SECOND)

    counts = (
        operations.forget_finished(connection, before(settings.keep_operations_s), limit=at_once),
        idempotency.forget_expired(connection, now_ns, limit=at_once),
        vms.forget_deleted(connection, before(settings.keep_events_s), limit=at_once),
        _forget_log(connection, before(settings.keep_events_s), now_ns, at_once),
    )
    few = forget_hearsay(connection, before(_HEARSAY_S))  # as many as there were replicas
    return ForgottenBatch(gone=sum(counts) + few, is_all=max(counts) < at_once)


def _forget_log(connection: Connection, before_ns: int, now_ns: int, at_once: int) -> int:
    """Remove entries that are too old and that no start needs.

    Entries of a fast clock count as old as what follows them, so they keep nothing else here until their time comes.
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
