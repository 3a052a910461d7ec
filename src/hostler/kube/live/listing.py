"""Everything that a scheduler watches, listed once.

For commands that look and go: no watch, no copy that stays current. A right that is missing is named with its verb and
resource, because that is what a person has to ask the administrator for. Used by ``snapshot``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from hostler.errors import UnavailableError
from hostler.kube.api.client import Broken, Client
from hostler.kube.api.failures import ApiError
from hostler.kube.facts.kinds import KINDS, Kind

__all__ = ["Listings", "list_all", "missing_right"]

# By group and plural: the objects as they were read, or that they could not be.
Listings: TypeAlias = Mapping[tuple[str, str], Sequence[Any | Broken]]

_AT_ONCE = 4


class _Served(msgspec.Struct):
    name: str = ""


class _Discovery(msgspec.Struct):
    resources: list[_Served] = []


async def list_all(client: Client) -> Listings:
    """List all kinds, a few at a time; a kind that the server does not have is empty where it may be."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(kind: Kind) -> Sequence[Any | Broken]:
        async with room:
            return await _list(client, kind)

    # All are awaited, also where one fails: what is cut off in the middle leaves a connection behind.
    found = await asyncio.gather(*map(one, KINDS), return_exceptions=True)
    _raise_failures(found)
    return {
        (kind.resource.group, kind.resource.plural): items
        for kind, items in zip(KINDS, found, strict=True)
        if not isinstance(items, BaseException)
    }


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


def _raise_failures(found: Sequence[object]) -> None:
    """Raise the first failure; rights that are missing are named all at once."""
    failures = [(kind, one) for kind, one in zip(KINDS, found, strict=True) if isinstance(one, BaseException)]
    if not failures:
        return
    error = failures[0][1]
    if not (isinstance(error, ApiError) and error.is_forbidden):
        raise error
    names = [_name(kind) for kind, one in failures if isinstance(one, ApiError) and one.is_forbidden]
    raise missing_right("list", ", ".join(names), error) from error


async def _list(client: Client, kind: Kind) -> Sequence[Any | Broken]:
    try:
        return (await client.list(kind.resource)).items
    except ApiError as error:
        if kind.is_optional and (error.is_gone or (error.status == 403 and await _is_absent(client, kind))):
            return ()
        raise


async def _is_absent(client: Client, kind: Kind) -> bool:
    """Say whether the server has no such API at all: who may not read it is not told that there is nothing to read."""
    try:
        found = msgspec.json.decode(await client.read(f"/apis/{kind.resource.api_version}"), type=_Discovery)
    except ApiError as error:
        return error.is_gone
    return all(one.name != kind.resource.plural for one in found.resources)


def _name(kind: Kind) -> str:
    resource = kind.resource
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
