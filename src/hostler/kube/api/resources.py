"""Which resources of the API are used, where they live, and how their objects are read.

Only the fields that we read are decoded. Used by ``client`` and ``reflector``, and by everything that names a resource.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from hostler.manifests.metadata import Metadata, Read

__all__ = ["Named", "Resource"]


class Named(Read, frozen=True):
    """The part that all objects share."""

    metadata: Metadata = Metadata()


Item = TypeVar("Item")


class Resource(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    """One resource of the API: its group (empty for the core), version, plural, kind, and how its objects are read."""

    struct: type[Item]
    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return what objects call their version."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Return the path of a collection, of an object, or of a part of it (a subresource)."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        space = f"/namespaces/{namespace}" if namespace and self.is_namespaced else ""
        ending = "".join(f"/{word}" for word in (name, part) if word)
        return f"{root}{space}/{self.plural}{ending}"
