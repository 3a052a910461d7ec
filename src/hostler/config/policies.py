"""Policies as files of kind ``Config`` and ``Fleet`` write them, to and from the model.

A policy may extend another one: what it does not say itself, it takes from there. The caller says which names
exist already, so this module needs to know nothing of the engine's built-in policies.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import UNSET

from hostler.config.documents import Document
from hostler.config.entries import (
    check_name,
    read_amounts,
    read_duration,
    read_ratios,
    write_amounts,
    write_ratios,
)
from hostler.config.key_paths import Path, did_you_mean, quote
from hostler.config.policy_file import AskEntry, MixPart, PluginEntry, PolicyEntry, PreemptionEntry, ScorerEntry
from hostler.config.strict import invalid, with_location
from hostler.config.times import format_duration
from hostler.errors import DuplicateNameError, QuantityError, UnknownNameError
from hostler.model import (
    AskUse,
    MixEntry,
    PluginUse,
    Policy,
    PreemptionRules,
    ScorerUse,
    format_resource,
    parse_resource,
)
from hostler.model.policies import DEFAULT_FILTERS

__all__ = ["read_policies", "read_policy", "read_preemption", "write_policy"]

_ROOM_FILTERS = ("resources", "devices")


def read_policies(
    document: Document, entries: Sequence[PolicyEntry], path: Path, known: Mapping[str, Policy]
) -> tuple[Policy, ...]:
    """Read the policies of one file; ``known`` are those that they may extend and whose names are taken."""
    found: dict[str, Policy] = {}
    for index, entry in enumerate(entries):
        found[entry.name] = read_policy(document, (*path, index), entry, known, found)
    return tuple(found.values())


def read_policy(
    document: Document,
    path: Path,
    entry: PolicyEntry,
    known: Mapping[str, Policy],
    found: Mapping[str, Policy] = MappingProxyType({}),
) -> Policy:
    """Read one policy; ``found`` are those that stand before it in the same file."""
    check_name(document, (*path, "name"), entry.name)
    if entry.name in known or entry.name in found:
        kind = "declared twice" if entry.name in found else "already known"
        raise DuplicateNameError(
            f"{document.where((*path, 'name'))}: policy {quote(entry.name)} is {kind}",
            hint=f"choose another name; to change it, write 'extends: {entry.name}' under a new name",
        )
    base = found.get(entry.extends) or known.get(entry.extends) if entry.extends else Policy(name=entry.name)
    if base is None:
        raise UnknownNameError(
            f"{document.where((*path, 'extends'))}: policy {quote(entry.name)} extends "
            f"{quote(entry.extends)}, which is not known",
            hint=did_you_mean(entry.extends, {**known, **found}),
        )
    return _read_policy(document, path, entry, base)


def _read_policy(document: Document, path: Path, entry: PolicyEntry, base: Policy) -> Policy:
    changes: dict[str, object] = {"name": entry.name}
    for key in ("summary", "devices", "one_guest_per_host", "reclaim", "soft_constraints"):
        if (value := getattr(entry, key)) is not UNSET:
            changes[key] = value
    if entry.ties is not UNSET:
        if not entry.ties:
            raise invalid(document, (*path, "ties"), "is empty", hint="end with 'name'")
        changes["ties"] = tuple(entry.ties)
    changes["filters"] = _read_filters(document, path, entry, base)
    if entry.scorers is not UNSET:
        changes["scorers"] = tuple(
            _read_scorer(document, (*path, "scorers", i), one) for i, one in enumerate(entry.scorers)
        )
    if entry.overcommit is not UNSET:
        changes["overcommit"] = read_ratios(document, (*path, "overcommit"), entry.overcommit)
    if entry.reserve is not UNSET:
        changes["reserve"] = read_amounts(document, (*path, "reserve"), entry.reserve)
    if entry.preemption is not UNSET:
        changes["preemption"] = read_preemption(document, (*path, "preemption"), entry.preemption)
    if entry.ask is not UNSET:
        changes["ask"] = _read_ask(document, (*path, "ask"), entry.ask) if entry.ask is not None else None
    if entry.mix is not UNSET:
        changes["mix"] = tuple(_read_mix(document, (*path, "mix", i), part) for i, part in enumerate(entry.mix))
    return msgspec.structs.replace(base, **changes)


def _read_filters(document: Document, path: Path, entry: PolicyEntry, base: Policy) -> tuple[PluginUse, ...]:
    """Return the base's filters less ``without``, then those of the entry; a name that it lists is taken from it."""
    usual = {use.name for use in base.filters}
    for index, name in enumerate(entry.without):
        where = (*path, "without", index)
        if name in _ROOM_FILTERS:
            raise invalid(document, where, f"names {quote(name)}", hint="guests are always checked for room")
        if name not in usual:
            raise invalid(document, where, f"names {quote(name)}, which is not there", hint=did_you_mean(name, usual))
    listed = [_read_filter(document, (*path, "filters", i), one) for i, one in enumerate(entry.filters)]
    replaced = {use.name for use in listed} | set(entry.without)
    return (*(use for use in base.filters if use.name not in replaced), *listed)


def _read_filter(document: Document, path: Path, entry: str | PluginEntry) -> PluginUse:
    if isinstance(entry, str):
        return PluginUse(entry)
    return PluginUse(entry.name, _args(document, path, entry))


def _read_scorer(document: Document, path: Path, entry: str | ScorerEntry) -> ScorerUse:
    if isinstance(entry, str):
        return ScorerUse(entry)
    return ScorerUse(entry.name, entry.weight, _args(document, path, entry), entry.shown_as)


def _args(document: Document, path: Path, plugin: PluginEntry | ScorerEntry) -> str:
    """Write arguments as JSON with sorted keys: equal arguments are equal text."""
    if not plugin.args:
        return ""
    try:
        return json.dumps(plugin.args, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise invalid(document, (*path, "args"), "has a number that is not finite") from None


def read_preemption(document: Document, path: Path, entry: PreemptionEntry | None) -> PreemptionRules | None:
    """Read how guests are evicted; nothing means never."""
    if entry is None:
        return None
    window, wait = (read_duration(document, (*path, key), getattr(entry, key)) for key in ("window", "wait"))
    for key, time_ns in (("window", window), ("wait", wait)):
        if not time_ns:
            raise invalid(document, (*path, key), "is zero", hint="give it some time")
    return PreemptionRules(
        budgets=entry.budgets,
        max_evictions=entry.max_evictions,
        window_ns=window,
        wait_ns=wait,
        max_repeats=entry.max_repeats,
        max_cascade=entry.max_cascade,
        movable_first=entry.movable_first,
        moves=entry.moves,
    )


def _read_ask(document: Document, path: Path, entry: AskEntry) -> AskUse:
    check_name(document, (*path, "name"), entry.name)
    timeout = read_duration(document, (*path, "timeout"), entry.timeout)
    if not timeout:
        raise invalid(document, (*path, "timeout"), "is zero", hint="give it some time to answer")
    return AskUse(entry.name, timeout, entry.weight, entry.ignorable, entry.always)


def _read_mix(document: Document, path: Path, part: MixPart) -> MixEntry:
    if not math.isfinite(part.share):
        raise invalid(document, (*path, "share"), "is not a finite number", hint="shares add up to 1")
    try:
        cpu_millis = parse_resource("cpu", part.cpu)
    except QuantityError as error:
        raise with_location(document, (*path, "cpu"), error) from None
    return MixEntry(cpu_millis, part.device_millis, part.device_count, tuple(part.models), part.share)


def write_policy(policy: Policy) -> dict[str, object]:
    """Write a policy so that reading it gives an equal one; nothing is left to defaults that may change."""
    entry: dict[str, object] = {"name": policy.name}
    if policy.summary:
        entry["summary"] = policy.summary
    entry["filters"] = [{"name": f.name, **_write_args(f.args)} if f.args else f.name for f in policy.filters]
    named = {*_ROOM_FILTERS, *(f.name for f in policy.filters)}
    missing = [name for name in DEFAULT_FILTERS if name not in named]
    if missing:
        entry["without"] = missing
    entry["scorers"] = [_write_scorer(scorer) for scorer in policy.scorers]
    entry["ties"] = list(policy.ties)
    entry["devices"] = policy.devices
    if policy.overcommit:
        entry["overcommit"] = write_ratios(policy.overcommit)
    if policy.reserve:
        entry["reserve"] = write_amounts(policy.reserve, format_resource)
    if policy.one_guest_per_host:
        entry["one_guest_per_host"] = True
    if policy.reclaim:
        entry["reclaim"] = True
    if policy.soft_constraints != "scored":
        entry["soft_constraints"] = policy.soft_constraints
    if policy.preemption is not None:
        entry["preemption"] = _write_preemption(policy.preemption)
    if policy.ask is not None:
        entry["ask"] = {
            "name": policy.ask.name,
            "timeout": format_duration(policy.ask.timeout_ns),
            "weight": policy.ask.weight,
            "ignorable": policy.ask.ignorable,
            **({"always": True} if policy.ask.always else {}),
        }
    if policy.mix:
        entry["mix"] = [_write_mix(part) for part in policy.mix]
    return entry


def _write_args(text: str) -> dict[str, object]:
    return {"args": json.loads(text)} if text else {}


def _write_scorer(scorer: ScorerUse) -> dict[str, object]:
    shown_as = {"shown_as": scorer.shown_as} if scorer.shown_as else {}
    return {"name": scorer.name, "weight": scorer.weight, **_write_args(scorer.args), **shown_as}


def _write_preemption(rules: PreemptionRules) -> dict[str, object]:
    options = {name: True for name in ("movable_first", "moves") if getattr(rules, name)}
    return {
        "budgets": rules.budgets,
        "max_evictions": rules.max_evictions,
        "window": format_duration(rules.window_ns),
        "wait": format_duration(rules.wait_ns),
        "max_repeats": rules.max_repeats,
        "max_cascade": rules.max_cascade,
        **options,
    }


def _write_mix(part: MixEntry) -> dict[str, object]:
    entry: dict[str, object] = {"cpu": format_resource("cpu", part.cpu_millis), "share": part.share}
    if part.device_count or part.device_millis:
        entry.update(device_millis=part.device_millis, device_count=part.device_count)
    if part.models:
        entry["models"] = list(part.models)
    return entry
