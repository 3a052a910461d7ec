"""A VM's status as text that continues its name, and what its owner or an operator can do. Pure.

The engine only knows who has room, so it takes a VM with room for a running one.
"""

from __future__ import annotations

from collections.abc import Sequence

from hostler.control.vms.orders import is_of_a_backup
from hostler.control.vms.state import Vm, state_of

__all__ = [
    "BEHIND_OTHERS", "advice", "describe_bring_back", "describe_gang_search", "describe_incomplete_gang",
    "describe_status", "describe_with_reason", "force_command", "is_search_reason", "waits_for_hosts",
]  # fmt: skip

_THERE = {
    "creating": "has its place on {host}, where it is being made",
    "starting": "is starting on {host}",
    "running": "runs on {host}",
    "paused": "is paused on {host}",
    "stopping": "is being stopped on {host}",
    "stopped": "is stopped, and stays on {host}",
    "resizing": "runs on {host}, where its size is being changed",
    "pending": "waits for room on {host}",
    "deleting": "is being deleted on {host}",
}
_NOWHERE = {
    "pending": "waits for a place",
    "stopped": "is stopped, and on no host",
    "deleting": "is being deleted",
    "lost": "is lost: its host is gone, and its disk with it",
    "migrating": "is on its way to another host, and the host that it comes from is gone",
}
_NAMED = 5  # hosts, in a text
_AFTER_WAY = ("pending", "stopping")
_AGAIN = {
    "running": "'hostler vm restart {name}' tries again",
    "paused": "'hostler vm resume {name}' lets it run",
    "stopped": "'hostler vm start {name}' starts it",
}


def describe_status(vm: Vm) -> str:
    """Say how a VM is, to be read after its name; of one that made way for another and has no room since, also why."""
    text = _standing(vm)
    return f"{text}; it was stopped because {vm.made_way}" if vm.made_way and state_of(vm) in _AFTER_WAY else text


def describe_with_reason(vm: Vm, why: str) -> str:
    """Say how a VM is, and why it waits; REST's ``why`` of a VM on a silent host repeats its status."""
    status = describe_status(vm)
    if not why or state_of(vm) == "unknown" or why in status:
        return status
    return f"{status}{'; ' if ': ' in status else ': '}{why}"


def describe_bring_back(host: str) -> str:
    """Say what ends the silence of a host if nothing more is known."""
    return f"bring {host} back"


def _standing(vm: Vm) -> str:
    state, home = state_of(vm), vm.home
    if state == "lost" and vm.trouble is not None:
        return f"is lost: {vm.trouble.message}"
    if home is None:
        return _NOWHERE.get(state, f"is {state}")
    if is_of_a_backup(home):
        return f"was on {home.name} when the backup was made, and no host has said since the restore that it has it"
    if state == "unknown":
        return f"is on {home.name}, which is silent: it is unknown whether it runs"
    if state == "failed" and vm.trouble is not None:
        return f"failed on {home.name}: {vm.trouble.message}"
    if state == "migrating":
        return f"is on {home.name}, and {_course(vm)}"
    text = _THERE.get(state, f"is {state} on {{host}}").format(host=home.name)
    return text if vm.trouble is None else f"{text}, but: {vm.trouble.message}"


def _course(vm: Vm) -> str:
    """Say how far a move is."""
    phase = vm.moving.phase if vm.moving is not None else ""
    if vm.other is None:
        return "is to move to another host"
    if phase == "cleaning":
        return f"has just come from {vm.other.name}"
    if phase == "aborting":
        return f"stays there: the move to {vm.other.name} is given up"
    makes_room = vm.moving.makes_room if vm.moving is not None else ""
    return f"moves to {vm.other.name}{f' to make room for {makes_room}' if makes_room else ''}"


def waits_for_hosts(missing: Sequence[str]) -> str:
    """Say which hosts a lost VM waits for; nothing if none is missing."""
    if not missing:
        return ""
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"is not created again while hosts are missing that may still have it: {', '.join(missing[:_NAMED])}{more}"


def force_command(vm: Vm) -> str:
    """Return what an admin types to start a lost VM although hosts are missing."""
    return f"'hostler vm start {vm.project}/{vm.name} --force'"


def advice(vm: Vm, mend: str = "", missing: Sequence[str] = ()) -> str:
    """Say what an owner or operator can do about a VM that is stuck; empty if nothing is to be done.

    ``mend`` says what ends the silence of its host, where that is known; ``missing`` are hosts that may have a lost VM.
    """
    state, home, name = state_of(vm), vm.home, f"{vm.project}/{vm.name}"
    if state == "lost" and missing:
        waits = f"it {waits_for_hosts(missing)}; bring them back, or confirm that they are dead"
        return f"{waits}; an admin can force it: {force_command(vm)}"
    if state == "lost":
        return f"'hostler vm start {name}' starts it without its data; 'hostler vm delete {name}' removes it"
    if state == "stopped" and vm.run is None and vm.trouble is None:
        return f"{_AGAIN['stopped'].format(name=name)}; until then no host is asked"
    if home is None:
        return ""
    if is_of_a_backup(home):
        return "start the agents of all hosts; 'hostler host list' shows which have not registered since the restore"
    if state == "unknown":
        dead = f"if it is dead, switch it off, then 'hostler host confirm-dead {home.name}'"
        return f"{mend or describe_bring_back(home.name)}; {dead}"
    if vm.trouble is None:
        return ""
    again = _AGAIN.get(vm.power, "").format(name=name) if state == "failed" else ""
    return "; ".join(text for text in (vm.trouble.hint, again) if text)


def describe_incomplete_gang(there: int, least: int, gang: str = "") -> str:
    """Say that a gang waits for members; nothing where all are there.

    The text for members names the gang. The page of the gang itself shows its name already.
    """
    of_gang = f" of gang {gang}" if gang else ""
    return f"{there}/{least} members{of_gang} are there, it waits for the rest" if there < least else ""


BEHIND_OTHERS = "the search for room for other gangs of its project goes on; its gang is next"


def describe_gang_search(gang: str = "") -> str:
    """Say that room for a gang is being looked for, over many steps: nothing is decided about its members yet."""
    return f"the search for room for all members{f' of gang {gang}' if gang else ''} goes on"


def is_search_reason(why: str, gang: str) -> bool:
    """Return whether a reason says that a gang waits for a search, its own or one before it."""
    return why in (describe_gang_search(gang), BEHIND_OTHERS)
