"""Who leads: one row that is taken, renewed and given back, by the database's own clock.

The epoch grows with every change of holder. A leader's transactions begin with ``check_epoch``, which locks the row for
sharing until COMMIT: a successor waits for it, and what a deposed leader sends after that fails. So it does no harm to
take a lease too early, for example after the clock was set back: a lease renewed in the future has run out, since a
live holder renews it now.

A leader that was killed gives nothing back. Commands that need a database without a leader wait until its lease has run
out (``wait_for_end``), and give up as soon as it is renewed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
from sqlalchemy import Connection, select, update

from hostler.control.store.errors import DatabaseInUseError, LeaseLostError
from hostler.control.store.history.clock import now_ms, read_ms
from hostler.control.store.tables import lease
from hostler.errors import InputError

__all__ = ["LeaderLease", "bury", "check_epoch", "read", "release", "renew", "take", "wait_for_end"]

_LOOK_S = 0.1  # between looks at a lease that is waited for; holders renew it every second
_LONGEST_WAIT_S = 60.0  # leases last 3 s: one that lasts much longer was not given by 'hostler serve'

# Made once: making it costs SQLAlchemy more than running it costs the database.
_SHARE = select(lease.c.holder, lease.c.epoch).with_for_update(read=True)


class LeaderLease(msgspec.Struct, frozen=True, kw_only=True):
    """The row as it is. ``left_s`` is what remains of it, negative once it has run out."""

    holder: str
    epoch: int
    address: str = ""
    left_s: float = 0.0
    renewed_ms: int = 0  # by the database's clock, when it was read

    @property
    def is_held(self) -> bool:
        """Say whether it was held when it was read, by the clock of that moment."""
        return bool(self.holder) and self.left_s > 0


def take(connection: Connection, holder: str, ttl_s: float, *, address: str = "") -> LeaderLease | None:
    """Take the lease if it is free or its time is over; None if another holder has it.

    A holder that already has it keeps its epoch. A holder's name must be new for each start of a process.
    """
    if not holder or ttl_s <= 0:
        raise InputError("a lease needs a holder and a time", hint="name the process and a positive number of seconds")
    found = read(connection, is_locking=True)
    if found.is_held and found.holder != holder:
        return None
    epoch = found.epoch if found.holder == holder else found.epoch + 1
    values = {"holder": holder, "address": address, "epoch": epoch, "ttl_ms": int(ttl_s * 1000)}
    connection.execute(update(lease).values(**values, renewed_ms=now_ms(connection)))
    return LeaderLease(holder=holder, epoch=epoch, address=address, left_s=ttl_s)


def renew(connection: Connection, held: LeaderLease) -> LeaderLease:
    """Renew the time; LeaseLostError if another holder took it meanwhile."""
    check_epoch(connection, held.epoch)
    changed = update(lease).values(renewed_ms=now_ms(connection)).returning(lease.c.ttl_ms)
    return msgspec.structs.replace(held, left_s=connection.execute(changed).scalar_one() / 1000)


def release(connection: Connection, held: LeaderLease) -> bool:
    """Give the lease back so that others need not wait; say whether it was still ours."""
    ours = (lease.c.holder == held.holder) & (lease.c.epoch == held.epoch)
    changed = connection.execute(update(lease).where(ours).values(holder="", address=""))
    return changed.rowcount == 1


def check_epoch(connection: Connection, epoch: int) -> None:
    """Fail unless the holder of that epoch still has the lease; it cannot be taken until this transaction ends."""
    row = connection.execute(_SHARE).one()
    if row.epoch != epoch or not row.holder:
        who = f"{row.holder} has it with epoch {row.epoch}" if row.holder else "it was given back"
        raise LeaseLostError(f"the lease of epoch {epoch} is over: {who}", hint="follow the log as a replica")


def read(connection: Connection, *, is_locking: bool = False) -> LeaderLease:
    """Return the row; with a lock, no other session can change it until this transaction ends."""
    query = select(lease)
    row = connection.execute(query.with_for_update() if is_locking else query).one()
    # The clock is read after the lock is there: waiting for it takes time.
    left_ms = row.renewed_ms + row.ttl_ms - read_ms(connection)
    if left_ms > 2 * row.ttl_ms:
        left_ms = 0
    return LeaderLease(
        holder=row.holder, epoch=row.epoch, address=row.address, left_s=left_ms / 1000, renewed_ms=row.renewed_ms
    )


def bury(connection: Connection) -> None:
    """Release the lease of a holder that is known to be dead, so that no replica waits for it."""
    release(connection, read(connection))


def wait_for_end(look: Callable[[], LeaderLease], where: str, tell: Callable[[str], None], *, hint: str) -> None:
    """Wait until the lease is free; ``look`` reads it without a lock, in a transaction of its own.

    A holder that ended without notice renews nothing, so its lease runs out. DatabaseInUseError as soon as the lease
    is renewed or passes to another, since a replica is alive then; and at once if it lasts too long to wait for.
    """
    first = found = look()
    lasts = f"{found.left_s:.1f} s more"
    if found.is_held and found.left_s > _LONGEST_WAIT_S:
        raise DatabaseInUseError(f"{where} is in use: {found.holder} leads, and its lease lasts {lasts}", hint=hint)
    if found.is_held:
        tell(f"{found.holder} leads or ended without notice; its lease lasts {lasts}: waiting until it runs out")
    while found.is_held:
        if (found.epoch, found.renewed_ms) != (first.epoch, first.renewed_ms):
            raise DatabaseInUseError(f"{where} is in use: {found.holder} leads, and renews its lease", hint=hint)
        time.sleep(min(_LOOK_S, found.left_s))
        found = look()
