"""The parts that many Kubernetes objects share: metadata, owners, conditions, label selectors, quantities.

Split from ``objects`` only to keep modules small; the same rules hold here. Used by every module with structs.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

__all__ = [
    "Condition",
    "LabelSelector",
    "Metadata",
    "OwnerReference",
    "Quantities",
    "Quantity",
    "Read",
    "Requirement",
    "Unread",
    "controller_of",
]

Quantity: TypeAlias = str | int | float
Quantities: TypeAlias = dict[str, Quantity]
Unread: TypeAlias = dict[str, object]  # something whose presence matters, but not yet its content


class Read(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all structs that are read: camelCase names, unknown fields skipped."""


class OwnerReference(Read, frozen=True):
    """Who made an object; of several owners at most one is the controller."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(Read, frozen=True):
    """Who an object is, and its marks."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str | int = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    deletion_timestamp: object = None
    creation_timestamp: object = None


class Condition(Read, frozen=True):
    """A condition of an object."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Requirement(Read, frozen=True):
    """One requirement on a label or a field."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Read, frozen=True):
    """Requirements on labels that must all hold; none at all: everything is selected."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


def controller_of(metadata: Metadata) -> OwnerReference | None:
    """Find who controls an object; None when it stands alone."""
    return next((owner for owner in metadata.owner_references if owner.controller), None)
