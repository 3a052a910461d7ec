"""Sentences about hosts and VMs as REST shows them. One source for the command line and the dashboard. Pure.

Commands and pages may lay them out differently, but they write no sentence of their own for the same fact. Sentences
about a VM's status are in ``control/vms/status_texts.py``, those of explanations in ``model/explanation_texts.py``.
"""

from __future__ import annotations

from hostler.control.schemas.fleet import Host, HostReserved
from hostler.control.schemas.vms import Condition
from hostler.model.vocabulary import plural

__all__ = [
    "AWAY_STATES", "NO_HOSTS", "NO_VM_WAITS", "condition_text", "host_conditions", "host_state", "inventory_text",
    "keeper_text", "teardown_text", "watchdog_text",
]  # fmt: skip

NO_VM_WAITS = "no VM waits"
NO_HOSTS = "there are no hosts yet: 'hostler token create' creates a token with which one can join"
NOT_REGISTERED = "not registered"
AWAY_STATES = frozenset(("silent", "offline", "fenced", NOT_REGISTERED))  # it does not answer


def host_conditions(host: Host) -> tuple[str, ...]:
    """Return the state of a host, and the mark that matters most if it has one: ``ready``, ``draining``."""
    state = host.state or "joined"
    is_missed = state == "ready" and not host.registered
    known = ((NOT_REGISTERED, is_missed), ("draining", host.draining), ("cordoned", host.cordoned))
    return (state, *[word for word, is_so in known if is_so][:1])


def host_state(host: Host) -> str:
    """Return the conditions of a host in one phrase: ``ready, draining``."""
    return ", ".join(host_conditions(host))


def keeper_text(reserved: HostReserved) -> str:
    """Say which reservation keeps room of a host; one that the caller may not see has a phrase instead of a name."""
    return f"kept by {'reservation ' if '/' in reserved.reservation else ''}{reserved.reservation}"


def watchdog_text(host: Host) -> str:
    """Say whether a watchdog stops the VMs of a host that lost the control plane."""
    return f"works, stops up to {plural(host.watched_vms, 'VM')} in time" if host.watched else "none seen"


def teardown_text(host: Host) -> str:
    """Say which VMs a host keeps against an order to remove many at once; empty if none."""
    if not host.refused_teardown:
        return ""
    return f"{plural(host.refused_teardown, 'VM')} that it was told to remove, until the teardown of many is allowed"


def inventory_text(host: Host) -> str:
    """Say that a host has not told its VMs; empty if it has."""
    return "" if host.inventory_known else "not known yet: it counts as full"


def condition_text(condition: Condition) -> str:
    """Return whether a condition of a VM holds, and why: ``no (host silent)``."""
    why = condition.message or condition.reason.replace("_", " ")
    return f"{'yes' if condition.status else 'no'}{f' ({why})' if why else ''}"
