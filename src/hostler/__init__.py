"""Hostler decides where guests (virtual machines and pods) run on hosts, and says why.

The public names are those below, and those of ``hostler.queries``; everything else may change between releases.
Importing this module is cheap: the engine and its compiled kernels are loaded when a name that needs them is first
used.

    >>> import hostler
    >>> engine = hostler.Engine([hostler.find_policy("spread")])
    >>> engine.apply(hostler.HostJoined(host=hostler.Host(name="a", capacity=hostler.parse_amounts({"cpu": 8}))))
    >>> spec = hostler.GuestSpec(requests=hostler.parse_amounts({"cpu": "1500m"}))
    >>> engine.apply(hostler.GuestArrived(guest=hostler.Guest(name="web", uid="web", spec=spec)))
    >>> [action.host for action in engine.step(now=0)]
    ['a']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from hostler._version import __version__

if TYPE_CHECKING:
    from hostler import queries
    from hostler.engine import BUILT_IN, ClusterView, Engine, Registry, Wake, find_policy, typical_mix
    from hostler.engine.journals.journal import Journal, Recorder, read_journal, replay, write_journal
    from hostler.engine.journals.redaction import redact
    from hostler.errors import HostlerError
    from hostler.model import (
        Abandon,
        Answered,
        Ask,
        Bind,
        BindFailed,
        Budget,
        BudgetChanged,
        BudgetLeft,
        Decision,
        Defer,
        Device,
        DeviceRequest,
        Evict,
        EvictFailed,
        Explanation,
        Expression,
        Gang,
        GangChanged,
        GangLeft,
        Guest,
        GuestArrived,
        GuestBound,
        GuestChanged,
        GuestFailed,
        GuestLeft,
        GuestNominated,
        GuestsArrived,
        GuestSpec,
        GuestTerm,
        Host,
        HostChanged,
        HostJoined,
        HostLeft,
        HostPort,
        HostsJoined,
        MixEntry,
        Move,
        NamespaceChanged,
        Nominate,
        PluginUse,
        Policy,
        PolicyChanged,
        PreemptionRules,
        Prepare,
        Prepared,
        QueueRules,
        Quota,
        QuotasChanged,
        Reason,
        Reservation,
        ReservationChanged,
        ReservationLeft,
        ScorerUse,
        Selector,
        Spread,
        Taint,
        Term,
        Toleration,
        WeightedGuestTerm,
        WeightedTerm,
        amounts,
        labels,
        parse_amounts,
    )
    from hostler.model import Defer as Hold
    from hostler.model.reasons import ReasonKind

_HOMES = {
    "hostler.errors": ("HostlerError",),
    "hostler.model": (
        "Abandon", "Answered", "Ask", "Bind", "BindFailed", "Budget", "BudgetChanged", "BudgetLeft", "Decision",
        "Defer", "Device", "DeviceRequest", "Evict", "EvictFailed", "Explanation", "Expression", "Gang", "GangChanged",
        "GangLeft", "Guest", "GuestArrived", "GuestBound", "GuestChanged", "GuestFailed", "GuestLeft",
        "GuestNominated", "GuestSpec", "GuestTerm", "GuestsArrived", "Host", "HostChanged", "HostJoined",
        "HostLeft", "HostPort", "HostsJoined", "MixEntry", "Move", "NamespaceChanged", "Nominate", "PluginUse",
        "Policy", "PolicyChanged", "PreemptionRules", "Prepare", "Prepared", "QueueRules", "Quota", "QuotasChanged",
        "Reason",
        "Reservation", "ReservationChanged", "ReservationLeft", "ScorerUse", "Selector", "Spread", "Taint", "Term",
        "Toleration", "WeightedGuestTerm", "WeightedTerm", "amounts", "labels", "parse_amounts",
    ),
    "hostler.model.reasons": ("ReasonKind",),
    "hostler.engine": ("BUILT_IN", "ClusterView", "Engine", "Registry", "Wake", "find_policy", "typical_mix"),
    "hostler.engine.journals.journal": ("Journal", "Recorder", "read_journal", "replay", "write_journal"),
    "hostler.engine.journals.redaction": ("redact",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = ("queries",)  # all public names of these packages are public names of Hostler
_ALIASES = {"Hold": "Defer"}  # former names; programs written for them keep working

__all__ = [
    "BUILT_IN", "Abandon", "Answered", "Ask", "Bind", "BindFailed", "Budget", "BudgetChanged", "BudgetLeft",
    "ClusterView", "Decision", "Defer", "Device", "DeviceRequest", "Engine", "Evict", "EvictFailed", "Explanation",
    "Expression", "Gang", "GangChanged", "GangLeft", "Guest", "GuestArrived", "GuestBound", "GuestChanged",
    "GuestFailed", "GuestLeft", "GuestNominated", "GuestSpec", "GuestTerm", "GuestsArrived", "Hold", "Host",
    "HostChanged", "HostJoined", "HostLeft", "HostPort", "HostlerError", "HostsJoined", "Journal", "MixEntry",
    "Move", "NamespaceChanged", "Nominate", "PluginUse", "Policy", "PolicyChanged", "PreemptionRules", "Prepare",
    "Prepared",
    "QueueRules", "Quota", "QuotasChanged", "Reason", "ReasonKind", "Recorder", "Registry", "Reservation",
    "ReservationChanged", "ReservationLeft", "ScorerUse", "Selector", "Spread", "Taint", "Term", "Toleration", "Wake",
    "WeightedGuestTerm", "WeightedTerm", "__version__", "amounts", "find_policy", "labels", "parse_amounts", "queries",
    "read_journal", "redact", "replay", "typical_mix", "write_journal",
]  # fmt: skip


def __getattr__(name: str) -> object:
    name = _ALIASES.get(name, name)
    home = f"hostler.{name}" if name in _PACKAGES else _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'hostler' has no attribute {name!r}")
    if home.startswith(("hostler.engine", "hostler.queries")):
        # numba notices neither an edited callee in another file nor another numpy: compiled kernels are kept by hash.
        import_module("hostler.config.folders").prepare_kernel_cache()
    module = import_module(home)
    value: object = module if name in _PACKAGES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
