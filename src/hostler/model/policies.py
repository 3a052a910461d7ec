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
    "QueueRules",
    "ScorerUse",
    "TieKey",
]

TieKey = Literal["fewer_guests", "rank", "name", "random", "after_last"]
DeviceRule = Literal["lowest", "best", "worst", "random", "fgd"]
Normalizer = Literal["none", "max", "reverse_max", "min_max"]

DEFAULT_POLICY = "spread"
DEFAULT_FILTERS = ("cordon", "host_name", "taints", "host_affinity", "resources", "devices")


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
    """A scorer by name, its weight (negative: less is better) and arguments as a JSON text."""

    name: str
    weight: int = 1
    args: str = ""


class AskUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer from outside that a decision waits for: who is asked, for how long, and what it weighs."""

    name: str
    timeout_ns: int = 5_000_000_000
    weight: int = 1
    ignorable: bool = False  # no answer in time: decide without it instead of trying again later


class QueueRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often a refused guest is tried again; defaults are kube-scheduler's."""

    backoff_initial_ns: int = 1_000_000_000
    backoff_max_ns: int = 10_000_000_000
    jitter_percent: int = 10
    flush_after_ns: int = 300_000_000_000
    prepare_timeout_ns: int = 600_000_000_000


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
    ask: AskUse | None = None
    mix: tuple[MixEntry, ...] = ()  # the typical mix that fgd measures fragmentation by
