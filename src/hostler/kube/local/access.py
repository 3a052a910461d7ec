"""The rights of the users of a local cluster: roles and bindings, beside the default ones of every API server.

``hostler`` has the rights of kube-scheduler and those that a Hostler scheduler needs beyond them: evictions, gangs, its
own lease. The last user of ``USERS`` has no rights. Used by ``cluster``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from hostler.errors import UnavailableError
from hostler.kube.local.credentials import USERS
from hostler.kube.local.setup import Api

__all__ = ["grant_access", "wait_for_account"]

_GROUP = "rbac.authorization.k8s.io"
_PATH = f"/apis/{_GROUP}/v1"
_READ = ("get", "list", "watch")
_GANGS = ("podgroups", "workloads")

Rule = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]  # groups of the API, resources, verbs

_SCHEDULER: tuple[Rule, ...] = (
    (("",), ("pods/eviction",), ("create",)),
    (("",), ("pods", "pods/status"), ("patch", "update")),
    (("",), ("limitranges", "resourcequotas"), _READ),
    (("scheduling.k8s.io", "scheduling.x-k8s.io"), _GANGS, _READ),
    (("scheduling.k8s.io", "scheduling.x-k8s.io"), ("podgroups/status",), ("get", "patch", "update")),
    (("scheduling.k8s.io",), ("priorityclasses",), _READ),
    (("policy",), ("poddisruptionbudgets",), _READ),
    (("coordination.k8s.io",), ("leases",), (*_READ, "create", "update", "patch")),
    (("events.k8s.io", ""), ("events",), ("create", "patch", "update")),
    (("apiextensions.k8s.io",), ("customresourcedefinitions",), (*_READ, "create")),
    (("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    (("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
)
_KWOK: tuple[Rule, ...] = (
    (("",), ("nodes", "pods"), (*_READ, "update", "patch", "delete")),
    (("",), ("nodes/status", "pods/status"), ("update", "patch")),
    (("",), ("configmaps", "secrets"), _READ),
    (("coordination.k8s.io",), ("leases",), (*_READ, "create", "update", "patch", "delete")),
    (("events.k8s.io", ""), ("events",), ("create", "patch", "update")),
)

# user: the default roles of every API server
_BUILT_IN = {
    "hostler": ("system:kube-scheduler", "system:volume-scheduler"),
    "kube-scheduler": ("system:volume-scheduler",),  # bound to its role by default
}


def grant_access(api: Api) -> None:
    """Create or update the roles and bindings."""
    for collection, content in _objects():
        api.apply(f"{_PATH}/{collection}", content)


def wait_for_account(api: Api, patience_s: float) -> None:
    """Wait until the controllers made the default service account: before, no pod can be created."""
    deadline = time.monotonic() + patience_s
    while api.send("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 404:
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"the controllers made no service account within {patience_s:.0f} s",
                hint="see 'hostler kube logs controllers'",
            )
        time.sleep(0.05)


def _objects() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, user, rules in (("hostler-scheduler", "hostler", _SCHEDULER), ("hostler-kwok", "kwok", _KWOK)):
        yield "clusterroles", _role(name, rules)
        yield "clusterrolebindings", _binding(name, name, USERS[user].name)
    for user, roles in _BUILT_IN.items():
        for role in roles:
            name = f"hostler-{user}-{role.removeprefix('system:')}"
            yield "clusterrolebindings", _binding(name, role, USERS[user].name)


def _role(name: str, rules: tuple[Rule, ...]) -> dict[str, Any]:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}
            for groups, resources, verbs in rules
        ],
    }


def _binding(name: str, role: str, user: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": user}],
    }
