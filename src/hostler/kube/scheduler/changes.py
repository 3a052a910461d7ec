"""Describe the difference between two settings, for a configuration that is read again. Used by ``process``."""

from __future__ import annotations

import msgspec

from hostler.engine import BUILT_IN
from hostler.kube.settings import SchedulerSettings
from hostler.model import Policy

__all__ = ["Changes", "changes_between"]

_AT_ONCE = ("profiles", "policies", "notes")
_LONGEST = 60
_SECONDS = {"_s": 1.0, "_ns": 1e-9}  # suffixes of time settings here; the file writes times without them, as "15s"
_KEYS = {"is_on": "enabled"}  # keys that have another name in the file


class Changes(msgspec.Struct, frozen=True):
    """Changes that take effect at once, and changes that need a restart."""

    at_once: list[str]
    later: list[str]


def changes_between(old: SchedulerSettings, new: SchedulerSettings) -> Changes:
    """Return the differences."""
    return Changes(_at_once(old, new), _later(old, new))


def _at_once(old: SchedulerSettings, new: SchedulerSettings) -> list[str]:
    """Describe changes of profiles and policies, which take effect while the scheduler runs."""
    before = {profile.scheduler_name: profile.policy for profile in old.profiles}
    after = {profile.scheduler_name: profile.policy for profile in new.profiles}
    said = [f"pods of {name} are now placed by {policy}" for name, policy in after.items() if name not in before]
    said += [f"pods of {name} are no longer placed" for name in before if name not in after]
    said += [
        f"pods of {name} are now placed by {policy}, not by {before[name]}"
        for name, policy in after.items()
        if before.get(name, policy) != policy
    ]
    known, wanted = ({policy.name: policy for policy in one.policies} for one in (old, new))
    said += [f"policy {name} is new" for name in wanted if name not in known]
    said += [f"policy {name} is gone" for name in known if name not in wanted]
    for name, policy in wanted.items():
        if name in known and known[name] != policy:
            said.append(f"policy {name} changed: {', '.join(_parts(known[name], policy))}")
    return said


def _later(old: SchedulerSettings, new: SchedulerSettings) -> list[str]:
    """Describe other changes; contents of lists, which may hold keys, are not shown."""
    return [
        line
        for field in new.__struct_fields__
        if field not in _AT_ONCE
        for line in _differences(field, getattr(old, field), getattr(new, field))
    ]


def _differences(name: str, old: object, new: object) -> list[str]:
    """Describe changes with the keys and values of the file."""
    if old == new:
        return []
    if isinstance(old, msgspec.Struct) and isinstance(new, msgspec.Struct):
        return [
            line
            for field in new.__struct_fields__
            for line in _differences(f"{name}.{_KEYS.get(field, field)}", getattr(old, field), getattr(new, field))
        ]
    for ending, unit in _SECONDS.items():
        if name.endswith(ending) and isinstance(old, int | float) and isinstance(new, int | float):
            return [f"{name.removesuffix(ending)}: {old * unit:g}s became {new * unit:g}s"]
    if isinstance(old, bool | int | float | str) and isinstance(new, bool | int | float | str):
        return [f"{name}: {_short(old)} became {_short(new)}"]
    return [name]


def _short(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value) or "nothing"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _parts(old: Policy, new: Policy) -> list[str]:
    """Name the changed parts of a policy; for built-in policies, the file sets them once for all."""
    names = {"one_guest_per_host": "one_pod_per_node"} if new.name in BUILT_IN else {}
    return [names.get(field, field) for field in new.__struct_fields__ if getattr(old, field) != getattr(new, field)]
