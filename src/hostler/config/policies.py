"""Policies as files of kind ``Config`` and ``Fleet`` write them, to and from the model.

A policy may extend another one: what it does not say itself, it takes from there. The caller says which names
exist already, so this module needs to know nothing of the engine's built-in policies.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hostler.config.documents import Document
from hostler.config.durations import format_duration, parse_duration
from hostler.config.entries import (
    Quantities,
    Quantity,
    check_name,
    read_amounts,
    read_ratios,
    write_amounts,
    write_ratios,
)
from hostler.config.strict import invalid, located
from hostler.config.wording import Path, did_you_mean, quote
from hostler.errors import DuplicateNameError, QuantityError, UnknownNameError
from hostler.model import AskUse, MixEntry, PluginUse, Policy, ScorerUse, format_resource, parse_resource
from hostler.model.policies import DEFAULT_FILTERS, DeviceRule, TieKey

__all__ = ["PolicyEntry", "read_policies", "write_policy"]

Anything = Annotated[object, Meta(description="Any value; the plugin checks it.")]
Args = Annotated[dict[str, Anything], Meta(description="The plugin's own arguments.")]
Weight = Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]
NotNegative = Annotated[int, Meta(ge=0, le=2**31 - 1)]


_ROOM_FILTERS = ("resources", "devices")


class PluginEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plugin with its arguments."""

    name: str
    args: Args = {}


class ScorerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scorer, its weight (negative: less is better) and its arguments."""

    name: str
    weight: Weight = 1
    args: Args = {}


class AskEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody outside who is asked for scores before a decision."""

    name: str
    timeout: str = "5s"
    weight: Weight = 1
    ignorable: bool = False


class MixPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of guest in the typical mix, and its share of all guests."""

    cpu: Quantity
    device_millis: NotNegative = 0
    device_count: NotNegative = 0
    models: list[str] = []
    share: Annotated[float, Meta(ge=0)] = 0.0


class PolicyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named profile; what it leaves out comes from the policy that it extends, else from the defaults."""

    name: str
    extends: Annotated[str, Meta(description="A built-in policy, or one that stands before this one.")] = ""
    summary: str | UnsetType = UNSET
    filters: Annotated[
        list[str | PluginEntry], Meta(description="Filters to add to the usual ones; the same name replaces it.")
    ] = []
    without: Annotated[list[str], Meta(description="Usual filters to leave out; resources and devices stay.")] = []
    scorers: list[str | ScorerEntry] | UnsetType = UNSET
    ties: list[TieKey] | UnsetType = UNSET
    devices: DeviceRule | UnsetType = UNSET
    overcommit: Quantities | UnsetType = UNSET
    reserve: Quantities | UnsetType = UNSET
    ask: AskEntry | UnsetType | None = UNSET
    mix: list[MixPart] | UnsetType = UNSET


def read_policies(
    document: Document, entries: Sequence[PolicyEntry], path: Path, known: Mapping[str, Policy]
) -> tuple[Policy, ...]:
    """Read the policies of one file; ``known`` are those that they may extend and whose names are taken."""
    found: dict[str, Policy] = {}
    for index, entry in enumerate(entries):
        here = (*path, index)
        check_name(document, (*here, "name"), entry.name)
        if entry.name in known or entry.name in found:
            kind = "declared twice" if entry.name in found else "already known"
            raise DuplicateNameError(
                f"{document.where((*here, 'name'))}: policy {quote(entry.name)} is {kind}",
                hint=f"choose another name; to change it, write 'extends: {entry.name}' under a new name",
            )
        names = {**known, **found}
        if entry.extends and entry.extends not in names:
            raise UnknownNameError(
                f"{document.where((*here, 'extends'))}: policy {quote(entry.name)} extends "
                f"{quote(entry.extends)}, which is not known",
                hint=did_you_mean(entry.extends, names),
            )
        base = names[entry.extends] if entry.extends else Policy(name=entry.name)
        found[entry.name] = _read_policy(document, here, entry, base)
    return tuple(found.values())


def _read_policy(document: Document, path: Path, entry: PolicyEntry, base: Policy) -> Policy:
    changes: dict[str, object] = {"name": entry.name}
    for key in ("summary", "devices"):
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
    return ScorerUse(entry.name, entry.weight, _args(document, path, entry))


def _args(document: Document, path: Path, plugin: PluginEntry | ScorerEntry) -> str:
    """Write arguments as JSON with sorted keys: equal arguments are equal text."""
    if not plugin.args:
        return ""
    try:
        return json.dumps(plugin.args, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise invalid(document, (*path, "args"), "has a number that is not finite") from None


def _read_ask(document: Document, path: Path, entry: AskEntry) -> AskUse:
    check_name(document, (*path, "name"), entry.name)
    try:
        timeout = parse_duration(entry.timeout)
    except QuantityError as error:
        raise located(document, (*path, "timeout"), error) from None
    if not timeout:
        raise invalid(document, (*path, "timeout"), "is zero", hint="give it some time to answer")
    return AskUse(entry.name, timeout, entry.weight, entry.ignorable)


def _read_mix(document: Document, path: Path, part: MixPart) -> MixEntry:
    if not math.isfinite(part.share):
        raise invalid(document, (*path, "share"), "is not a finite number", hint="shares add up to 1")
    try:
        cpu_millis = parse_resource("cpu", part.cpu)
    except QuantityError as error:
        raise located(document, (*path, "cpu"), error) from None
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
    entry["scorers"] = [{"name": s.name, "weight": s.weight, **_write_args(s.args)} for s in policy.scorers]
    entry["ties"] = list(policy.ties)
    entry["devices"] = policy.devices
    if policy.overcommit:
        entry["overcommit"] = write_ratios(policy.overcommit)
    if policy.reserve:
        entry["reserve"] = write_amounts(policy.reserve, format_resource)
    if policy.ask is not None:
        entry["ask"] = {
            "name": policy.ask.name,
            "timeout": format_duration(policy.ask.timeout_ns),
            "weight": policy.ask.weight,
            "ignorable": policy.ask.ignorable,
        }
    if policy.mix:
        entry["mix"] = [_write_mix(part) for part in policy.mix]
    return entry


def _write_args(text: str) -> dict[str, object]:
    return {"args": json.loads(text)} if text else {}


def _write_mix(part: MixEntry) -> dict[str, object]:
    entry: dict[str, object] = {"cpu": format_resource("cpu", part.cpu_millis), "share": part.share}
    if part.device_count or part.device_millis:
        entry.update(device_millis=part.device_millis, device_count=part.device_count)
    if part.models:
        entry["models"] = list(part.models)
    return entry
