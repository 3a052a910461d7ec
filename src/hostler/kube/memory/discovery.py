"""Discovery of the API server in memory: version, health, resources, and custom resources.

Creating a custom resource definition makes the server serve that resource.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.kube.memory.answers import MemoryAnswer
from hostler.kube.memory.calls import ResourceRoutes
from hostler.kube.memory.kinds import ServedKind
from hostler.kube.memory.store import ObjectStore, StoredChange
from hostler.kube.memory.verbs.writes import write_over

__all__ = ["answer_other_path", "follow_definitions"]

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_TEXT = {"content-type": "text/plain; charset=utf-8"}
_REVIEWS = ("/apis/authentication.k8s.io/v1", "/apis/authorization.k8s.io/v1")


def answer_other_path(routes: ResourceRoutes, path: str, git_version: str) -> MemoryAnswer:
    """Answer a path that belongs to no resource."""
    place = path.partition("?")[0].rstrip("/")
    if place in ("/livez", "/readyz", "/healthz"):
        return MemoryAnswer(200, b"ok", _TEXT)
    if place == "/version":
        return _json(_version(git_version))
    groups: dict[str, list[str]] = {}
    for kind in routes.kinds.values():
        versions = groups.setdefault(kind.group, [])
        if kind.version not in versions:
            versions.append(kind.version)
    if place == "/apis":
        known = [_group(name, versions) for name, versions in groups.items() if name]
        return _json({"kind": "APIGroupList", "apiVersion": "v1", "groups": known})
    name = place.removeprefix("/apis/")
    if name in groups:
        return _json({"kind": "APIGroup", "apiVersion": "v1"} | _group(name, groups[name]))
    kinds = routes.served(place)
    if not kinds and place not in _REVIEWS:
        return MemoryAnswer(404, b"404 page not found\n", _TEXT)
    version = place.removeprefix("/apis/").removeprefix("/api/")
    resources = [entry for kind in kinds for entry in _resources(kind)]
    return _json({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})


def _json(body: object) -> MemoryAnswer:
    return MemoryAnswer(200, msgspec.json.encode(body))


def _version(git_version: str) -> dict[str, str]:
    major, minor = git_version.lstrip("v").split(".")[:2]
    return {"major": major, "minor": minor, "gitVersion": git_version, "platform": "linux/amd64"}


def _group(name: str, versions: list[str]) -> dict[str, object]:
    known = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": known, "preferredVersion": known[0]}


def _resources(kind: ServedKind) -> list[dict[str, object]]:
    entry: dict[str, object] = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.is_namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }
    parts = ["status"] if kind.has_status else []
    parts += ["binding", "eviction"] if kind.plural == "pods" else []
    return [entry] + [entry | {"name": f"{kind.plural}/{part}", "singularName": ""} for part in parts]


def follow_definitions(store: ObjectStore, routes: ResourceRoutes) -> None:
    """Serve the resources of custom resource definitions from now on."""

    def follow(change: StoredChange) -> None:
        if change.kind.plural != "customresourcedefinitions" or change.type == "MODIFIED":
            return
        for kind in _kinds_of(change.entry.item):
            if change.type == "DELETED":
                routes.drop(kind)
            else:
                routes.add(kind)
        if change.type == "ADDED":
            status = {"conditions": [_true(store, "NamesAccepted"), _true(store, "Established")]}
            write_over(store, change.kind, change.key, {**change.entry.item, "status": status})

    store.listen(follow)


def _true(store: ObjectStore, word: str) -> dict[str, Any]:
    return {"type": word, "status": "True", "lastTransitionTime": store.timestamp(), "reason": word, "message": ""}


def _kinds_of(definition: dict[str, Any]) -> list[ServedKind]:
    spec = definition["spec"]
    return [
        ServedKind(
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
