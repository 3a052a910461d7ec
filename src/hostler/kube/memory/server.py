"""An API server in memory: the same paths, JSON, versions, watches and refusals as the real one.

``ApiServer.transport`` is what a client sends through; the other methods are for tests, which look and act directly.
The same contract (``tests.kube.memory.contract``) is run on this one and on the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hostler.kube.api.clock import Clock
from hostler.kube.api.transport import Request
from hostler.kube.memory.admission import admit, fill_in
from hostler.kube.memory.answers import Answer, WatchAnswer
from hostler.kube.memory.calls import Call, LogEntry, Routes, read_duration
from hostler.kube.memory.discovery import answer_other_path, follow_definitions
from hostler.kube.memory.kinds import BUILT_IN, Kind
from hostler.kube.memory.pods import bind_pod, evict_pod
from hostler.kube.memory.reading import get_object, list_objects, typed
from hostler.kube.memory.refusals import Refusal, not_allowed, success, timed_out
from hostler.kube.memory.reviews import Permissions
from hostler.kube.memory.store import Change, Entry, Store
from hostler.kube.memory.transport import ApiTransport
from hostler.kube.memory.virtual_time import SimClock
from hostler.kube.memory.writing import create_object, delete_object, patch_object, replace_object, write_over

__all__ = ["ApiServer"]

Json = dict[str, Any]

_SPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_LONGEST_WRITE_S = 34.0
_NANOSECONDS = 1_000_000_000


class ApiServer:
    """Holds objects, serves requests, and writes down all of it. ``without`` names groups that it does not have."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        latency_s: float = 0.001,
        bookmark_s: float = 60.0,
        version: str = "v1.37.1",
        without: tuple[str, ...] = (),
    ) -> None:
        self.clock = clock or SimClock()
        self.store = Store(self.clock)
        self.routes = Routes(kind for kind in BUILT_IN if kind.api_version not in without)
        self.permissions = Permissions()
        self.log: list[LogEntry] = []
        self.latency_s = latency_s
        self.bookmark_s = bookmark_s
        self.git_version = version
        follow_definitions(self.store, self.routes)
        for name in _SPACES:
            self.put({"kind": "Namespace", "metadata": {"name": name}})
        for name, value in _CLASSES.items():
            self.put({"kind": "PriorityClass", "metadata": {"name": name}, "value": value})

    # For tests: direct looks and acts, past permissions, preconditions and the log.

    def transport(self, user: str = "hostler") -> ApiTransport:
        """Return a way to send requests as a user."""
        return ApiTransport(self, user)

    def put(self, item: Json) -> Json:
        """Create or replace an object, status included, and return it; its kind says where it goes."""
        kind = next(kind for kind in self.routes.kinds.values() if kind.kind == item["kind"])
        given: Json = {"namespace": "default"} if kind.is_namespaced else {}
        given |= item["metadata"]
        key = (given.get("namespace", ""), given["name"])
        body = {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}
        old = self.store.entries(kind).get(key)
        if old is None:
            given = {"uid": self.store.new_uid(), "creationTimestamp": self.store.timestamp()} | given
            given |= _first_generation(kind)
        else:
            given = {**old.item["metadata"], **given}
        body = admit(
            self.store, self.routes, kind, fill_in(self.store, kind, {**body, "metadata": given}), strict=False
        )
        entry = self.store.put(kind, key, body) if old is None else write_over(self.store, kind, key, body)
        return entry.item

    def get(self, resource: str, name: str, namespace: str = "default") -> Json | None:
        """Return an object, or None; the resource is a plural such as pods, or leases.coordination.k8s.io."""
        kind = self.routes.find(resource)
        entry = self.store.entries(kind).get((namespace if kind.is_namespaced else "", name))
        return entry.item if entry else None

    def objects(self, resource: str) -> list[Json]:
        """Return all objects of a resource, by namespace and name."""
        return [entry.item for _, entry in sorted(self.store.entries(self.routes.find(resource)).items())]

    def change(self, resource: str, name: str, how: Callable[[Json], Json], namespace: str = "default") -> Json:
        """Write what a function makes of an object."""
        kind = self.routes.find(resource)
        key = (namespace if kind.is_namespaced else "", name)
        return write_over(self.store, kind, key, how(self.store.entries(kind)[key].item)).item

    def delete(self, resource: str, name: str, namespace: str = "default", *, grace_s: int | None = None) -> bool:
        """Delete an object as a user would, or end it at once with a grace of 0; say whether it is gone."""
        kind = self.routes.find(resource)
        key = (namespace if kind.is_namespaced else "", name)
        return delete_object(self.store, kind, key, {"gracePeriodSeconds": grace_s})[1]

    def register(self, kind: Kind) -> None:
        """Serve another resource, as after a custom resource definition."""
        self.routes.add(kind)

    def unregister(self, kind: Kind) -> None:
        """Serve it no more; its objects are gone."""
        self.routes.drop(kind)

    def compact(self, version: int | None = None) -> None:
        """Forget what happened before a version, or before now."""
        self.store.compacted = self.store.version if version is None else version

    @property
    def history(self) -> list[Change]:
        """Return everything that ever happened to objects."""
        return self.store.history

    # For transports.

    def arrive(self, request: Request, user: str, sent: int) -> LogEntry:
        """Write down a request that reached the server."""
        entry = self.note(request, user, sent)
        now = self.clock.now()
        entry.arrived, entry.deadline = now, (entry.deadline or 0) + now - sent
        return entry

    def note(self, request: Request, user: str, sent: int) -> LogEntry:
        """Write down a request, whether it arrives or not."""
        entry = LogEntry(
            number=len(self.log),
            user=user,
            agent=request.user_agent,
            method=request.method,
            path=request.path,
            body=request.body,
            sent=sent,
        )
        entry.deadline = sent + int(self.patience_s(request) * _NANOSECONDS)
        self.log.append(entry)
        return entry

    def patience_s(self, request: Request) -> float:
        """Return how long the server works on a request: what the request says, at most its own limit."""
        _, _, wish = request.path.partition("timeout=")
        try:
            wanted = read_duration(wish.partition("&")[0]) if wish else 0.0
        except Refusal:
            wanted = 0.0
        return min(wanted or _LONGEST_WRITE_S, _LONGEST_WRITE_S)

    def give_up(self, entry: LogEntry) -> Answer:
        """Answer a request whose time is over; it does nothing any more."""
        entry.status = 504
        return self._refused(timed_out())

    def serve(self, entry: LogEntry, request: Request) -> Answer:
        """Do what a request asks and return the answer."""
        before = self.store.version
        try:
            answer = self._dispatch(entry, request)
        except Refusal as refusal:
            answer = self._refused(refusal)
        entry.status = answer.status
        if self.store.version != before:
            entry.committed, entry.version = self.clock.now(), self.store.version
        return answer

    def _refused(self, refusal: Refusal) -> Answer:
        return Answer(refusal.code, refusal.body, refusal.headers)

    def _dispatch(self, entry: LogEntry, request: Request) -> Answer:
        if request.method == "POST":
            review = self.permissions.review(entry.user, request.path, request.body)
            if review is not None:
                return Answer(201, review)
        call = self.routes.read(request.method, request.path, request.body, request.content_type)
        if call is None:
            return answer_other_path(self.routes, request.path, self.git_version)
        entry.call = call
        self.permissions.check(entry.user, call)
        if "timeout" in call.query:
            read_duration(call.query["timeout"])
        if call.is_watch:
            return WatchAnswer(self.store, call, bookmark_s=self.bookmark_s, latency_s=self.latency_s)
        match call.method, bool(call.name), call.part:
            case "GET", True, "" | "status":
                return Answer(200, get_object(self.store, call))
            case "GET", False, _:
                return Answer(200, list_objects(self.store, call))
            case "POST", False, _:
                return self._shown(201, call, create_object(self.store, self.routes, call))
            case "POST", True, "binding" if call.kind.plural == "pods":
                bind_pod(self.store, call)
                return Answer(201, msgspec.json.encode(success(201)))
            case "POST", True, "eviction" if call.kind.plural == "pods":
                evict_pod(self.store, self.routes, call)
                return Answer(201, msgspec.json.encode(success(201)))
            case "PUT", True, "" | "status":
                written, is_new = replace_object(self.store, self.routes, call)
                return self._shown(201 if is_new else 200, call, written)
            case "PATCH", True, "" | "status":
                return self._shown(200, call, patch_object(self.store, call))
            case "DELETE", _, "":
                return self._delete(call)
        raise not_allowed()

    def _shown(self, code: int, call: Call, entry: Entry) -> Answer:
        return Answer(code, typed(call.kind, entry.raw))

    def _delete(self, call: Call) -> Answer:
        options = call.decoded()
        if "gracePeriodSeconds" in call.query:
            options = {**options, "gracePeriodSeconds": int(call.query["gracePeriodSeconds"])}
        if not call.name:
            answer = Answer(200, list_objects(self.store, call))
            for item in msgspec.json.decode(answer.body)["items"]:
                key = (item["metadata"].get("namespace", ""), item["metadata"]["name"])
                delete_object(self.store, call.kind, key, options)
            return answer
        entry, is_gone = delete_object(self.store, call.kind, (call.namespace, call.name), options)
        if not is_gone or call.kind.plural == "pods":
            return self._shown(200, call, entry)
        group = {"group": call.kind.group} if call.kind.group else {}
        details = {"name": call.name, **group, "kind": call.kind.plural, "uid": entry.item["metadata"]["uid"]}
        return Answer(200, msgspec.json.encode(success(200, details)))


def _first_generation(kind: Kind) -> Json:
    return {"generation": 1} if kind.has_generation or kind.is_custom else {}
