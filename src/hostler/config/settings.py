"""The configuration file (kind ``Config``) and the environment, to settings that remember their origins.

A flag beats the environment, which beats the file, which beats the default. ``hostler config show``
prints every value with its origin; all other commands take the values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hostler.config.documents import Document, read_documents
from hostler.config.entries import check_kind, means
from hostler.config.fleet.file import FleetFile
from hostler.config.folders import config_folder
from hostler.config.key_paths import Path, did_you_mean, quote
from hostler.config.policies import read_policies
from hostler.config.policy_file import PolicyEntry
from hostler.config.strict import convert, invalid, with_location
from hostler.config.times import format_duration, parse_duration
from hostler.errors import InputError, QuantityError, UnknownNameError
from hostler.model import Policy, QueueRules
from hostler.model.policies import DEFAULT_POLICY

__all__ = [
    "CONFIG_VARIABLE", "DEFAULT_POLICY", "POLICY_VARIABLE", "ConfigFile", "QueueEntry", "Setting", "Settings",
    "choose_policy", "json_schema", "load_settings", "prefer_fleet_policy", "read_configuration", "read_queue",
    "read_settings",
]  # fmt: skip

CONFIG_VARIABLE = "HOSTLER_CONFIG"
POLICY_VARIABLE = "HOSTLER_POLICY"

_DURATIONS = ("backoff_initial", "backoff_max", "flush_after", "prepare_timeout")


class QueueEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often a rejected guest is tried again."""

    backoff_initial: Annotated[
        str | UnsetType,
        means('The pause after the first refusal, such as "500ms"; 1s if unset. Each next one doubles.'),
    ] = UNSET
    backoff_max: Annotated[str | UnsetType, means("The longest pause; 10s if unset.")] = UNSET
    jitter_percent: Annotated[
        Annotated[int, Meta(ge=0, le=100)] | UnsetType,
        means("By how much a pause is lengthened at random, at most; 10 if unset."),
    ] = UNSET
    flush_after: Annotated[
        str | UnsetType, means("When a waiting guest is tried again although nothing changed; 5m if unset.")
    ] = UNSET
    prepare_timeout: Annotated[
        str | UnsetType, means("How long it may take to make a host ready for a guest; 10m if unset.")
    ] = UNSET


class ConfigFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Policies of one's own, the default policy, and the rules of the queue."""

    apiVersion: Annotated[Literal["hostler/v1"], means("The version of the format.")]
    kind: Annotated[Literal["Config"], means("What the file holds.")]
    policies: Annotated[list[PolicyEntry], means("Policies of your own, beside the built-in ones.")] = []
    default_policy: Annotated[
        str, means("The policy of guests that name none; an input file, a variable or a flag beats it.")
    ] = ""
    queue: Annotated[QueueEntry, means("How often rejected guests are tried again.")] = QueueEntry()


class Setting(msgspec.Struct, frozen=True):
    """One value as text, and where it came from: a flag, a variable, ``file:line`` or ``default``."""

    name: str
    value: str
    origin: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that configuration decides; ``shown`` lists every value with its origin."""

    policies: tuple[Policy, ...] = ()
    default_policy: str = DEFAULT_POLICY
    queue: QueueRules = QueueRules()
    config_path: str = ""
    shown: tuple[Setting, ...] = ()


def load_settings(
    builtin: Mapping[str, Policy],
    *,
    config: str = "",
    policy: str = "",
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read the settings; ``config`` and ``policy`` are the flags' values, empty where no flag was given."""
    return choose_policy(read_configuration(builtin, config=config, environ=environ), builtin, policy, environ)


def read_configuration(
    builtin: Mapping[str, Policy], *, config: str = "", environ: Mapping[str, str] | None = None
) -> Settings:
    """Read the configuration file, if there is one; neither a flag nor a variable has chosen a policy yet."""
    variables = os.environ if environ is None else environ
    path, origin = _config_path(config, variables)
    if path:
        documents = read_documents([path])
        if len(documents) > 1:
            raise InputError(f"{path}: it has {len(documents)} documents", hint="a configuration has one")
        settings = read_settings(documents[0], builtin)
    else:
        settings = Settings(shown=_show_queue(QueueRules(), {}))
    shown = (Setting("config", path or "none", origin), *settings.shown)
    return msgspec.structs.replace(settings, config_path=path, shown=shown)


def choose_policy(
    settings: Settings, known: Mapping[str, Policy], policy: str, environ: Mapping[str, str] | None = None
) -> Settings:
    """Let the flag, else the variable, else the file name the default policy, which must be known."""
    variables = os.environ if environ is None else environ
    chosen = _show(settings, "default_policy") or Setting("default_policy", DEFAULT_POLICY, "default")
    if variables.get(POLICY_VARIABLE):
        chosen = Setting("default_policy", variables[POLICY_VARIABLE], POLICY_VARIABLE)
    if policy:
        chosen = Setting("default_policy", policy, "--policy")
    first, *rest = (one for one in settings.shown if one.name != "default_policy")
    settings = msgspec.structs.replace(settings, default_policy=chosen.value, shown=(first, chosen, *rest))
    _check_policy(settings, known)
    return settings


def read_settings(document: Document, builtin: Mapping[str, Policy]) -> Settings:
    """Read a document of kind ``Config``; its policies may extend the built-in ones."""
    check_kind(document, "Config")
    file = convert(document, document.data, ConfigFile)
    queue = read_queue(document, file.queue)
    shown: list[Setting] = []
    if file.default_policy:
        origin = document.where(("default_policy",))
        shown.append(Setting("default_policy", file.default_policy, origin))
    policies = read_policies(document, file.policies, ("policies",), builtin)
    places = document.where_items(("policies",), len(policies))
    for policy, origin in zip(policies, places, strict=True):
        shown.append(Setting(f"policies.{policy.name}", policy.summary, origin))
    given = {
        key: document.where(("queue", key))
        for key in QueueEntry.__struct_fields__
        if getattr(file.queue, key) is not UNSET
    }
    settings = Settings(
        policies=policies,
        default_policy=file.default_policy or DEFAULT_POLICY,
        queue=queue,
        config_path=document.source,
        shown=(*shown, *_show_queue(queue, given)),
    )
    _check_policy(settings, builtin)
    return settings


def prefer_fleet_policy(settings: Settings, policy: str, origin: str) -> Settings:
    """Let the policy that an input file names beat the configuration's, but not a flag or the environment."""
    chosen = _show(settings, "default_policy")
    if not policy or (chosen is not None and chosen.origin in ("--policy", POLICY_VARIABLE)):
        return settings
    shown = tuple(
        Setting("default_policy", policy, origin) if one.name == "default_policy" else one for one in settings.shown
    )
    return msgspec.structs.replace(settings, default_policy=policy, shown=shown)


def json_schema(*more: type) -> dict[str, object]:
    """Return one JSON schema for files of kind ``Fleet``, ``Config`` and more, as editors use it."""
    kinds = [FleetFile, ConfigFile, *more]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Files of Hostler",
        "oneOf": list(schemas),
        "$defs": components,
    }


def _config_path(flag: str, variables: Mapping[str, str]) -> tuple[str, str]:
    """Return the path of the configuration file, or nothing, and who named it."""
    if flag:
        return flag, "--config"
    if variables.get(CONFIG_VARIABLE):
        return variables[CONFIG_VARIABLE], CONFIG_VARIABLE
    usual = config_folder() / "config.yaml"
    return (str(usual), "default") if usual.is_file() else ("", "default")


def read_queue(document: Document, entry: QueueEntry) -> QueueRules:
    """Read the rules of the queue, which stand under ``queue``."""
    changes: dict[str, int] = {}
    for key in _DURATIONS:
        text = getattr(entry, key)
        if text is UNSET:
            continue
        path: Path = ("queue", key)
        try:
            changes[f"{key}_ns"] = parse_duration(text)
        except QuantityError as error:
            raise with_location(document, path, error) from None
        if not changes[f"{key}_ns"]:
            raise invalid(document, path, "is zero", hint="give it some time")
    if entry.jitter_percent is not UNSET:
        changes["jitter_percent"] = entry.jitter_percent
    rules = msgspec.structs.replace(QueueRules(), **changes)
    if rules.backoff_initial_ns > rules.backoff_max_ns:
        raise invalid(
            document,
            ("queue",),
            f"has backoff_initial {format_duration(rules.backoff_initial_ns)} above backoff_max "
            f"{format_duration(rules.backoff_max_ns)}",
            hint="raise backoff_max",
        )
    return rules


def _show_queue(rules: QueueRules, origins: Mapping[str, str]) -> tuple[Setting, ...]:
    shown: list[Setting] = []
    for key in QueueEntry.__struct_fields__:
        value = str(rules.jitter_percent) if key == "jitter_percent" else format_duration(getattr(rules, f"{key}_ns"))
        shown.append(Setting(f"queue.{key}", value, origins.get(key, "default")))
    return tuple(shown)


def _show(settings: Settings, name: str) -> Setting | None:
    return next((one for one in settings.shown if one.name == name), None)


def _check_policy(settings: Settings, builtin: Mapping[str, Policy]) -> None:
    """Reject a policy that is not declared. The default may be missing if there are no built-in policies."""
    shown = _show(settings, "default_policy")
    names = {*builtin, *(policy.name for policy in settings.policies)}
    if shown is None or shown.origin == "default" or shown.value in names:
        return
    raise UnknownNameError(
        f"{shown.origin}: policy {quote(shown.value)} is not known", hint=did_you_mean(shown.value, names)
    )
