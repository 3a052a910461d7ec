"""An API server in memory: the same paths, JSON, versions, watches and errors as the real one.

Clients send through ``ApiServer.transport``; the other methods let tests read and change objects directly. The same
contract (``tests.kube.memory.contract``) runs on this server and on the real one.

``Permissions`` says who may do what, and answers access reviews. ``ApiTransport`` carries requests to the server and
models the network latency.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from hostler.kube.memory.answers import MemoryAnswer, WatchAnswer
from hostler.kube.memory.calls import LogEntry, ParsedCall, ResourceRoutes, read_duration
from hostler.kube.memory.discovery import answer_other_path, follow_definitions
from hostler.kube.memory.error_answers import ErrorAnswer, forbidden, not_allowed, success, timed_out
from hostler.kube.memory.kinds import BUILT_IN, ServedKind
from hostler.kube.memory.store import ObjectStore, StoredChange, StoredObject
from hostler.kube.memory.verbs.admission import admit, fill_in
from hostler.kube.memory.verbs.pods import bind_pod, evict_pod
from hostler.kube.memory.verbs.reads import get_object, list_objects, with_type
from hostler.kube.memory.verbs.writes import create_object, delete_object, patch_object, replace_object, write_over
from hostler.kube.memory.virtual_time import SimClock
from hostler.runtime.clock import Clock
from hostler.runtime.transport import Request, TransportError

__all__ = ["ApiServer", "ApiTransport", "HeldRequest"]

Json = dict[str, Any]

_SPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_LONGEST_WRITE_S = 34.0
_NANOSECONDS = 1_000_000_000
_INSTANT_S = 1e-6  # a minimal processing time


class ApiServer:
    """Stores objects, serves requests and logs all of them. ``without`` names API groups that it does not have."""

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
        self.store = ObjectStore(self.clock)
        self.routes = ResourceRoutes(kind for kind in BUILT_IN if kind.api_version not in without)
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

    # For tests: direct reads and writes, past permissions, preconditions and the log.

    def transport(self, user: str = "hostler") -> ApiTransport:
        """Return a transport that sends requests as a user."""
        return ApiTransport(self, user)

    def put(self, item: Json) -> Json:
        """Create or replace an object with its status, and return it; its kind selects the resource."""
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
        """Write the result of a function applied to an object."""
        kind = self.routes.find(resource)
        key = (namespace if kind.is_namespaced else "", name)
        return write_over(self.store, kind, key, how(self.store.entries(kind)[key].item)).item

    def delete(self, resource: str, name: str, namespace: str = "default", *, grace_s: int | None = None) -> bool:
        """Delete an object as a user would, or at once with a grace of 0; return whether it is gone."""
        kind = self.routes.find(resource)
        key = (namespace if kind.is_namespaced else "", name)
        return delete_object(self.store, kind, key, {"gracePeriodSeconds": grace_s})[1]

    def register(self, kind: ServedKind) -> None:
        """Serve another resource, as after a custom resource definition."""
        self.routes.add(kind)

    def unregister(self, kind: ServedKind) -> None:
        """Stop serving a resource; its objects are gone."""
        self.routes.drop(kind)

    def compact(self, version: int | None = None) -> None:
        """Forget the history before a version, or before now."""
        self.store.compacted = self.store.version if version is None else version

    @property
    def history(self) -> list[StoredChange]:
        """Return every change of every object."""
        return self.store.history

    # For transports.

    def arrive(self, request: Request, user: str, sent: int) -> LogEntry:
        """Log a request that reached the server."""
        entry = self.note(request, user, sent)
        now = self.clock.now()
        entry.arrived, entry.deadline = now, (entry.deadline or 0) + now - sent
        return entry

    def note(self, request: Request, user: str, sent: int) -> LogEntry:
        """Log a request, whether it arrives or not."""
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
        """Return how long the server works on a request: the request's limit, at most its own."""
        _, _, wish = request.path.partition("timeout=")
        try:
            wanted = read_duration(wish.partition("&")[0]) if wish else 0.0
        except ErrorAnswer:
            wanted = 0.0
        return min(wanted or _LONGEST_WRITE_S, _LONGEST_WRITE_S)

    def give_up(self, entry: LogEntry) -> MemoryAnswer:
        """Answer a request whose time is over; it has no effect any more."""
        entry.status = 504
        return self._answer_error(timed_out())

    def serve(self, entry: LogEntry, request: Request) -> MemoryAnswer:
        """Execute a request and return the response."""
        before = self.store.version
        try:
            answer = self._dispatch(entry, request)
        except ErrorAnswer as refusal:
            answer = self._answer_error(refusal)
        entry.status = answer.status
        if self.store.version != before:
            entry.committed, entry.version = self.clock.now(), self.store.version
        return answer

    def _answer_error(self, refusal: ErrorAnswer) -> MemoryAnswer:
        return MemoryAnswer(refusal.code, refusal.body, refusal.headers)

    def _dispatch(self, entry: LogEntry, request: Request) -> MemoryAnswer:
        if request.method == "POST":
            review = self.permissions.review(entry.user, request.path, request.body)
            if review is not None:
                return MemoryAnswer(201, review)
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
                return MemoryAnswer(200, get_object(self.store, call))
            case "GET", False, _:
                return MemoryAnswer(200, list_objects(self.store, call))
            case "POST", False, _:
                return self._answer_object(201, call, create_object(self.store, self.routes, call))
            case "POST", True, "binding" if call.kind.plural == "pods":
                bind_pod(self.store, call)
                return MemoryAnswer(201, msgspec.json.encode(success(201)))
            case "POST", True, "eviction" if call.kind.plural == "pods":
                evict_pod(self.store, self.routes, call)
                return MemoryAnswer(201, msgspec.json.encode(success(201)))
            case "PUT", True, "" | "status":
                written, is_new = replace_object(self.store, self.routes, call)
                return self._answer_object(201 if is_new else 200, call, written)
            case "PATCH", True, "" | "status":
                return self._answer_object(200, call, patch_object(self.store, call))
            case "DELETE", _, "":
                return self._delete(call)
        raise not_allowed()

    def _answer_object(self, code: int, call: ParsedCall, entry: StoredObject) -> MemoryAnswer:
        return MemoryAnswer(code, with_type(call.kind, entry.raw))

    def _delete(self, call: ParsedCall) -> MemoryAnswer:
        options = call.decoded()
        if "gracePeriodSeconds" in call.query:
            options = {**options, "gracePeriodSeconds": int(call.query["gracePeriodSeconds"])}
        if not call.name:
            answer = MemoryAnswer(200, list_objects(self.store, call))
            for item in msgspec.json.decode(answer.body)["items"]:
                key = (item["metadata"].get("namespace", ""), item["metadata"]["name"])
                delete_object(self.store, call.kind, key, options)
            return answer
        entry, is_gone = delete_object(self.store, call.kind, (call.namespace, call.name), options)
        if not is_gone or call.kind.plural == "pods":
            return self._answer_object(200, call, entry)
        group = {"group": call.kind.group} if call.kind.group else {}
        details = {"name": call.name, **group, "kind": call.kind.plural, "uid": entry.item["metadata"]["uid"]}
        return MemoryAnswer(200, msgspec.json.encode(success(200, details)))


def _first_generation(kind: ServedKind) -> Json:
    return {"generation": 1} if kind.has_generation or kind.is_custom else {}


class Permissions:
    """Everything is allowed except what is denied. A star stands for any user, verb or resource."""

    def __init__(self) -> None:
        self.denied: set[tuple[str, str, str]] = set()  # user, verb, resource such as pods or pods/binding
        self.tokens: dict[str, Json] = {}  # the result of a TokenReview: username, uid, groups

    def allows(self, user: str, verb: str, resource: str) -> bool:
        """Return whether a user may use a verb on a resource."""
        return not any(
            known_user in (user, "*") and known_verb in (verb, "*") and known_resource in (resource, "*")
            for known_user, known_verb, known_resource in self.denied
        )

    def check(self, user: str, call: ParsedCall) -> None:
        """Reject a denied call in the words of the real server."""
        if not self.denied or self.allows(user, call.verb, call.resource):
            return
        place = f'in the namespace "{call.namespace}"' if call.namespace else "at the cluster scope"
        raise forbidden(
            call.kind,
            call.name,
            f'User "{user}" cannot {call.verb} resource "{call.resource}" in API group "{call.kind.group}" {place}',
        )

    def review(self, user: str, path: str, body: bytes) -> bytes | None:
        """Answer a review; None if the path is not a review."""
        question = path.partition("?")[0].rpartition("/")[2]
        if question not in ("tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"):
            return None
        asked = msgspec.json.decode(body)
        spec = asked.get("spec") or {}
        if question == "tokenreviews":
            status = self._who(spec.get("token", ""))
        else:
            rule = spec.get("resourceAttributes") or spec.get("nonResourceAttributes") or {}
            resource = "/".join(word for word in (rule.get("resource"), rule.get("subresource")) if word)
            subject = spec.get("user", "") if question == "subjectaccessreviews" else user
            status = {"allowed": self.allows(subject, rule.get("verb", ""), resource or rule.get("path", ""))}
        return msgspec.json.encode(asked | {"metadata": {}, "status": status})

    def _who(self, token: str) -> Json:
        if token in self.tokens:
            return {"authenticated": True, "user": self.tokens[token]}
        return {"user": {}, "error": "invalid bearer token"}


class HeldRequest(Request, frozen=True, kw_only=True):
    """A request that the server delays before it acts, as under load; its own time limit still counts."""

    held_s: float


def hold_request(request: Request, seconds: float) -> HeldRequest:
    """Return the request with a delay in the server."""
    fields = {name: getattr(request, name) for name in Request.__struct_fields__}
    return HeldRequest(**fields, held_s=seconds)


class ApiTransport:
    """A user's transport to the server. Each direction takes the server's latency."""

    def __init__(self, server: ApiServer, user: str) -> None:
        self.server = server
        self.user = user
        self._is_closed = False

    async def send(self, request: Request) -> MemoryAnswer:
        """Carry a request to the server and the response back."""
        if self._is_closed:
            raise TransportError("the connection is closed", may_have_acted=False)
        server = self.server
        sent = server.clock.now()
        await asyncio.sleep(server.latency_s)
        entry = server.arrive(request, self.user, sent)
        if isinstance(request, HeldRequest):
            answer = await self._run_held(entry, request)
        elif server.patience_s(request) < _INSTANT_S:
            answer = server.give_up(entry)
        else:
            answer = server.serve(entry, request)
        answer.entry = entry
        await asyncio.sleep(server.latency_s)
        entry.told, entry.told_at = answer.status, server.clock.now()
        return answer

    async def _run_held(self, entry: LogEntry, request: HeldRequest) -> MemoryAnswer:
        """Wait for the server; a sender that gives up does not stop it."""
        work = asyncio.get_running_loop().create_task(self._work(entry, request), name=f"held request {entry.number}")
        try:
            async with asyncio.timeout(request.timeout_s):
                return await asyncio.shield(work)
        except TimeoutError as error:
            raise TransportError(
                f"no answer to {request.method} {request.path} within {request.timeout_s:g} s", may_have_acted=True
            ) from error

    async def _work(self, entry: LogEntry, request: HeldRequest) -> MemoryAnswer:
        patience_s = self.server.patience_s(request)
        await asyncio.sleep(min(request.held_s, patience_s))
        if request.held_s >= patience_s:
            return self.server.give_up(entry)
        return self.server.serve(entry, request)

    def lose(self, request: Request, *, sender_learns: bool) -> LogEntry:
        """Log a request that never arrives; ``sender_learns``: its sender gets an error."""
        now = self.server.clock.now()
        entry = self.server.note(request, self.user, now)
        if sender_learns:
            entry.told, entry.told_at = 0, now
        return entry

    async def close(self) -> None:
        """Accept no more requests."""
        self._is_closed = True
