"""Volumes that wait for their first consumer: bound at the pod's node before the pod is bound.

A claim of a provisioning class gets the node in an annotation, and its provisioner does the rest. For a class without
provisioning a free volume is reserved for the claim. In both cases the claim is ready when the API shows it as bound.
If the node is given up, the volumes are kept: an existing volume draws the pod to it next time. Used by ``process``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from hostler.errors import HostlerError, UnavailableError
from hostler.kube.api.client import KubeClient
from hostler.kube.api.failures import is_worth_retrying
from hostler.kube.facts.index import ClaimKey
from hostler.kube.facts.kinds import VOLUME_CLAIMS, VOLUMES
from hostler.kube.facts.volume_terms import serves, volume_terms
from hostler.kube.facts.volumes import class_of, is_bound
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.manifests.objects.volumes import PersistentVolume, PersistentVolumeClaim
from hostler.manifests.places import parse_quantities
from hostler.model import Host, Prepare, Prepared
from hostler.runtime.backoff import BackoffRules, retry_call

__all__ = ["VolumePreparer"]

SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BOUND_BY = "pv.kubernetes.io/bound-by-controller"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_LOOK_AGAIN_S = 0.2


class VolumePreparer:
    """Prepares the volumes of pods."""

    def __init__(self, cluster: WatchedCluster, client: KubeClient, timeout_s: float, random: random.Random) -> None:
        self._cluster = cluster
        self._client = client
        self._timeout_s = timeout_s
        self._random = random
        self._reserved: dict[str, ClaimKey] = {}  # volumes that the watch may still show as free

    async def __call__(self, prepare: Prepare) -> Prepared:
        """Bind the claims of a pod on a node; return when all are bound, or why they cannot be."""
        keys = [_key(need) for need in prepare.needs]
        try:
            for key in keys:
                await self._begin(key, prepare.host)
            for key in keys:
                await self._until_bound(key, prepare.host)
        except HostlerError as error:
            return Prepared(uid=prepare.uid, host=prepare.host, error=error.message)
        finally:
            for name in [name for name, key in self._reserved.items() if key in keys]:
                del self._reserved[name]
        return Prepared(uid=prepare.uid, host=prepare.host)

    async def _begin(self, key: ClaimKey, node: str) -> None:
        """Start the binding of a claim, unless it was started before."""
        store = self._cluster.volumes.store
        claim = self._claim(key)
        if is_bound(claim):
            return
        found = store.classes.get(class_of(claim))
        if found is not None and found.provisioner == _NO_PROVISIONER:
            await self._reserve(key, claim, node)
        elif claim.metadata.annotations.get(SELECTED_NODE) != node:
            body = {"metadata": {"uid": claim.metadata.uid, "annotations": {SELECTED_NODE: node}}}
            await self._patiently(lambda: self._client.patch(VOLUME_CLAIMS, *key, body, timeout_s=self._timeout_s))

    async def _reserve(self, key: ClaimKey, claim: PersistentVolumeClaim, node: str) -> None:
        """Reserve the smallest free volume that meets the claim and that the node reaches."""
        store, host = self._cluster.volumes.store, self._cluster.hosts.get(node)
        if host is None:
            raise UnavailableError(f"node {node} is gone")
        fitting = [
            volume
            for volume in store.free_volumes(class_of(claim))
            if self._reserved.get(volume.metadata.name, key) == key and serves(volume, claim) and _reaches(host, volume)
        ]
        if not fitting:
            raise UnavailableError("no free volume on the node fits any more")
        volume = min(fitting, key=_preference)
        if volume.spec.claim_ref is not None:
            return  # already reserved for this claim
        self._reserved[volume.metadata.name] = key
        body = {
            "metadata": {
                "resourceVersion": str(volume.metadata.resource_version),
                "annotations": {_BOUND_BY: "yes"},
            },
            "spec": {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": key[0],
                    "name": key[1],
                    "uid": claim.metadata.uid,
                }
            },
        }
        name = volume.metadata.name
        await self._patiently(lambda: self._client.patch(VOLUMES, "", name, body, timeout_s=self._timeout_s))

    async def _until_bound(self, key: ClaimKey, node: str) -> None:
        was_asked = False
        while True:
            claim = self._claim(key)
            if is_bound(claim):
                return
            chosen = claim.metadata.annotations.get(SELECTED_NODE)
            if chosen == node:
                was_asked = True
            elif was_asked:
                raise UnavailableError(f"the provisioner of {'/'.join(key)} cannot provision a volume for node {node}")
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _claim(self, key: ClaimKey) -> PersistentVolumeClaim:
        claim = self._cluster.volumes.store.claims.get(key)
        if claim is None:
            raise UnavailableError(f"claim {'/'.join(key)} is gone")
        return claim

    async def _patiently(self, call: Callable[[], Awaitable[object]]) -> None:
        """Repeat a call until the server answers; a rejection is an error."""
        await retry_call(call, BackoffRules(), self._random, is_worth=is_worth_retrying)


def _key(need: str) -> ClaimKey:
    namespace, _, name = need.removeprefix("volume:").partition("/")
    return namespace, name


def _reaches(host: Host, volume: PersistentVolume) -> bool:
    terms = volume_terms(volume)
    return not terms or any(term.matches(host.name, host.labels) for term in terms)


def _preference(volume: PersistentVolume) -> tuple[bool, int, str]:
    """Return the sort key of volumes: reserved for the claim first, then the smallest, then by name."""
    size = parse_quantities(volume.spec.capacity, "spec.capacity").get("storage", 0)
    return volume.spec.claim_ref is None, size, volume.metadata.name
