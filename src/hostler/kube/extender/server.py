"""The HTTP server that an unmodified kube-scheduler calls: the verbs of ``service``, and probes.

Connections have the limits of ``runtime.listener``. Unreadable bodies get a 400; any other failure is in the answer's
``Error``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from random import Random

import msgspec
from aiohttp import web

from hostler.engine import Registry
from hostler.errors import HostlerError, InputError
from hostler.kube.api.client import KubeClient
from hostler.kube.api.resources import PODS
from hostler.kube.extender.cluster_follower import ClusterFollower
from hostler.kube.extender.protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderPreemptionArgs,
    read_message,
)
from hostler.kube.extender.service import ExtenderService
from hostler.manifests import Pod
from hostler.model import Policy
from hostler.model.vocabulary import plural
from hostler.runtime.clock import Clock
from hostler.runtime.listener import (
    Handler,
    ListenerLimits,
    RequestRejectedError,
    mark_busy,
    read_body,
    serve_application,
)
from hostler.runtime.tasks import end_tasks

__all__ = ["make_app", "serve"]

_MAX_BYTES = 512 * 2**20  # 5,000 whole nodes with many images
_BIND_TIMEOUT_S = 4.0
_ASK_AGAIN_S = 1.0
_SHUTDOWN_S = 60.0  # responses in progress are finished: kube-scheduler waits for them while it schedules a pod
# kube-scheduler keeps connections and calls again with the next pod; whole nodes take a while to send
_LIMITS = ListenerLimits(head_s=75.0, body_s=60.0)


def make_app(service: ExtenderService) -> web.Application:
    """Make the application; verbs are found under any prefix."""

    async def filter_nodes(request: web.Request) -> web.Response:
        return _json(service.filter(read_message(await read_body(request, _LIMITS.body_s), ExtenderArgs)))

    async def prioritize(request: web.Request) -> web.Response:
        return _json(service.prioritize(read_message(await read_body(request, _LIMITS.body_s), ExtenderArgs)))

    async def preempt(request: web.Request) -> web.Response:
        return _json(service.preempt(read_message(await read_body(request, _LIMITS.body_s), ExtenderPreemptionArgs)))

    async def bind(request: web.Request) -> web.Response:
        return _json(await service.bind(read_message(await read_body(request, _LIMITS.body_s), ExtenderBindingArgs)))

    async def live(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(request: web.Request) -> web.Response:
        return web.Response(text="ok") if service.adviser is not None else web.Response(text="not yet", status=503)

    app = web.Application(client_max_size=_MAX_BYTES, middlewares=[mark_busy, _answer_errors])
    for verb, handler in (("filter", filter_nodes), ("prioritize", prioritize), ("preempt", preempt), ("bind", bind)):
        app.router.add_post(f"/{verb}", handler)
        app.router.add_post(f"/{{prefix:.+}}/{verb}", handler)
    for path, probe in (("/livez", live), ("/healthz", live), ("/readyz", ready)):
        app.router.add_get(path, probe)
    return app


async def serve(
    client: KubeClient,
    policy: Policy,
    listen: tuple[str, int],
    stop: asyncio.Event,
    *,
    clock: Clock,
    random: Random,
    say: Callable[[str], None],
    registry: Registry | None = None,
    nodes_per_filter: int = 1,
) -> None:
    """Follow the cluster and answer until stopped."""

    async def bind(namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        await client.bind(namespace, name, uid, node, annotations=annotations, timeout_s=_BIND_TIMEOUT_S)

    async def find_pod(namespace: str, name: str) -> Pod:
        return await client.get(PODS, namespace, name)

    service = ExtenderService(clock, bind, find_pod, nodes_per_filter=nodes_per_filter)
    follower = ClusterFollower(client, service, policy, clock=clock, random=random, registry=registry)
    following = asyncio.ensure_future(follower.run())
    telling = asyncio.ensure_future(_log_progress(service, follower, say))
    stopping = asyncio.ensure_future(stop.wait())
    async with AsyncExitStack() as opened:
        opened.push_async_callback(end_tasks, (following, telling, stopping))
        try:
            host, port = await opened.enter_async_context(
                serve_application(make_app(service), listen, _LIMITS, shutdown_s=_SHUTDOWN_S)
            )
        except OSError as error:
            where = f"{listen[0]}:{listen[1]}"
            raise InputError(f"cannot listen on {where}: {error.strerror}", hint="choose another port") from error
        say(f"extender at http://{host}:{port}, verbs: filter, prioritize, bind, preempt")
        await asyncio.wait({stopping, following}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()


async def _log_progress(service: ExtenderService, follower: ClusterFollower, say: Callable[[str], None]) -> None:
    """Log once when the cluster is synced, and until then what prevents it."""
    told: set[str] = set()
    while service.adviser is None:
        for problem in follower.problems():
            if problem not in told:
                told.add(problem)
                say(problem)
        await asyncio.sleep(_ASK_AGAIN_S)
    say(f"synced: {plural(len(follower.cluster.hosts), 'node')}")


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except RequestRejectedError as error:
        return web.Response(text=error.message, status=error.status)
    except HostlerError as error:
        return web.Response(text=error.message, status=400)


def _json(data: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(data), content_type="application/json")
