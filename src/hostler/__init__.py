"""Hostler decides where guests (virtual machines and pods) run on hosts, and says why.

The public names are those below; everything else may change between releases. Importing this module is cheap: the
engine and its compiled kernels are loaded when a name that needs them is first used.

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
    from hostler.engine import BUILT_IN, ClusterView, Engine, Registry, Wake, find_policy, typical_mix
    from hostler.engine.journal import Journal, Recorder, read_journal, replay, write_journal
    from hostler.engine.redaction import redact
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
        Hold,
        Host,
        HostChanged,
        HostJoined,
        HostLeft,
        HostPort,
        HostsJoined,
        MixEntry,
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

_HOMES = {
    "hostler.errors": ("HostlerError",),
    "hostler.model": (
        "Abandon", "Answered", "Ask", "Bind", "BindFailed", "Budget", "BudgetChanged", "BudgetLeft", "Decision",
        "Device", "DeviceRequest", "Evict", "EvictFailed", "Explanation", "Expression", "Gang", "GangChanged",
        "GangLeft", "Guest", "GuestArrived", "GuestBound", "GuestChanged", "GuestFailed", "GuestLeft",
        "GuestNominated", "GuestSpec", "GuestTerm", "GuestsArrived", "Hold", "Host", "HostChanged", "HostJoined",
        "HostLeft", "HostPort", "HostsJoined", "MixEntry", "NamespaceChanged", "Nominate", "PluginUse", "Policy",
        "PolicyChanged", "PreemptionRules", "Prepare", "Prepared", "QueueRules", "Quota", "QuotasChanged", "Reason",
        "Reservation", "ReservationChanged", "ReservationLeft", "ScorerUse", "Selector", "Spread", "Taint", "Term",
        "Toleration", "WeightedGuestTerm", "WeightedTerm", "amounts", "labels", "parse_amounts",
    ),
    "hostler.engine": ("BUILT_IN", "ClusterView", "Engine", "Registry", "Wake", "find_policy", "typical_mix"),
    "hostler.engine.journal": ("Journal", "Recorder", "read_journal", "replay", "write_journal"),
    "hostler.engine.redaction": ("redact",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BUILT_IN",
    "Abandon",
    "Answered",
    "Ask",
    "Bind",
    "BindFailed",
    "Budget",
    "BudgetChanged",
    "BudgetLeft",
    "ClusterView",
    "Decision",
    "Device",
    "DeviceRequest",
    "Engine",
    "Evict",
    "EvictFailed",
    "Explanation",
    "Expression",
    "Gang",
    "GangChanged",
    "GangLeft",
    "Guest",
    "GuestArrived",
    "GuestBound",
    "GuestChanged",
    "GuestFailed",
    "GuestLeft",
    "GuestNominated",
    "GuestSpec",
    "GuestTerm",
    "GuestsArrived",
    "Hold",
    "Host",
    "HostChanged",
    "HostJoined",
    "HostLeft",
    "HostPort",
    "HostlerError",
    "HostsJoined",
    "Journal",
    "MixEntry",
    "NamespaceChanged",
    "Nominate",
    "PluginUse",
    "Policy",
    "PolicyChanged",
    "PreemptionRules",
    "Prepare",
    "Prepared",
    "QueueRules",
    "Quota",
    "QuotasChanged",
    "Reason",
    "Recorder",
    "Registry",
    "Reservation",
    "ReservationChanged",
    "ReservationLeft",
    "ScorerUse",
    "Selector",
    "Spread",
    "Taint",
    "Term",
    "Toleration",
    "Wake",
    "WeightedGuestTerm",
    "WeightedTerm",
    "__version__",
    "amounts",
    "find_policy",
    "labels",
    "parse_amounts",
    "read_journal",
    "redact",
    "replay",
    "typical_mix",
    "write_journal",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'hostler' has no attribute {name!r}")
    if home.startswith("hostler.engine"):
        # numba notices neither an edited callee in another file nor another numpy: compiled kernels are kept by hash.
        import_module("hostler.config.folders").prepare_kernel_cache()
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
