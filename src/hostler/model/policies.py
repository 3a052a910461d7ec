"""Policies as plain data: filters, weighted scorers, tie keys, and preemption."""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.model.resources import Amounts

__all__ = [
    "DEFAULT_POLICY", "AskUse", "BudgetRule", "DeviceRule", "MixEntry", "Normalizer", "PluginUse", "Policy",
    "PreemptionRules", "QueueRules", "ScorerUse", "SoftRule", "TieKey",
]  # fmt: skip

BudgetRule = Literal["best_effort", "strict"]  # whether an eviction may break a disruption budget
TieKey = Literal["fewer_guests", "rank", "name", "random", "after_last"]
DeviceRule = Literal["lowest", "best", "worst", "random", "fgd"]
SoftRule = Literal["scored", "first"]
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
    """A plugin by name, with its arguments as JSON text (plain data, so that policies can be hashed and sent)."""

    name: str
    args: str = ""


class ScorerUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scorer by name, with its weight (negative: less is better) and arguments as JSON text.

    ``shown_as`` is its name in explanations, if that differs.
    """

    name: str
    weight: int = 1
    args: str = ""
    shown_as: str = ""


class AskUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """An outside answer that a decision waits for: the scorer to ask, the time limit, and the weight.

    ``always``: also for members of gangs and for guests that are nominated for a host. Without it these are decided
    without asking, as old journals have it.
    """

    name: str
    timeout_ns: int = 5_000_000_000
    weight: int = 1
    ignorable: bool = False  # no answer in time: decide without it instead of trying again later
    always: bool = False


class PreemptionRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a policy evicts guests of lower priority for a guest that fits nowhere.

    ``budgets``: whether disruption budgets are broken if nothing else helps, or never. A preemptor evicts at most
    ``max_evictions`` guests within ``window_ns``, and waits ``wait_ns`` for its victims to leave before it tries
    another host. After ``max_repeats`` evictions on one host that brought it nothing, it leaves that host alone for the
    window. A guest whose shape was evicted within the window may evict others only to a depth of ``max_cascade``.

    ``movable_first``: of guests of equal priority, those that can run on another host now are evicted before those that
    cannot. ``moves``: victims that can move while they run are moved instead of ended, if there is room for them.
    """

    budgets: BudgetRule = "best_effort"
    max_evictions: int = 1000
    window_ns: int = 600_000_000_000
    wait_ns: int = 600_000_000_000
    max_repeats: int = 3
    max_cascade: int = 3
    movable_first: bool = False
    moves: bool = False


class QueueRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often a rejected guest is tried again; the default times are kube-scheduler's.

    ``search_units`` bounds how much the gangs of one tenant search in one step. The rest follows in later steps, the
    next of them at least ``search_rest_ns`` later.
    """

    backoff_initial_ns: int = 1_000_000_000
    backoff_max_ns: int = 10_000_000_000
    jitter_percent: int = 10
    flush_after_ns: int = 300_000_000_000
    prepare_timeout_ns: int = 600_000_000_000
    search_units: int = 128
    search_rest_ns: int = 0


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named set of filters, weighted scorers, tie keys, the rule for devices, and what hosts may give.

    Room is always checked: ``resources`` and ``devices`` are filters even if a policy does not name them.

    ``soft_constraints``: how a guest's preferences count (preferred hosts, preferred guests, soft spread). ``scored``:
    by the scorers that the policy lists, so by none of them if it lists none. ``first``: hosts are compared by them
    before the policy's own score. A guest without any is placed alike under both.
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
    preemption: PreemptionRules | None = None  # None: no guest is evicted for one of higher priority
    reclaim: bool = False  # whether tenants reclaim their guarantee from borrowers
    ask: AskUse | None = None
    mix: tuple[MixEntry, ...] = ()  # the typical mix that fgd measures fragmentation by
    soft_constraints: SoftRule = "scored"
