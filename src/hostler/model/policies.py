"""Policies as plain data: which filters, which scorers with which weights, and how ties end."""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.model.resources import Amounts

__all__ = [
    "DEFAULT_POLICY",
    "AskUse",
    "DeviceRule",
    "MixEntry",
    "Normalizer",
    "PluginUse",
    "Policy",
    "PreemptionRules",
    "QueueRules",
    "ScorerUse",
    "TieKey",
]

TieKey = Literal["fewer_guests", "rank", "name", "random", "after_last"]
DeviceRule = Literal["lowest", "best", "worst", "random", "fgd"]
Normalizer = Literal["none", "max", "reverse_max", "min_max", "min_max_real", "even"]

DEFAULT_POLICY = "spread"
DEFAULT_FILTERS = (
    "cordon", "host_name", "taints", "host_affinity", "unsupported", "resources", "devices", "ports", "spread",
    "guest_affinity",
)  # fmt: skip


class MixEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a typical mix: a guest's cpu and device needs, and its share of all guests."""

    cpu_millis: int
    device_millis: int = 0
    device_count: int = 0
    models: tuple[str, ...] = ()
    share: float = 0.0


class PluginUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plugin by name, with its arguments as a JSON text (plain data, so that policies hash and travel)."""

    name: str
    args: str = ""


class ScorerUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scorer by name, its weight (negative: less is better) and arguments as a JSON text.

    ``shown_as`` is its name in explanations, where that differs.
    """

    name: str
    weight: int = 1
    args: str = ""
    shown_as: str = ""


class AskUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer from outside that a decision waits for: who is asked, for how long, and what it weighs."""

    name: str
    timeout_ns: int = 5_000_000_000
    weight: int = 1
    ignorable: bool = False  # no answer in time: decide without it instead of trying again later


class PreemptionRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a policy evicts guests of lower priority for one that fits nowhere.

    ``budgets``: whether disruption budgets are broken when nothing else helps, or never. A preemptor evicts at most
    ``max_evictions`` guests within ``window_ns``, and waits ``wait_ns`` for its victims to leave before it looks
    elsewhere. After ``max_repeats`` evictions on one host that brought it nothing, that host is left alone for the
    window. A guest of a shape that was itself evicted within the window may evict others only ``max_cascade`` deep.
    """

    budgets: Literal["best_effort", "strict"] = "best_effort"
    max_evictions: int = 1000
    window_ns: int = 600_000_000_000
    wait_ns: int = 600_000_000_000
    max_repeats: int = 3
    max_cascade: int = 3


class QueueRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often a refused guest is tried again; the defaults for that are kube-scheduler's.

    ``search_units`` bounds how much the gangs of one tenant search in one step; the rest follows in later steps, the
    next of them ``search_rest_ns`` after it at the earliest.
    """

    backoff_initial_ns: int = 1_000_000_000
    backoff_max_ns: int = 10_000_000_000
    jitter_percent: int = 10
    flush_after_ns: int = 300_000_000_000
    prepare_timeout_ns: int = 600_000_000_000
    search_units: int = 128
    search_rest_ns: int = 0


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named profile: filters, scorers with weights, tie keys, the rule for devices, and what hosts may give.

    Room is always checked: ``resources`` and ``devices`` count as named even where they are not.
    """

    name: str
    summary: str = ""
    filters: tuple[PluginUse, ...] = tuple(PluginUse(name) for name in DEFAULT_FILTERS)
    scorers: tuple[ScorerUse, ...] = ()
    ties: tuple[TieKey, ...] = ("name",)
    devices: DeviceRule = "lowest"
    overcommit: Amounts = ()  # resource to ratio, in millionths
    reserve: Amounts = ()
    one_guest_per_host: bool = False
    preemption: PreemptionRules | None = None  # None: nobody is ever evicted for a guest of higher priority
    reclaim: bool = False  # whether tenants take back what they are guaranteed from those who borrowed it
    ask: AskUse | None = None
    mix: tuple[MixEntry, ...] = ()  # the typical mix that fgd measures fragmentation by
