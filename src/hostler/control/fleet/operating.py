"""What operators do to hosts: works of the store, for services.

After the commit of what raises a host's epoch (not cordon, drain, allow_teardown) call ``Fleet.forget(host id)``.

Errors: ``HostDeletedError`` 410, ``NotFoundError`` 404, ``ConfirmationError`` 400, ``HostAliveError``,
``StillNeededError`` and ``TeardownChangedError`` 409.
"""

from __future__ import annotations

import msgspec

from hostler.control.books import ledger
from hostler.control.fleet.announcing import alive, announce, note
from hostler.control.fleet.draining import forget_refusals
from hostler.control.fleet.errors import ConfirmationError, StillNeededError, TeardownChangedError
from hostler.control.fleet.hosts import HostBody, host_alone, read_body
from hostler.control.fleet.ordering import count_teardown
from hostler.control.fleet.silence import bury, silence
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, hosts, log
from hostler.control.store.hosts import HostRow
from hostler.control.vms.spec import check_labels, check_texts
from hostler.errors import InputError
from hostler.model import CPU, MEMORY, STORAGE, Amounts, HostLeft, Taint, may_give

__all__ = [
    "HostWish", "allow_teardown", "change_host", "confirm_dead", "cordon", "delete_host", "drain", "find_host",
    "force_offline", "rotate",
]  # fmt: skip

_MOST_TAINTS = 64  # every VM's tolerations are compared with all of them
_replace = msgspec.structs.replace


class HostWish(msgspec.Struct, frozen=True, kw_only=True):
    """What to change of a host; None leaves it as it is. Amounts are those of ``hostler.model``."""

    labels: tuple[tuple[str, str], ...] | None = None
    taints: tuple[Taint, ...] | None = None
    overcommit: Amounts | None = None  # resource to ratio, in millionths
    reserve: Amounts | None = None


def find_host(connection: Connection, name_or_id: str) -> HostRow:
    """Return a host that is not deleted, by its id or else its name; NotFoundError, HostDeletedError."""
    found = hosts.find(connection, name_or_id)
    if found is None or found.deleted_ns is not None:
        found = hosts.find_by_name(connection, name_or_id)
    return found if found is not None else alive(connection, name_or_id)


def cordon(connection: Connection, host: str, *, is_cordoned: bool, actor: str, now_ns: int) -> HostRow:
    """Keep new VMs away from a host, or no longer."""
    row = alive(connection, host)
    if row.is_cordoned == is_cordoned:
        return row
    text = "cordoned" if is_cordoned else "no longer cordoned"
    changed = _replace(row, is_cordoned=is_cordoned)
    return announce(connection, row, changed, read_body(row), actor=actor, now_ns=now_ns, text=text)


def drain(connection: Connection, host: str, *, is_draining: bool, actor: str, now_ns: int) -> HostRow:
    """Move a host's VMs elsewhere where that is possible, or no longer; ``draining.staying`` says who cannot.

    Whoever asks again wants to know how it is now: VMs that found no place are tried at once.
    """
    row = alive(connection, host)
    forget_refusals(connection, host, actor=actor, now_ns=now_ns)
    if row.is_draining == is_draining:
        return row
    text = "draining" if is_draining else "no longer draining"
    changed = _replace(row, is_draining=is_draining)
    return announce(connection, row, changed, read_body(row), actor=actor, now_ns=now_ns, text=text)


def force_offline(connection: Connection, host: str, *, confirm: str, actor: str, now_ns: int) -> HostRow:
    """Take a host for silent without waiting; its next registration brings it back."""
    row = alive(connection, host)
    _check_confirmed(row, confirm)
    if row.state in ("offline", "fenced"):
        return row
    return silence(connection, row, state="offline", actor=actor, text="forced offline", now_ns=now_ns)


def confirm_dead(connection: Connection, host: str, *, confirm: str, actor: str, now_ns: int) -> int:
    """Take an operator's word that a silent host runs nothing; return how many VMs that concerned.

    What may start elsewhere does. If the host does run, those VMs run twice: hence the name, written out.
    """
    _check_confirmed(alive(connection, host), confirm)
    return bury(connection, host, f"{actor} confirmed it", actor=actor, now_ns=now_ns)


def allow_teardown(connection: Connection, host: str, *, confirm: int, actor: str, now_ns: int) -> HostRow:
    """Let a host remove so many VMs at once, all that it is ordered to remove now; TeardownChangedError otherwise."""
    row = alive(connection, host)
    body = read_body(row)
    due = count_teardown(connection, host, body)
    if confirm < 1 or due != confirm:
        hint = f"look at what is to be removed, then confirm {due}" if due else "there is nothing to confirm"
        raise TeardownChangedError(f"host {row.name} is to remove {due} VMs, not {confirm}", hint=hint)
    changed = _replace(row, generation=row.generation + 1)  # it comes with the orders
    allowed = _replace(body, may_tear_down=confirm)
    text = f"may remove {confirm} VMs at once"
    return announce(connection, row, changed, allowed, actor=actor, now_ns=now_ns, text=text)


def change_host(
    connection: Connection, host: str, wish: HostWish, settings: ControlSettings, *, actor: str, now_ns: int
) -> HostRow:
    """Change what operators say about a host. Its agent registers again where what it may give changed."""
    row = alive(connection, host)
    body = read_body(row)
    if wish.labels is not None:
        check_labels("labels", dict(wish.labels))
    if wish.taints is not None:
        if len(wish.taints) > _MOST_TAINTS:
            raise InputError(f"taints: {len(wish.taints)} of them", hint=f"a host has at most {_MOST_TAINTS}")
        check_texts("taints", [[taint.key, taint.value] for taint in wish.taints])
    changes = {
        "own_labels": wish.labels,
        "own_taints": wish.taints,
        "own_overcommit": wish.overcommit,
        "own_reserve": wish.reserve,
    }
    new = _replace(body, **{name: value for name, value in changes.items() if value is not None})
    if new == body:
        return row
    has_other_limit = (new.own_overcommit, new.own_reserve) != (body.own_overcommit, body.own_reserve)
    if has_other_limit:
        _check_amounts(row, new, settings)
    changed = _replace(row, epoch=row.epoch + (has_other_limit and row.state == "ready"))
    return announce(connection, row, changed, new, actor=actor, now_ns=now_ns, text="settings changed")


def rotate(connection: Connection, host: str, *, actor: str, now_ns: int) -> HostRow:
    """Give a host's agent a new credential as soon as it registers again, which it is made to do now."""
    row = alive(connection, host)
    body = _replace(read_body(row), must_rotate=True)
    changed = _replace(row, epoch=row.epoch + 1)
    return announce(connection, row, changed, body, actor=actor, now_ns=now_ns, text="gets a new credential")


def delete_host(connection: Connection, host: str, *, confirm: str, actor: str, now_ns: int) -> HostRow:
    """Let a host go for good. It must have no VMs: drained, or proved dead."""
    row = alive(connection, host)
    _check_confirmed(row, confirm)
    count = len(ledger.of_host(connection, host))
    if count:
        hint = "drain it and delete what cannot move; of a dead host, confirm that it is dead"
        raise StillNeededError(f"host {row.name} has {count} VMs", hint=hint)
    body = _replace(read_body(row), remains=())
    gone = _replace(row, deleted_ns=now_ns, updated_ns=now_ns, epoch=row.epoch + 1, body=msgspec.json.encode(body))
    saved = hosts.save(connection, gone)
    entries = [note(saved, "deleted", actor=actor, now_ns=now_ns)]
    if row.state != "joined":
        fact = msgspec.json.encode(HostLeft(name=saved.name, uid=saved.id, version=saved.version))
        entries.append(log.NewEntry(at_ns=now_ns, kind="fact", body=fact, actor=actor, subject=saved.id))
    log.append(connection, entries)
    return saved


def _check_confirmed(row: HostRow, confirm: str) -> None:
    if confirm != row.name:
        raise ConfirmationError(f"{confirm[:60]!r} is not the name of the host", hint=f"write {row.name} to confirm")


def _check_amounts(row: HostRow, body: HostBody, settings: ControlSettings) -> None:
    """Refuse what the engine could not count with."""
    host = host_alone(row, body)
    known = (CPU, MEMORY, STORAGE)
    for name, _ in (*body.own_overcommit, *body.own_reserve):
        if name not in known:
            raise InputError(f"there is no resource {name!r} of hosts", hint=f"use {', '.join(known)}")
    for resource in known:
        may_give(host, resource, settings.overcommit, settings.reserve)
