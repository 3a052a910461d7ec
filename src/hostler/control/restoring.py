"""What a restore reads rows with: the types by which the service reads them later, so that it never fails on one.

The store itself knows no types of others. Used by the command ``restore``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hostler.control.access.keys import KeyBody
from hostler.control.access.sessions import SigningSecret
from hostler.control.api.shapes import GangCreate, ReservationCreate
from hostler.control.books.follower import Follower, Step
from hostler.control.books.ledger import News
from hostler.control.fleet.history_time import Reached
from hostler.control.fleet.hosts import HostBody
from hostler.control.services.callers import Noted
from hostler.control.services.projects import ProjectBody
from hostler.control.services.quotas import QuotaBody
from hostler.control.store.bodies import Readers
from hostler.control.store.log import Checkpoint
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Vm
from hostler.model import Event

__all__ = ["READERS"]


class _Operation(msgspec.Struct):
    """What operations keep, of whatever kind: why one failed, and which amounts a resize named."""

    error: str = ""
    sizes: tuple[str, ...] = ()


def _json(kind: object) -> Callable[[bytes], object]:
    return msgspec.json.Decoder(kind).decode


def _checkpoint(form: str, body: bytes) -> object:
    """Make the engine that a service would begin with."""
    return Follower.restore(Checkpoint(seq=0, at_ns=0, format=form, body=body))


READERS: Readers = {
    "fact": _json(Event),
    "step": _json(Step),
    "news": _json(News),
    "note": _json(Noted),
    "project": _json(ProjectBody),
    "spec": _json(VmSpec),
    "status": _json(Vm),
    "host": _json(HostBody),
    "key": _json(KeyBody),
    "operation": _json(_Operation),
    "quota": _json(QuotaBody),
    "reservation": _json(ReservationCreate),
    "gang": _json(GangCreate),
    "secret": _json(SigningSecret),
    "history time": _json(Reached),
    "presence": _json(dict[str, int]),
    "checkpoint": _checkpoint,
}
"""By what is read."""
