"""Binds that an extender carries out in our place, where one that wants to is concerned. Used by ``process``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from hostler.errors import UnavailableError
from hostler.kube.api.client import Client
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import PODS
from hostler.kube.api.transport import TransportError
from hostler.kube.extender.asking import Extenders
from hostler.kube.facts.views import PodView
from hostler.kube.scheduler.binder import BindCall

__all__ = ["binds_through"]


def binds_through(extenders: Extenders, client: Client) -> BindCall | None:
    """Return how pods are bound when extenders may do it; None where none of them binds."""
    if not extenders.has_binder:
        return None

    async def bind(pod: PodView, node: str, annotations: Mapping[str, str], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):  # all of it: whoever holds the lease next counts on that
                await send(pod, node, annotations, seconds)
        except TimeoutError:
            raise TransportError(f"it was not bound within {seconds:g} s", may_have_acted=True) from None

    async def send(pod: PodView, node: str, annotations: Mapping[str, str], seconds: float) -> None:
        body = await client.read(PODS.path(pod.namespace, pod.name))
        extender = extenders.binder_of(msgspec.json.decode(body, type=dict[str, Any]))
        if extender is None:
            await client.bind(pod.namespace, pod.name, pod.uid, node, annotations=annotations, timeout_s=seconds)
            return
        try:
            await extenders.bind(extender, pod.namespace, pod.name, pod.uid, node)
        except TransportError as error:
            # Not the API server's failure, which would slow down the binds of all other pods.
            if error.may_have_acted:
                raise ApiError(500, "ExtenderFailed", error.message) from error
            raise UnavailableError(error.message) from error

    return bind
