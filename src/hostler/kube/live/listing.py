"""Everything that a scheduler watches, listed once.

For commands that look and go: no watch, no copy that stays current. A right that is missing is named with its verb and
resource, because that is what a person has to ask the administrator for. Used by ``snapshot``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from hostler.errors import UnavailableError
from hostler.kube.api.client import Broken, Client
from hostler.kube.api.failures import ApiError
from hostler.kube.facts.kinds import KINDS, Kind

__all__ = ["Listings", "list_all", "missing_right"]

# By group and plural: the objects as they were read, or that they could not be.
Listings: TypeAlias = Mapping[tuple[str, str], Sequence[Any | Broken]]

_AT_ONCE = 4


async def list_all(client: Client) -> Listings:
    """List all kinds, a few at a time; a kind that the server does not have is empty where it may be."""
    room = asyncio.Semaphore(_AT_ONCE)
    found: dict[tuple[str, str], Sequence[Any | Broken]] = {}

    async def one(kind: Kind) -> None:
        async with room:
            found[kind.resource.group, kind.resource.plural] = await _list(client, kind)

    try:
        async with asyncio.TaskGroup() as tasks:
            for kind in KINDS:
                tasks.create_task(one(kind))
    except BaseExceptionGroup as group:
        raise _first(group) from None
    return found


def missing_right(verb: str, resource: str, error: ApiError) -> UnavailableError:
    """Say which right is missing, and what the server said about it."""
    if error.status == 401:
        return UnavailableError(
            f"the cluster does not know us: {error.text}", hint="renew the credentials in the kubeconfig"
        )
    return UnavailableError(
        f"not allowed to {verb} {resource}: {error.text}",
        hint=f"ask for the right to {verb} {resource} in all namespaces, or use another --context",
    )


async def _list(client: Client, kind: Kind) -> Sequence[Any | Broken]:
    resource = kind.resource
    try:
        return (await client.list(resource)).items
    except ApiError as error:
        if error.is_gone and kind.is_optional:
            return ()
        if error.is_forbidden:
            where = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            raise missing_right("list", where, error) from error
        raise


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
