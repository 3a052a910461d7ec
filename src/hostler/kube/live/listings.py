"""List everything that a scheduler watches, once.

For commands that need one snapshot: no watch, no copy that stays current. A missing right is named with its verb and
resource, so that the user can ask the administrator for it. Used by ``snapshot``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from hostler.errors import UnavailableError
from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.failures import ApiError
from hostler.kube.facts.kinds import KINDS, WatchedKind

__all__ = ["Listings", "list_all", "missing_right"]

# By group and plural: the decoded objects, or undecodable ones.
Listings: TypeAlias = Mapping[tuple[str, str], Sequence[Any | UndecodableObject]]

_AT_ONCE = 4


class _ApiResourceList(msgspec.Struct):
    name: str = ""


class _Discovery(msgspec.Struct):
    resources: list[_ApiResourceList] = []


async def list_all(client: KubeClient) -> Listings:
    """List all kinds, a few at a time; an optional kind that the server does not have is empty."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(kind: WatchedKind) -> Sequence[Any | UndecodableObject]:
        async with room:
            return await _list(client, kind)

    # All are awaited, even if one fails: a cancelled call would leave a connection open.
    found = await asyncio.gather(*map(one, KINDS), return_exceptions=True)
    _raise_failures(found)
    return {
        (kind.resource.group, kind.resource.plural): items
        for kind, items in zip(KINDS, found, strict=True)
        if not isinstance(items, BaseException)
    }


def missing_right(verb: str, resource: str, error: ApiError) -> UnavailableError:
    """Describe the missing right, and what the server said about it."""
    if error.status == 401:
        return UnavailableError(f"authentication failed: {error.text}", hint="renew the credentials in the kubeconfig")
    return UnavailableError(
        f"not allowed to {verb} {resource}: {error.text}",
        hint=f"ask for the right to {verb} {resource} in all namespaces, or use another --context",
    )


def _raise_failures(found: Sequence[object]) -> None:
    """Raise the first failure; missing rights are named all at once."""
    failures = [(kind, one) for kind, one in zip(KINDS, found, strict=True) if isinstance(one, BaseException)]
    if not failures:
        return
    error = failures[0][1]
    if not (isinstance(error, ApiError) and error.is_forbidden):
        raise error
    names = [_name(kind) for kind, one in failures if isinstance(one, ApiError) and one.is_forbidden]
    raise missing_right("list", ", ".join(names), error) from error


async def _list(client: KubeClient, kind: WatchedKind) -> Sequence[Any | UndecodableObject]:
    try:
        return (await client.list(kind.resource)).items
    except ApiError as error:
        if kind.is_optional and (error.is_gone or (error.status == 403 and await _is_absent(client, kind))):
            return ()
        raise


async def _is_absent(client: KubeClient, kind: WatchedKind) -> bool:
    """Return whether the server has no such API: without the right to read, it answers 403 and not 404."""
    try:
        found = msgspec.json.decode(await client.read(f"/apis/{kind.resource.api_version}"), type=_Discovery)
    except ApiError as error:
        return error.is_gone
    return all(one.name != kind.resource.plural for one in found.resources)


def _name(kind: WatchedKind) -> str:
    resource = kind.resource
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
