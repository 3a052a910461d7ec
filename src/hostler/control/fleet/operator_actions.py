"""What operators do to hosts: works of the store, for services.

After the commit of an action that raises a host's epoch (all but cordon, drain and allow_teardown), call
``AgentService.forget(host id)``. ``lock_out`` says what follows for a host when its agent is locked out.
``access.tokens`` revokes the credential itself, in the same transaction.

Errors: ``HostDeletedError`` 410, ``NotFoundError`` 404, ``ConfirmationError`` 400, ``HostAliveError``,
``StillNeededError`` and ``TeardownChangedError`` 409.
"""

from __future__ import annotations

import msgspec

from hostler.control.books import ledger
from hostler.control.fleet.agents.host_orders import count_teardown
from hostler.control.fleet.errors import ConfirmationError, StillNeededError, TeardownChangedError
from hostler.control.fleet.hosts.drains import forget_refusals
from hostler.control.fleet.hosts.host_body import HostBody, host_alone, read_body
from hostler.control.fleet.hosts.host_writes import announce, get_live_host, note
from hostler.control.fleet.hosts.silence import mark_dead, mark_silent
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection
from hostler.control.store.history import log
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms.spec import check_labels, check_texts
from hostler.errors import InputError
from hostler.model import CPU, MEMORY, STORAGE, Amounts, HostLeft, Taint, may_give
from hostler.model.vocabulary import plural

__all__ = [
    "HostUpdate", "allow_teardown", "change_host", "confirm_dead", "cordon", "delete_host", "drain", "find_host",
    "force_offline", "lock_out", "rotate",
]  # fmt: skip

_MOST_TAINTS = 64  # every VM's tolerations are compared with all of them
_replace = msgspec.structs.replace


class HostUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What to change of a host; None leaves it unchanged. Amounts are those of ``hostler.model``."""

    labels: tuple[tuple[str, str], ...] | None = None
    taints: tuple[Taint, ...] | None = None
    overcommit: Amounts | None = None  # resource to ratio, in millionths
    reserve: Amounts | None = None


def find_host(connection: Connection, name_or_id: str) -> HostRow:
    """Return a host that is not deleted, by id or by name; NotFoundError, HostDeletedError."""
    found = hosts.find(connection, name_or_id)
    if found is None or found.deleted_ns is not None:
        found = hosts.find_by_name(connection, name_or_id)
    return found if found is not None else get_live_host(connection, name_or_id)


def cordon(connection: Connection, host: str, *, is_cordoned: bool, actor: str, now_ns: int) -> HostRow:
    """Keep new VMs away from a host, or allow them again."""
    row = get_live_host(connection, host)
    if row.is_cordoned == is_cordoned:
        return row
    text = "cordoned" if is_cordoned else "no longer cordoned"
    changed = _replace(row, is_cordoned=is_cordoned)
    return announce(connection, row, changed, read_body(row), actor=actor, now_ns=now_ns, text=text)


def drain(connection: Connection, host: str, *, is_draining: bool, actor: str, now_ns: int) -> HostRow:
    """Move a host's VMs elsewhere if possible, or stop doing so; ``drains.list_staying`` lists those that cannot.

    A repeated request tries VMs that found no place at once.
    """
    row = get_live_host(connection, host)
    forget_refusals(connection, host, actor=actor, now_ns=now_ns)
    if row.is_draining == is_draining:
        return row
    text = "draining" if is_draining else "no longer draining"
    changed = _replace(row, is_draining=is_draining)
    return announce(connection, row, changed, read_body(row), actor=actor, now_ns=now_ns, text=text)


def force_offline(connection: Connection, host: str, *, confirm: str, actor: str, now_ns: int) -> HostRow:
    """Mark a host as silent without waiting; its next registration brings it back."""
    row = get_live_host(connection, host)
    _check_confirmed(row, confirm)
    if row.state in ("offline", "fenced"):
        return row
    return mark_silent(connection, row, state="offline", actor=actor, text="forced offline", now_ns=now_ns)


def confirm_dead(connection: Connection, host: str, *, confirm: str, actor: str, now_ns: int) -> int:
    """Take an operator's word that a silent host runs nothing; return how many VMs that concerned.

    VMs that may start elsewhere do. If the host does run, they run twice. So the operator must type the host's name.
    """
    _check_confirmed(get_live_host(connection, host), confirm)
    return mark_dead(connection, host, f"{actor} confirmed it", actor=actor, now_ns=now_ns)


def allow_teardown(connection: Connection, host: str, *, confirm: int, actor: str, now_ns: int) -> HostRow:
    """Let a host remove the given number of VMs, all that it is ordered to remove; else TeardownChangedError."""
    row = get_live_host(connection, host)
    body = read_body(row)
    due = count_teardown(connection, host, body)
    if confirm < 1 or due != confirm:
        hint = f"look at what is to be removed, then confirm {due}" if due else "there is nothing to confirm"
        raise TeardownChangedError(f"host {row.name} is to remove {plural(due, 'VM')}, not {confirm}", hint=hint)
    changed = _replace(row, generation=row.generation + 1)  # it comes with the orders
    allowed = _replace(body, may_tear_down=confirm)
    text = f"may remove {plural(confirm, 'VM')} at once"
    return announce(connection, row, changed, allowed, actor=actor, now_ns=now_ns, text=text)


def change_host(
    connection: Connection, host: str, wish: HostUpdate, settings: ControlSettings, *, actor: str, now_ns: int
) -> HostRow:
    """Change operators' settings of a host. Its agent registers again if the size it may give changed."""
    row = get_live_host(connection, host)
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
    """Give a host's agent a new credential when it registers again, which it must do now."""
    row = get_live_host(connection, host)
    body = _replace(read_body(row), must_rotate=True)
    changed = _replace(row, epoch=row.epoch + 1)
    return announce(connection, row, changed, body, actor=actor, now_ns=now_ns, text="gets a new credential")


def delete_host(connection: Connection, host: str, *, confirm: str, actor: str, now_ns: int) -> HostRow:
    """Delete a host for good. It must have no VMs: drain it, or confirm its death."""
    row = get_live_host(connection, host)
    _check_confirmed(row, confirm)
    count = len(ledger.load_of_host(connection, host))
    if count:
        hint = "drain it and delete what cannot move; of a dead host, confirm that it is dead"
        raise StillNeededError(f"host {row.name} has {plural(count, 'VM')}", hint=hint)
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
    """Reject amounts that the engine cannot count with."""
    host = host_alone(row, body)
    known = (CPU, MEMORY, STORAGE)
    for name, _ in (*body.own_overcommit, *body.own_reserve):
        if name not in known:
            raise InputError(f"there is no resource {name!r} of hosts", hint=f"use {', '.join(known)}")
    for resource in known:
        may_give(host, resource, settings.overcommit, settings.reserve)


_TEXT = "its agent's credential is revoked"


def lock_out(connection: Connection, host: str, *, actor: str, now_ns: int) -> HostRow:
    """Lock out a host: it gets no VMs, the state of its VMs is unknown, and its registration is over.

    It becomes ``offline`` and not ``silent``: a silent host had no answer for a known time, from which follows when its
    watchdog has stopped its VMs.
    """
    row = get_live_host(connection, host)
    body = msgspec.structs.replace(read_body(row), is_locked_out=True)
    if row.state == "ready":
        return mark_silent(connection, row, state="offline", body=body, actor=actor, text=_TEXT, now_ns=now_ns)
    changed = msgspec.structs.replace(row, epoch=row.epoch + 1)
    return announce(connection, row, changed, body, actor=actor, now_ns=now_ns, text=_TEXT)
