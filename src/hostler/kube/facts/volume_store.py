"""Claims, volumes and storage classes of a live cluster, and which claims a change of one of them affects.

Used by ``volumes``, which says what they mean for a pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from hostler.kube.facts.index import ClaimKey
from hostler.manifests.objects.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass

__all__ = ["VolumeStore", "class_of", "is_bound", "is_free"]

Key = TypeVar("Key", bound=Hashable)

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether a claim is bound to its volume; one that only names a volume is not bound yet."""
    return bool(claim.spec.volume_name) and _BIND_COMPLETED in claim.metadata.annotations


def class_of(claim: PersistentVolumeClaim) -> str:
    """Return the storage class that a claim names, or an empty string."""
    return claim.metadata.annotations.get(_OLD_CLASS) or claim.spec.storage_class_name or ""


def is_free(volume: PersistentVolume) -> bool:
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
            if is_free(volume):  # only claims that still need a volume may get it
                concerned |= self._unbound.get(named, {})
        if old is not None:
            _drop(self._free, old.spec.storage_class_name, name)
        if new is not None:
            self.volumes[name] = new
            if is_free(new):
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
