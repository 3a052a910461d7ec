"""The pages of a running scheduler and the authorization guard before them.

Every page but the probes is behind the guard and declares the right that it needs. A route without such a declaration
is a 404.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from aiohttp import web

from hostler.config import parse_documents
from hostler.errors import InputError
from hostler.kube.live.via import TOKEN_HEADER
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.service.collector import metrics_text
from hostler.kube.service.health import HealthMonitor
from hostler.kube.service.questions import Questions
from hostler.kube.service.reviews import Attributes, Reviews, of_path, of_pods
from hostler.runtime.clock import NANOSECONDS, Clock
from hostler.runtime.listener import (
    Handler,
    ListenerLimits,
    RequestRejectedError,
    answer_errors,
    as_json,
    mark_busy,
    read_body,
)
from hostler.runtime.metrics import METRICS_TYPE

__all__ = ["SchedulerPages"]

_OPEN_PATHS = frozenset({"/livez", "/readyz", "/healthz"})
_MAX_BODY = 2 * 2**20
_MAX_ROWS = 10_000
_SHOWN = 100

Need = Callable[[web.Request], Attributes]  # the right that a request to a route needs


class SchedulerPages:
    """All pages of one scheduler."""

    def __init__(
        self,
        scheduler: Scheduler,
        questions: Questions,
        health: HealthMonitor,
        clock: Clock,
        *,
        missing_events: Callable[[], int | None] = lambda: None,
        with_shared_metrics: bool = False,
        body_s: float = ListenerLimits().body_s,
    ) -> None:
        self._scheduler = scheduler
        self._questions = questions
        self._health = health
        self._clock = clock
        self._missing_events = missing_events
        self._with_shared_metrics = with_shared_metrics
        self._body_s = body_s

    def app(self, reviews: Reviews) -> web.Application:
        """Return the application with the guard before the pages."""
        one_pod = "{namespace}/{pod}"
        routes: list[tuple[str, str, Handler, Need]] = [
            ("GET", "/metrics", self.metrics, _by_path),
            ("GET", "/debug/state", self.state, _by_path),
            ("GET", f"/v1/explain/{one_pod}", self.explain, _by_namespace),
            ("GET", f"/v1/candidates/{one_pod}", self.candidates, _by_namespace),
            ("GET", "/v1/decisions/{uid}", self.decision, self._by_uid),
            ("GET", "/v1/queue", self.queue, _listing_need),
            ("POST", "/v1/plan", self.plan, _planning_need),
        ]
        guard = Guard(reviews, {path: need for _, path, _, need in routes})
        doors = [mark_busy, answer_errors, guard.middleware]
        app = web.Application(client_max_size=_MAX_BODY, middlewares=doors)  # type: ignore[arg-type]
        for path in sorted(_OPEN_PATHS):
            app.router.add_get(path, self.ready if path == "/readyz" else self.live)
        for method, path, handler, _ in routes:
            app.router.add_route(method, path, handler)
        return app

    async def live(self, request: web.Request) -> web.Response:
        """Answer the liveness probe."""
        why = self._health.why_dead()
        return web.Response(text=why or "ok", status=500 if why else 200)

    async def ready(self, request: web.Request) -> web.Response:
        """Answer the readiness probe; a standby is ready, and says that it is one."""
        why = self._health.why_not_ready()
        return web.Response(text=why or f"ok, {self._health.role()}", status=503 if why else 200)

    async def metrics(self, request: web.Request) -> web.Response:
        """Return all metrics."""
        numbers = await self._questions.numbers()
        text = metrics_text(
            self._scheduler, self._clock, numbers, self._missing_events(), with_shared=self._with_shared_metrics
        )
        return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})

    async def explain(self, request: web.Request) -> web.Response:
        """Explain a pod."""
        return as_json(await self._questions.explain(self._questions.pod(*_pod(request))))

    async def candidates(self, request: web.Request) -> web.Response:
        """List the nodes that would take a pod."""
        return as_json(await self._questions.candidates(self._questions.pod(*_pod(request))))

    async def decision(self, request: web.Request) -> web.Response:
        """Return the last decision about a pod."""
        pod = self._questions.pod_by_uid(request.match_info["uid"])
        if pod is None:
            raise web.HTTPNotFound
        return as_json(await self._questions.decision(pod))

    async def queue(self, request: web.Request) -> web.Response:
        """List the waiting pods."""
        limit = request.query.get("limit", "1000")
        is_number = limit.isascii() and limit.isdecimal() and len(limit) <= len(str(_MAX_ROWS))
        if not is_number or not 0 < int(limit) <= _MAX_ROWS:
            raise InputError(f"limit is {limit[:40]!r}", hint=f"give a number from 1 to {_MAX_ROWS}")
        return as_json(await self._questions.queue(request.query.get("namespace", ""), int(limit)))

    async def plan(self, request: web.Request) -> web.Response:
        """Plan where pods would go."""
        body = await read_body(request, self._body_s)
        read = await asyncio.to_thread(parse_documents, body, "the request")  # megabytes of YAML take seconds
        documents = [document.data for document in read]
        may_evict = request.query.get("preempt", "true") != "false"
        return as_json(await self._questions.plan(documents, request.query.get("namespace", ""), may_evict=may_evict))

    async def state(self, request: web.Request) -> web.Response:
        """Return the work in progress and all differences between our copies."""
        scheduler, now = self._scheduler, self._clock.now()
        differences = await self._questions.disagreements()
        numbers = await self._questions.numbers()
        return as_json(
            {
                "identity": scheduler.identity,
                "role": self._health.role(),
                "synced": scheduler.is_synced,
                "alive": self._health.why_dead() or "yes",
                "facts_waiting": scheduler.loop.inbox,
                "last_turn_s": _ago(scheduler.loop.last_turn_at, now),
                "queues": {
                    name: getattr(numbers, name) for name in ("active", "backoff", "unschedulable", "gathering")
                },
                "binds": {
                    "unfinished": scheduler.binder.backlog,
                    "in_flight": scheduler.binder.in_flight,
                    "window": scheduler.binder.window.size,
                },
                "evictions": scheduler.executors.evictor.backlog,
                "answers_awaited": scheduler.executors.external_answers.backlog,
                "trail": {
                    "unwritten": scheduler.write_queue.backlog,
                    "refused": scheduler.write_queue.counts.refused,
                    "last_refusal": scheduler.write_queue.counts.last_refusal,
                },
                "breaker_open": scheduler.breaker.is_open,
                "views": {
                    f"{one.resource.plural} ({one.resource.api_version})": {
                        "objects": len(one.store),
                        "heard_s": _ago(one.heard_at, now),
                        "relists": one.relists,
                        "failures": one.failures,
                        "absent": one.is_absent,
                        "last_error": one.last_error,
                    }
                    for one in scheduler.reflectors.values()
                },
                "problems": dict(list(scheduler.cluster.problems().items())[:_SHOWN]),
                "disagreements": differences[:_SHOWN],
                "disagreements_total": len(differences),
            }
        )

    def _by_uid(self, request: web.Request) -> Attributes:
        """Need pods in the namespace of the pod; of one that is not known, in all: its absence is news too."""
        pod = self._questions.pod_by_uid(request.match_info["uid"])
        return of_pods("get", pod.namespace if pod is not None else "")


def _ago(at: int, now: int) -> float | None:
    return round((now - at) / NANOSECONDS, 3) if at else None


def _pod(request: web.Request) -> tuple[str, str]:
    return request.match_info["namespace"], request.match_info["pod"]


def _by_path(request: web.Request) -> Attributes:
    return of_path(request.path, request.method.lower())


def _by_namespace(request: web.Request) -> Attributes:
    return of_pods("get", request.match_info["namespace"])


def _listing_need(request: web.Request) -> Attributes:
    return of_pods("list", request.query.get("namespace", ""))


def _planning_need(request: web.Request) -> Attributes:
    """Require the right on all pods: a plan names the victims in other namespaces."""
    return of_pods("list", "")


class Guard:
    """Authorizes requests by the API server: a page needs a valid token and a right that the token's user has.

    The API server's service proxy removes the Authorization header before it passes a request on. The headers that it
    adds (X-Forwarded-…, X-Remote-User) could be forged by any client of our port, so none of them is trusted. Callers
    through the proxy repeat the token in the header ``Hostler-Authorization``, as ``hostler … --via`` does. ``needs``
    gives the required right of each route.
    """

    def __init__(self, reviews: Reviews, needs: Mapping[str, Need]) -> None:
        self._reviews = reviews
        self._needs = needs

    @property
    def middleware(self) -> Callable[[web.Request, Handler], object]:
        """Return the middleware before all pages."""

        @web.middleware
        async def stand(request: web.Request, handler: Handler) -> web.StreamResponse:
            resource = request.match_info.route.resource
            route = resource.canonical if resource is not None else ""
            if route in _OPEN_PATHS:
                return await handler(request)
            token = _token(request)
            if not _is_text(request.path_qs, *request.match_info.values(), *request.query.values()):
                raise RequestRejectedError(400, "the address is not UTF-8")
            user = await self._reviews.user_of(token)
            need = self._needs.get(route)
            if need is None:  # no page, or a page without a declared right
                raise RequestRejectedError(404, f"there is no page {request.path}")
            await self._reviews.check(user, need(request))
            return await handler(request)

        return stand


def _token(request: web.Request) -> str:
    for name in (TOKEN_HEADER, "Authorization"):
        kind, _, token = request.headers.get(name, "").partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token:
            continue
        if not (token.isascii() and token.isprintable()):
            raise RequestRejectedError(
                401, "the token has characters that are not allowed in a token", hint="send it unchanged"
            )
        return token
    raise RequestRejectedError(
        401,
        "the request has no token",
        hint=f"send 'Authorization: Bearer TOKEN', or {TOKEN_HEADER} through the API server's proxy",
    )


def _is_text(*words: str) -> bool:
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        return False
    return True
