"""Paths of the API server in memory that are no objects: its version, its health, what it serves."""

from __future__ import annotations

import msgspec

from hostler.testing.apiserver.answers import Answer
from hostler.testing.apiserver.calls import Routes
from hostler.testing.apiserver.kinds import Kind

__all__ = ["answer_other_path"]

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_TEXT = {"content-type": "text/plain; charset=utf-8"}
_REVIEWS = ("/apis/authentication.k8s.io/v1", "/apis/authorization.k8s.io/v1")


def answer_other_path(routes: Routes, path: str, git_version: str) -> Answer:
    """Answer a path that belongs to no resource."""
    place = path.partition("?")[0].rstrip("/")
    if place in ("/livez", "/readyz", "/healthz"):
        return Answer(200, b"ok", _TEXT)
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
        return Answer(404, b"404 page not found\n", _TEXT)
    version = place.removeprefix("/apis/").removeprefix("/api/")
    resources = [entry for kind in kinds for entry in _resources(kind)]
    return _json({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})


def _json(body: object) -> Answer:
    return Answer(200, msgspec.json.encode(body))


def _version(git_version: str) -> dict[str, str]:
    major, minor = git_version.lstrip("v").split(".")[:2]
    return {"major": major, "minor": minor, "gitVersion": git_version, "platform": "linux/amd64"}


def _group(name: str, versions: list[str]) -> dict[str, object]:
    known = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": known, "preferredVersion": known[0]}


def _resources(kind: Kind) -> list[dict[str, object]]:
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
