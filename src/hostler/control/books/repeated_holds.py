"""Recognizes decisions that repeat what is written already, so that the leader need not read whole VMs.

A search for a gang takes many steps, and each step defers every member again, mostly for the same reason. Reading
hundreds of VMs in the transaction of each step made other writes wait for 10 to 40 ms.

The effect of such a decision depends only on the VM and on the text. So if it changed nothing once, it changes nothing
again while the row has the same version. Only committed results are remembered, because the versions of a transaction
that was rolled back are given again to other contents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from hostler.control.store import Connection
from hostler.control.store.rows import vms
from hostler.control.vms.guests import vm_of_uid
from hostler.model import Action, Defer

__all__ = ["HoldText", "RepeatedHolds"]

A = TypeVar("A", bound=Action)
_MOST = 100_000  # holds that are remembered; more than that, and all are forgotten


class HoldText(NamedTuple):
    """Why a VM waits: in general, on its own host, and whether room is promised to it."""

    why: str
    at_home: str
    is_promised: bool


class RepeatedHolds:
    """Remembers decisions that changed nothing, by uid: the version of the row, and the text."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, HoldText]] = {}
        self._found: dict[str, tuple[int, HoldText]] = {}

    def remove_from(self, connection: Connection, actions: Sequence[A], texts: Mapping[str, HoldText]) -> list[A]:
        """Return actions without those that change nothing. A VM with several actions keeps all of them."""
        count = Counter(vm_of_uid(action.uid) for action in actions)
        likely = {
            action.uid: self._known[action.uid][0]
            for action in actions
            if isinstance(action, Defer)
            and count[vm_of_uid(action.uid)] == 1
            and self._known.get(action.uid, (0, None))[1] == texts[action.uid]
        }
        if not likely:
            return list(actions)
        versions = vms.versions_of(connection, sorted({vm_of_uid(uid) for uid in likely}))
        same = {uid for uid, version in likely.items() if versions.get(vm_of_uid(uid)) == version}
        return [action for action in actions if action.uid not in same]

    def find(self, unchanged: Iterable[tuple[str, int, HoldText]]) -> None:
        """Note decisions of a transaction that changed nothing: uid, version of the row and text."""
        self._found = {uid: (version, text) for uid, version, text in unchanged}

    def commit(self) -> None:
        """Remember what the last transaction found, now that it is committed."""
        if len(self._known) + len(self._found) > _MOST:
            self._known.clear()
        self._known |= self._found
        self._found = {}
