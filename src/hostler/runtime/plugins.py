"""Plugins of third parties: found by entry point, imported only when a policy names them.

A distribution offers a plugin under the group ``hostler.plugins``: the name is the one that a policy uses, the value is
a factory. Errors in a third party's module name its distribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

from hostler.engine import ENTRY_POINT_GROUP, Registry
from hostler.engine.framework import Factory
from hostler.engine.policy.registry import suggest
from hostler.errors import DuplicateNameError, PluginError, UnknownNameError
from hostler.model import Policy

__all__ = ["distribution_of", "offered_plugins", "registry_for"]


def offered_plugins() -> list[EntryPoint]:
    """Return what installed distributions offer, by name; nothing is imported."""
    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name, distribution_of(point)))


def registry_for(policies: Iterable[Policy], own: Mapping[str, Factory] | None = None) -> Registry:
    """Return a registry with the third parties' plugins that the policies name; unknown names are rejected.

    ``own`` are those of files that the command names by ``--plugin``; they win over installed ones.
    """
    from_files = own or {}
    filters, scorers = Registry.names()
    missing: dict[str, tuple[Policy, list[str]]] = {}  # by name: who names it, and the built-in ones of its kind
    for policy in policies:
        for uses, known in ((policy.filters, filters), (policy.scorers, scorers)):
            for use in uses:
                if use.name not in known and use.name not in from_files:
                    missing.setdefault(use.name, (policy, [*known, *from_files]))
    if not missing:
        return Registry(from_files)
    built_in = {*filters, *scorers}
    offered = [point for point in offered_plugins() if point.name not in built_in]
    return Registry(
        {
            **from_files,
            **{
                name: _load(name, policy, offered, known, is_of_other_kind=name in built_in)
                for name, (policy, known) in missing.items()
            },
        }
    )


def distribution_of(point: EntryPoint) -> str:
    """Name the distribution that offers a plugin, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown distribution"


def _load(
    name: str, policy: Policy, offered: list[EntryPoint], known: Iterable[str], *, is_of_other_kind: bool
) -> Factory:
    found = [point for point in offered if point.name == name]
    if not found:
        problem = "is of the other kind" if is_of_other_kind else "is neither built in nor installed"
        raise UnknownNameError(
            f"policy {policy.name!r} names plugin {name!r}, which {problem}",
            hint=suggest(name, [*known, *(point.name for point in offered)]),
        )
    if len(found) > 1:
        owners = " and ".join(distribution_of(point) for point in found)
        raise DuplicateNameError(f"plugin {name!r} is offered by {owners}", hint="uninstall one of them")
    try:
        factory = found[0].load()
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"plugin {name!r} of {distribution_of(found[0])} cannot be imported: {type(error).__name__}: {error}",
            hint=f"update or uninstall that distribution, or take {name!r} out of policy {policy.name!r}",
        ) from error
    if not callable(factory):
        raise PluginError(
            f"plugin {name!r} of {distribution_of(found[0])} is not a factory",
            hint=f"the entry point {found[0].value!r} must be a class or a function",
        )
    loaded: Factory = factory
    return loaded
