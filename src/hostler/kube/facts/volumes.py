"""Claims, volumes and storage classes of a live cluster, and where a pod can run because of them.

A bound claim ties its pod to where the volume is. A claim that waits for its first consumer is bound by ``Prepare``
when the pod has a place. Other claims must be bound before. A missing object makes the pod unschedulable, with a reason
that goes away when the claim, the volume or the class changes. Reasons use kube-scheduler's words if it has some.

Two deviations: a volume that several pods of a node share counts once for each of them against the node's limit, and of
two pods that request one ReadWriteOncePod volume the first keeps the others out even before it has a node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import msgspec

from hostler.errors import InputError
from hostler.kube.facts.index import ClaimKey, claims_of
from hostler.kube.facts.problems import CONVERSION_ERRORS, text_of
from hostler.kube.facts.volume_terms import both, either, serves, topology_terms, volume_terms, zone_terms
from hostler.manifests.objects.core import Pod
from hostler.manifests.objects.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from hostler.model import Expression, Term

__all__ = ["ATTACHABLE", "UNBOUND", "Needs", "VolumeStore", "Volumes", "class_of", "is_bound"]

Key = TypeVar("Key", bound=Hashable)

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
ATTACHABLE = "attachable-volumes-csi-"  # and the driver: the resource that limits volumes on a node
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
IN_USE = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
_WAIT = "WaitForFirstConsumer"
_ONCE_POD = "ReadWriteOncePod"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_NAME_FIELD = "metadata.name"


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether a claim is bound to its volume; one that only names a volume is not bound yet."""
    return bool(claim.spec.volume_name) and _BIND_COMPLETED in claim.metadata.annotations


def class_of(claim: PersistentVolumeClaim) -> str:
    """Return the storage class that a claim names, or an empty string."""
    return claim.metadata.annotations.get(_OLD_CLASS) or claim.spec.storage_class_name or ""


def _is_free(volume: PersistentVolume) -> bool:
    """Return whether a volume is unbound; it may be reserved for a certain claim."""
    claimed = volume.spec.claim_ref
    is_taken = claimed is not None and bool(claimed.uid)
    return not is_taken and volume.status.phase in ("", "Available") and volume.metadata.deletion_timestamp is None


class VolumeStore:
    """The known objects, by name."""

    def __init__(self) -> None:
        self.claims: dict[ClaimKey, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self._unbound: dict[str, dict[ClaimKey, None]] = {}  # by class
        self._claims_of: dict[str, dict[ClaimKey, None]] = {}  # by volume
        self._free: dict[str, dict[str, None]] = {}  # volumes by class

    def put_claim(self, key: ClaimKey, new: PersistentVolumeClaim | None) -> tuple[ClaimKey, ...]:
        """Store or delete a claim; return the affected claims."""
        old = self.claims.pop(key, None)
        if old is not None:
            _drop(self._unbound, class_of(old), key)
            _drop(self._claims_of, old.spec.volume_name, key)
        if new is not None:
            self.claims[key] = new
            if new.spec.volume_name:
                self._claims_of.setdefault(new.spec.volume_name, {})[key] = None
            if not is_bound(new):
                self._unbound.setdefault(class_of(new), {})[key] = None
        return () if old == new else (key,)

    def put_volume(self, name: str, new: PersistentVolume | None) -> tuple[ClaimKey, ...]:
        """Store or delete a volume; return the affected claims."""
        old = self.volumes.pop(name, None)
        concerned = dict.fromkeys(self._claims_of.get(name, ()))
        for volume in (old, new):
            if volume is None:
                continue
            named, claimed = volume.spec.storage_class_name, volume.spec.claim_ref
            if claimed is not None and (claimed.namespace, claimed.name) in self.claims:
                concerned[claimed.namespace, claimed.name] = None
            if _is_free(volume):  # only claims that still need a volume may get it
                concerned |= self._unbound.get(named, {})
        if old is not None:
            _drop(self._free, old.spec.storage_class_name, name)
        if new is not None:
            self.volumes[name] = new
            if _is_free(new):
                self._free.setdefault(new.spec.storage_class_name, {})[name] = None
        return tuple(concerned)

    def put_class(self, name: str, new: StorageClass | None) -> tuple[ClaimKey, ...]:
        """Store or delete a class; return the affected claims."""
        old = self.classes.pop(name, None)
        if new is not None:
            self.classes[name] = new
        return () if old == new else tuple(self._unbound.get(name, ()))

    def free_volumes(self, named: str) -> Iterable[PersistentVolume]:
        """Return the unbound volumes of a class."""
        return (self.volumes[name] for name in self._free.get(named, ()))


def _drop(index: dict[str, dict[Key, None]], at: str, key: Key) -> None:
    found = index.get(at)
    if found is not None:
        found.pop(key, None)
        if not found:
            del index[at]


class Needs(msgspec.Struct, frozen=True):
    """What the volumes of a pod add to its shape."""

    terms: tuple[Term, ...] = ()
    prepare: tuple[str, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()  # resources of drivers that nodes limit
    refusal: str = ""


class Volumes:
    """Claims, volumes, classes, and which pods hold single-pod volumes."""

    def __init__(self, drivers: Mapping[str, int]) -> None:
        self.store = VolumeStore()
        self._drivers = drivers  # those that some node limits
        self._holders: dict[ClaimKey, tuple[str, bool]] = {}  # of ReadWriteOncePod claims; whether it runs
        self.moved: dict[ClaimKey, None] = {}  # claims whose holder changed since they were last read

    def needs(self, uid: str, pod: Pod) -> Needs:
        """Return what the volumes of a pod require; for a running pod only its attachments count."""
        claims = claims_of(pod)
        if not claims:
            return Needs()
        counts = self._counts(claims)
        if pod.spec.node_name:
            return Needs(counts=counts)
        try:
            terms, prepare = self._terms(uid, pod, claims)
        except CONVERSION_ERRORS as error:
            return Needs(counts=counts, refusal=error.message if isinstance(error, InputError) else text_of(error))
        return Needs(terms, prepare, counts)

    def hold(self, uid: str, claims: Iterable[ClaimKey], *, runs: bool) -> None:
        """Let a pod hold its single-pod claims if it is the first; a running pod comes first."""
        for key in claims:
            claim = self.store.claims.get(key)
            if claim is None or _ONCE_POD not in claim.spec.access_modes:
                self._holders.pop(key, None)
                continue
            holder, does_run = self._holders.get(key, ("", False))
            if not holder or holder == uid or (runs and not does_run):
                self._holders[key] = (uid, runs)
                if holder and holder != uid:
                    self.moved[key] = None

    def release(self, uid: str, claims: Iterable[ClaimKey]) -> None:
        """Release a pod's claims: it is gone, or unplaceable for another reason."""
        for key in claims:
            if self._holders.get(key, ("", False))[0] == uid:
                del self._holders[key]
                self.moved[key] = None

    def _terms(self, uid: str, pod: Pod, claims: dict[ClaimKey, bool]) -> tuple[tuple[Term, ...], tuple[str, ...]]:
        terms: tuple[Term, ...] = ()
        prepare: list[str] = []
        bound: list[PersistentVolume] = []
        for key, is_own in claims.items():
            claim = self._claim(key, pod, is_own=is_own)
            if self._holders.get(key, (uid, False))[0] != uid:
                raise InputError(IN_USE)
            if is_bound(claim):
                volume = self.store.volumes.get(claim.spec.volume_name)
                if volume is None:
                    raise InputError(_missing_volume(key, claim))
                bound.append(volume)
                terms = both(terms, volume_terms(volume))
            else:
                terms = both(terms, self._unbound_terms(claim))
                prepare.append(f"volume:{key[0]}/{key[1]}")
        return both(terms, zone_terms(bound)), tuple(prepare)

    def _claim(self, key: ClaimKey, pod: Pod, *, is_own: bool) -> PersistentVolumeClaim:
        claim = self.store.claims.get(key)
        if claim is None and is_own:
            raise InputError(f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{key[1]}"')
        if claim is None:
            raise InputError(f'persistentvolumeclaim "{key[1]}" not found')
        if is_own and not any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references):
            raise InputError(f'persistentvolumeclaim "{key[1]}" was not created for the pod')
        if claim.metadata.deletion_timestamp is not None:
            raise InputError(f'persistentvolumeclaim "{key[1]}" is being deleted')
        if claim.status.phase == "Lost":
            raise InputError(_missing_volume(key, claim))
        return claim

    def _unbound_terms(self, claim: PersistentVolumeClaim) -> tuple[Term, ...]:
        """Return where a claim could be bound; reject one that should be bound already."""
        named = class_of(claim)
        if claim.spec.volume_name or not named:
            raise InputError(UNBOUND)
        found = self.store.classes.get(named)
        if found is None:
            raise InputError(f'storageclass.storage.k8s.io "{named}" not found')
        if found.volume_binding_mode != _WAIT:
            raise InputError(UNBOUND)
        terms = self._places(claim, found, named)
        chosen = claim.metadata.annotations.get(_SELECTED_NODE)
        if chosen:  # its volume is being made there
            terms = both(terms, (Term((), (Expression(_NAME_FIELD, "In", (chosen,)),)),))
        return terms

    def _places(self, claim: PersistentVolumeClaim, found: StorageClass, named: str) -> tuple[Term, ...]:
        if found.provisioner != _NO_PROVISIONER:
            return topology_terms(found.allowed_topologies or ())
        matching = [volume for volume in self.store.free_volumes(named) if serves(volume, claim)]
        reserved = [volume for volume in matching if volume.spec.claim_ref is not None]
        if not matching:
            raise InputError("node(s) didn't find available persistent volumes to bind")
        return either(volume_terms(volume) for volume in reserved or matching)

    def _counts(self, claims: Iterable[ClaimKey]) -> tuple[tuple[str, int], ...]:
        """Count the volumes of each limited driver; one claim of a pod is one volume."""
        found: dict[str, set[str]] = {}
        for key in claims:
            driver, handle = self._attachment_of(key)
            if driver in self._drivers:
                found.setdefault(ATTACHABLE + driver, set()).add(handle)
        return tuple(sorted((name, len(handles)) for name, handles in found.items()))

    def _attachment_of(self, key: ClaimKey) -> tuple[str, str]:
        """Return the driver of a claim's volume, existing or future, and the id of the volume."""
        claim = self.store.claims.get(key)
        if claim is None:
            return "", ""
        volume = self.store.volumes.get(claim.spec.volume_name)
        if volume is not None:
            csi = volume.spec.csi
            return (csi.driver, csi.volume_handle) if csi is not None else ("", "")
        found = self.store.classes.get(class_of(claim))
        return (found.provisioner, "/".join(key)) if found is not None else ("", "")


def _missing_volume(key: ClaimKey, claim: PersistentVolumeClaim) -> str:
    return f'persistentvolumeclaim "{key[1]}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
