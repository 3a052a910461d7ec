"""The few API calls that set up a cluster, with the standard library only, and the rights of its users.

The rights are roles and bindings beside the default ones of every API server. ``hostler`` has the rights of
kube-scheduler and those that a Hostler scheduler needs beyond them: evictions, gangs, its own lease. The last user of
``USERS`` has no rights. Used by ``cluster``.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from hostler.errors import UnavailableError
from hostler.kube.api.failures import error_of
from hostler.kube.local.credentials import USERS

__all__ = ["Api", "grant_access", "wait_for_account"]

_PATIENCE_S = 30.0

Object = dict[str, Any]
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


class Api:
    """A connection to an API server, for one thread; use it in a ``with`` block."""

    def __init__(self, url: str, authority: Path, token: str, *, timeout_s: float = _PATIENCE_S) -> None:
        where = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._connection = http.client.HTTPSConnection(
            where.hostname or "",
            where.port,
            timeout=timeout_s,
            context=ssl.create_default_context(cafile=str(authority)),
        )

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def send(
        self, method: str, path: str, body: Object | None = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Send a request and return the status and the body; raise OSError or HTTPException without a response."""
        content = json.dumps(body).encode() if body is not None else None
        try:
            self._connection.request(method, path, content, {**self._headers, "Content-Type": content_type})
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request opens a new one
            raise

    def call(self, method: str, path: str, body: Object | None = None) -> Object:
        """Send a request and return the object of the response; raise ApiError if it is rejected."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        status, content = self.send(method, path, body, kind)
        if status >= 300:
            raise error_of(status, {}, content)
        answer: Object = json.loads(content)
        return answer

    def apply(self, collection: str, content: Object) -> None:
        """Create an object, or replace the one of the same name."""
        status, answer = self.send("POST", collection, content)
        if status == 409:
            status, answer = self.send("PUT", f"{collection}/{content['metadata']['name']}", content)
        if status >= 300:
            raise error_of(status, {}, answer)

    def create(self, collection: str, content: Object) -> bool:
        """Create an object; return False if one of that name exists already."""
        status, answer = self.send("POST", collection, content)
        if status == 409:
            return False
        if status >= 300:
            raise error_of(status, {}, answer)
        return True


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
