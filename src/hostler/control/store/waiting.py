"""VMs that wait for a place, in the order in which the engine looks at them: by priority, then by age."""

from __future__ import annotations

import base64
import binascii

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, or_, select, tuple_

from hostler.control.store.errors import InvalidCursorError
from hostler.control.store.rows import MOST_IN_A_PAGE, Page
from hostler.control.store.tables import vms
from hostler.control.store.vms import VmRow
from hostler.errors import InputError

__all__ = ["list_waiting"]

_KIND = "waiting"


def list_waiting(connection: Connection, project: str = "", *, after: str = "", limit: int = 100) -> Page[VmRow]:
    """Return VMs that wait, of a project or of all, a page at a time, without their labels."""
    if not 1 <= limit <= MOST_IN_A_PAGE:
        raise InputError(f"a page of {limit} rows", hint=f"ask for 1 to {MOST_IN_A_PAGE}")
    query = select(vms).where(vms.c.state == "pending", vms.c.deleted_ns.is_(None))
    if project:
        query = query.where(vms.c.project == project)
    if after:
        query = query.where(_is_behind(after))
    query = query.order_by(vms.c.priority.desc(), vms.c.created_ns, vms.c.id).limit(limit + 1)
    rows = [VmRow(**row) for row in connection.execute(query).mappings()]
    return Page(items=tuple(rows[:limit]), next=_cursor(rows[limit - 1]) if len(rows) > limit else "")


def _is_behind(after: str) -> ColumnElement[bool]:
    priority, created_ns, identity = _read(after)
    later = tuple_(vms.c.created_ns, vms.c.id) > tuple_(created_ns, identity)
    return or_(vms.c.priority < priority, and_(vms.c.priority == priority, later))


def _cursor(row: VmRow) -> str:
    text = msgspec.json.encode([_KIND, row.priority, row.created_ns, row.id])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read(text: str) -> tuple[int, int, str]:
    hint = "pass on what the page before gave as next, or nothing"
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        kind, priority, created_ns, identity = msgspec.json.decode(raw, type=tuple[str, int, int, str])
        if kind != _KIND or not (-(2**63) <= priority < 2**63 and 0 <= created_ns < 2**63):
            raise ValueError("of another list")
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise InvalidCursorError("the cursor cannot be read", hint=hint) from error
    return priority, created_ns, identity
