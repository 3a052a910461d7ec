"""Calls for VMs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from hostler.control.client.tenancy import check_project
from hostler.control.client.wire import Wire, list_items, path_of
from hostler.control.schemas import (
    Candidates,
    CandidatesAsked,
    Event,
    Migrate,
    Page,
    Plan,
    PlanAsked,
    Queue,
    Start,
    Vm,
    VmChanged,
    VmCreate,
    VmEdit,
    Waiting,
)
from hostler.errors import UnknownNameError

__all__ = ["Verb", "Vms", "is_id", "split_name"]

Verb = Literal["start", "stop", "restart", "pause", "resume"]

_PATIENCE_S = 30.0  # beyond the usual: placing at once takes as long as the first decision does
_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


def is_id(word: str) -> bool:
    """Return whether a word is an id, not a name."""
    return _ID.fullmatch(word) is not None


def split_name(word: str, project: str) -> tuple[str, str]:
    """Return project and name of ``NAME`` or ``PROJECT/NAME``."""
    where, _, name = word.rpartition("/")
    return where or project, name


class Vms:
    """Calls for VMs. A VM is named by its id, unless a method says otherwise."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, wish: VmCreate) -> VmChanged:
        """Create a VM; NotPlacedError if it had to be placed at once and no host has room."""
        return self._wire.change("POST", "/v1/vms", VmChanged, body=wish, wait_s=_PATIENCE_S)

    def list(
        self, *, project: str = "", state: str = "", host: str = "", power: str = "", gang: str = "",
        labels: Sequence[str] = (), name: str = "", limit: int = 0,
    ) -> Iterator[Vm]:  # fmt: skip
        """Return VMs, oldest first, page by page; labels are pairs such as ``tier=web``."""
        query = {"project": project, "state": state, "host": host, "power": power, "gang": gang, "name": name}
        return list_items(self._wire, "/v1/vms", Page[Vm], {**query, "label": list(labels)}, limit=limit)

    def get(self, vm: str) -> Vm:
        """Return a VM."""
        return self._wire.read(path_of("vms", vm), Vm)

    def find(self, word: str, project: str) -> Vm:
        """Return a VM by its id, by its name in a project, or by ``PROJECT/NAME``; UnknownNameError."""
        if is_id(word):
            return self.get(word)
        where, name = split_name(word, project)
        for vm in self.list(project=where, name=name, limit=2):
            if vm.name == name:
                return vm
        check_project(self._wire, where)
        hint = "'hostler vm list' shows those of the project; PROJECT/NAME names one of another"
        raise UnknownNameError(f"there is no VM {name!r} in project {where}", hint=hint)

    def act(self, vm: str, verb: Verb, *, version: str = "") -> VmChanged:
        """Start, stop, restart, pause or resume a VM."""
        return self._wire.change("POST", path_of("vms", vm, verb), VmChanged, version=version)

    def start(self, vm: str, *, is_forced: bool = False) -> VmChanged:
        """Start a VM. A lost VM starts while hosts are missing only if that is forced."""
        return self._wire.change("POST", path_of("vms", vm, "start"), VmChanged, body=Start(force=is_forced))

    def edit(self, vm: str, edit: VmEdit, *, version: str = "") -> VmChanged:
        """Resize a VM, or change its other fields."""
        return self._wire.change("PATCH", path_of("vms", vm), VmChanged, body=edit, version=version)

    def migrate(self, vm: str, host: str = "") -> VmChanged:
        """Move a running or stopped VM to a host, or to any host with room."""
        return self._wire.change("POST", path_of("vms", vm, "migrate"), VmChanged, body=Migrate(host=host))

    def cancel_migration(self, vm: str) -> VmChanged:
        """Cancel the migration of a VM."""
        return self._wire.change("POST", path_of("vms", vm, "cancel-migration"), VmChanged)

    def delete(self, vm: str) -> VmChanged:
        """Delete a VM with its disks."""
        return self._wire.change("DELETE", path_of("vms", vm), VmChanged)

    def decision(self, vm: str) -> dict[str, Any]:
        """Return why a VM is on its host, or why it waits: the object of ``hostler explain -o json``."""
        found: dict[str, Any] = self._wire.read(path_of("vms", vm, "decision"), dict)
        return found

    def events(
        self, vm: str, *, limit: int = 0, since: str = "", tail: int | None = None, kinds: Sequence[str] = ()
    ) -> Iterator[Event]:
        """Return the events of a VM: since a time, the last ones, or of some kinds; see ``Client.events``."""
        query = {"since": since, "tail": tail, "kind": list(kinds)}
        return list_items(self._wire, path_of("vms", vm, "events"), Page[Event], query, limit=limit)

    def plan(self, asked: PlanAsked) -> Plan:
        """Return where VMs would be placed if they were created now; nothing is changed."""
        return self._wire.change("POST", "/v1/plan", Plan, body=asked)

    def candidates(self, asked: CandidatesAsked) -> Candidates:
        """Return which hosts would take a VM, and why others would not; nothing is changed."""
        return self._wire.change("POST", "/v1/candidates", Candidates, body=asked)

    def queue(self, *, project: str = "") -> Iterator[Waiting]:
        """Return the waiting VMs, and why they wait."""
        after = ""
        while True:
            page = self._wire.read("/v1/queue", Queue, {"project": project, "limit": self._wire.page, "after": after})
            yield from page.items
            after = page.next
            if not after:
                return
