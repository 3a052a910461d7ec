"""Delete the objects of a load: pods first, so that none is placed again, then groups, then nodes."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.failures import ApiError, is_worth_retrying
from hostler.kube.api.resources import CRD_POD_GROUPS, NODES, POD_GROUPS, PODS, Object, Resource
from hostler.kube.load.objects import LABEL
from hostler.kube.load.runner import MOST_IN_FLIGHT
from hostler.runtime.backoff import BackoffRules, retry_call

__all__ = ["clean"]

_ORDER: tuple[Resource[Any], ...] = (PODS, POD_GROUPS, CRD_POD_GROUPS, NODES)
_PATIENCE = BackoffRules(first_s=0.2, limit_s=10.0)


async def clean(client: KubeClient, name: str, random: random.Random) -> dict[str, int]:
    """Delete all objects with the label of a load in all namespaces; return the number of each kind."""
    counts: dict[str, int] = {}
    for resource in _ORDER:
        deleted = await _clean_kind(client, resource, name, random)
        counts[resource.plural] = counts.get(resource.plural, 0) + deleted
    return counts


async def _clean_kind(client: KubeClient, resource: Resource[Any], name: str, random: random.Random) -> int:
    try:
        listing = await retry_call(
            lambda: client.list(resource, labels=f"{LABEL}={name}"), _PATIENCE, random, is_worth=is_worth_retrying
        )
    except ApiError as error:
        if error.is_gone:  # this server has no such API
            return 0
        raise
    places = asyncio.Semaphore(MOST_IN_FLIGHT)
    grace_s = 0 if resource is PODS else None

    async def remove(namespace: str, one: str) -> bool:
        async with places:
            try:
                await retry_call(
                    lambda: client.delete(resource, namespace, one, grace_s=grace_s),
                    _PATIENCE,
                    random,
                    is_worth=is_worth_retrying,
                )
            except ApiError as error:
                if not error.is_gone:
                    raise
                return False
            return True

    tasks = [asyncio.ensure_future(remove(*_key(item))) for item in listing.items]
    try:
        return sum(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _key(item: Object | UndecodableObject) -> tuple[str, str]:
    """Return namespace and name, also of an object that could not be read further."""
    found = item if isinstance(item, UndecodableObject) else item.metadata
    return found.namespace, found.name
