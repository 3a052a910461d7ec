"""Roles and permissions: four roles, a table of permissions, and scopes that narrow a key further.

A role applies to one project or, with an empty project, to all projects and the fleet. Permissions whose place is
``fleet`` (hosts, quotas, …) affect all projects, so a role in one project never grants them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from hostler.errors import InputError, InternalError

__all__ = [
    "ALL_SCOPES", "PERMISSIONS", "ROLES", "Permission", "Role", "check_role", "check_scopes", "covers", "rank",
]  # fmt: skip

Role = Literal["viewer", "operator", "editor", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "operator", "editor", "admin")
ALL_SCOPES = ("*",)

_PATTERN = re.compile(r"\*|([a-z]+|\*)\.([a-z]+|\*)")


class Permission(msgspec.Struct, frozen=True):
    """The weakest role that has it, where the role must apply, and what it is for."""

    role: Role
    place: Literal["project", "fleet"]
    meaning: str


PERMISSIONS: dict[str, Permission] = {
    "vm.read": Permission("viewer", "project", "list and read VMs and their decisions"),
    "vm.power": Permission("operator", "project", "start, stop, restart, pause and resume VMs"),
    "vm.create": Permission("editor", "project", "create VMs"),
    "vm.change": Permission("editor", "project", "resize, migrate and edit VMs"),
    "vm.delete": Permission("editor", "project", "delete VMs"),
    "vm.force": Permission("admin", "fleet", "start a lost VM although hosts are missing that may still have it"),
    "gang.read": Permission("viewer", "project", "list and read gangs"),
    "gang.change": Permission("editor", "project", "create and edit gangs"),
    "gang.delete": Permission("editor", "project", "delete gangs"),
    "plan.run": Permission("viewer", "project", "ask what would happen, without changing anything"),
    "operation.read": Permission("viewer", "project", "list and read operations"),
    "event.read": Permission("viewer", "project", "list and follow events"),
    "project.read": Permission("viewer", "project", "read projects"),
    "project.change": Permission("admin", "project", "edit a project"),
    "project.create": Permission("admin", "fleet", "create projects"),
    "project.delete": Permission("admin", "fleet", "delete projects"),
    "priority.raise": Permission("admin", "fleet", "give any priority, and set the limits of projects"),
    "quota.read": Permission("viewer", "project", "read quotas and what is used of them"),
    "quota.change": Permission("admin", "fleet", "create and edit quotas"),
    "quota.delete": Permission("admin", "fleet", "delete quotas"),
    "reservation.read": Permission("viewer", "project", "list and read reservations"),
    "reservation.change": Permission("editor", "fleet", "create and edit reservations, which take room from others"),
    "reservation.delete": Permission("editor", "fleet", "delete reservations"),
    "key.read": Permission("admin", "project", "list API keys, never their secrets"),
    "key.create": Permission("admin", "project", "create API keys no stronger than one's own, and rotate them"),
    "key.confirm": Permission("admin", "fleet", "accept API keys again after a restore"),
    "key.revoke": Permission("admin", "project", "revoke API keys"),
    "host.read": Permission("viewer", "fleet", "list and read hosts"),
    "host.operate": Permission("operator", "fleet", "cordon and drain hosts"),
    "host.admin": Permission("admin", "fleet", "delete hosts, force them offline, confirm fencing, revoke credentials"),
    "token.read": Permission("admin", "fleet", "list join tokens, never their secrets"),
    "token.create": Permission("admin", "fleet", "create join tokens"),
    "token.revoke": Permission("admin", "fleet", "revoke join tokens"),
    "metrics.read": Permission("viewer", "fleet", "read metrics"),
}


def rank(role: str) -> int:
    """Return how strong a role is; -1 for an unknown role, which may do nothing."""
    return ROLES.index(role) if role in ROLES else -1


def covers(scopes: Iterable[str], wanted: str) -> bool:
    """Return whether one of the scopes includes all of ``wanted``, which is a permission or a pattern."""
    verb = _parts(wanted)
    return any(all(has in ("*", needs) for has, needs in zip(_parts(one), verb, strict=True)) for one in scopes)


def check_role(role: str) -> Role:
    """Return a role by its name; InputError."""
    for known in ROLES:
        if role == known:
            return known
    raise InputError(f"{role!r} is not a role", hint=f"choose one of {', '.join(ROLES)}")


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return scopes that each hold at least one permission, sorted; InputError."""
    found = tuple(sorted(set(scopes)))
    if not found:
        raise InputError("a key without scopes could do nothing", hint="name some, such as vm.*, or leave them out")
    for one in found:
        if _PATTERN.fullmatch(one) is None or not any(covers((one,), name) for name in PERMISSIONS):
            hint = f"write a permission or a pattern such as vm.* or *.read; permissions are {', '.join(PERMISSIONS)}"
            raise InputError(f"no permission matches the scope {one[:60]!r}", hint=hint)
    return found


def check_permission(permission: str) -> Permission:
    """Return a permission of the table. An unknown one is a bug in the caller, and never granted."""
    found = PERMISSIONS.get(permission)
    if found is None:
        raise InternalError(f"undeclared permission {permission}", hint="please report it")
    return found


def _parts(pattern: str) -> tuple[str, str]:
    """Return resource and verb of a pattern."""
    resource, _, verb = ("*.*" if pattern == "*" else pattern).partition(".")
    return resource, verb
