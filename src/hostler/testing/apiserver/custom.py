"""Custom resources: a definition that is created makes the API server in memory serve its resource."""

from __future__ import annotations

from typing import Any

from hostler.testing.apiserver.calls import Routes
from hostler.testing.apiserver.kinds import Kind
from hostler.testing.apiserver.store import Change, Store
from hostler.testing.apiserver.writing import write_over

__all__ = ["follow_definitions"]


def follow_definitions(store: Store, routes: Routes) -> None:
    """Serve what definitions define, from now on."""

    def follow(change: Change) -> None:
        if change.kind.plural != "customresourcedefinitions" or change.type == "MODIFIED":
            return
        for kind in _defined(change.entry.item):
            if change.type == "DELETED":
                routes.drop(kind)
            else:
                routes.add(kind)
        if change.type == "ADDED":
            status = {"conditions": [_true(store, "NamesAccepted"), _true(store, "Established")]}
            write_over(store, change.kind, change.key, {**change.entry.item, "status": status})

    store.listen(follow)


def _true(store: Store, word: str) -> dict[str, Any]:
    return {"type": word, "status": "True", "lastTransitionTime": store.timestamp(), "reason": word, "message": ""}


def _defined(definition: dict[str, Any]) -> list[Kind]:
    spec = definition["spec"]
    return [
        Kind(
            group=spec["group"],
            version=version["name"],
            plural=spec["names"]["plural"],
            kind=spec["names"]["kind"],
            is_namespaced=spec.get("scope", "Namespaced") == "Namespaced",
            has_status="status" in (version.get("subresources") or {}),
            is_custom=True,
        )
        for version in spec["versions"]
        if version.get("served", True)
    ]
