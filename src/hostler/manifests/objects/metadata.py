"""Parts that many Kubernetes objects share: metadata, owners, conditions, label selectors, quantities.

The rules of ``core`` apply. Used by every module with structs.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

__all__ = [
    "Condition",
    "LabelSelector",
    "Metadata",
    "ObjectStruct",
    "OwnerReference",
    "Quantities",
    "Quantity",
    "Requirement",
    "Unread",
    "controller_of",
]  # fmt: skip

Quantity: TypeAlias = str | int | float
Quantities: TypeAlias = dict[str, Quantity]
Unread: TypeAlias = dict[str, object]  # something whose presence matters, but not yet its content


class ObjectStruct(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all structs of Kubernetes objects: camelCase names, unknown fields skipped."""


class OwnerReference(ObjectStruct, frozen=True):
    """An owner of an object; at most one owner is the controller."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(ObjectStruct, frozen=True):
    """The identity of an object, its labels, annotations and owners."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str | int = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    deletion_timestamp: object = None
    creation_timestamp: object = None


class Condition(ObjectStruct, frozen=True):
    """A condition of an object."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Requirement(ObjectStruct, frozen=True):
    """One requirement on a label or a field."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(ObjectStruct, frozen=True):
    """Requirements on labels that must all hold; without requirements it selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


def controller_of(metadata: Metadata) -> OwnerReference | None:
    """Return the controller of an object; None if it has none."""
    return next((owner for owner in metadata.owner_references if owner.controller), None)
