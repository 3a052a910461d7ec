"""The HTTP server that an unmodified kube-scheduler asks: the verbs of ``service``, and probes.

Bodies that cannot be read are answered with 400; whatever else goes wrong is in the answer's ``Error``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random

import msgspec
from aiohttp import web

from hostler.engine import Registry
from hostler.errors import HostlerError, InputError
from hostler.kube.api.client import Client
from hostler.kube.api.clock import Clock
from hostler.kube.api.resources import PODS
from hostler.kube.extender.following import Follower
from hostler.kube.extender.protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderPreemptionArgs,
    read_message,
)
from hostler.kube.extender.service import Service
from hostler.manifests import Pod
from hostler.model import Policy

__all__ = ["make_app", "serve"]

_MAX_BYTES = 512 * 2**20  # 5,000 whole nodes with many images
_BIND_TIMEOUT_S = 4.0
_ASK_AGAIN_S = 1.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(service: Service) -> web.Application:
    """Make the application; verbs are found under any prefix."""

    async def filter_nodes(request: web.Request) -> web.Response:
        return _json(service.filter(read_message(await request.read(), ExtenderArgs)))

    async def prioritize(request: web.Request) -> web.Response:
        return _json(service.prioritize(read_message(await request.read(), ExtenderArgs)))

    async def preempt(request: web.Request) -> web.Response:
        return _json(service.preempt(read_message(await request.read(), ExtenderPreemptionArgs)))

    async def bind(request: web.Request) -> web.Response:
        return _json(await service.bind(read_message(await request.read(), ExtenderBindingArgs)))

    async def live(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(request: web.Request) -> web.Response:
        return web.Response(text="ok") if service.adviser is not None else web.Response(text="not yet", status=503)

    app = web.Application(client_max_size=_MAX_BYTES, middlewares=[_answer_errors])
    for verb, handler in (("filter", filter_nodes), ("prioritize", prioritize), ("preempt", preempt), ("bind", bind)):
        app.router.add_post(f"/{verb}", handler)
        app.router.add_post(f"/{{prefix:.+}}/{verb}", handler)
    for path, probe in (("/livez", live), ("/healthz", live), ("/readyz", ready)):
        app.router.add_get(path, probe)
    return app


async def serve(
    client: Client,
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
    """Follow the cluster and answer until told to stop."""

    async def bind(namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        await client.bind(namespace, name, uid, node, annotations=annotations, timeout_s=_BIND_TIMEOUT_S)

    async def find_pod(namespace: str, name: str) -> Pod:
        return await client.get(PODS, namespace, name)

    service = Service(clock, bind, find_pod, nodes_per_filter=nodes_per_filter)
    follower = Follower(client, service, policy, clock=clock, random=random, registry=registry)
    runner = web.AppRunner(make_app(service), access_log=None, handle_signals=False)
    await runner.setup()
    following = asyncio.ensure_future(follower.run())
    telling = asyncio.ensure_future(_tell(service, follower, say))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        try:
            await web.TCPSite(runner, *listen).start()
        except OSError as error:
            where = f"{listen[0]}:{listen[1]}"
            raise InputError(f"cannot listen on {where}: {error.strerror}", hint="choose another port") from error
        host, port = runner.addresses[0][:2]
        say(f"extender at http://{host}:{port}, verbs: filter, prioritize, bind, preempt")
        await asyncio.wait({stopping, following}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()
    finally:
        for task in (following, telling, stopping):
            task.cancel()
        await asyncio.gather(following, telling, stopping, return_exceptions=True)
        await runner.cleanup()


async def _tell(service: Service, follower: Follower, say: Callable[[str], None]) -> None:
    """Say once when the cluster is known, and meanwhile what keeps it from being known."""
    told: set[str] = set()
    while service.adviser is None:
        for problem in follower.problems():
            if problem not in told:
                told.add(problem)
                say(problem)
        await asyncio.sleep(_ASK_AGAIN_S)
    say(f"the cluster is known: {len(follower.world.hosts)} nodes")


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except HostlerError as error:
        return web.Response(text=error.message, status=400)


def _json(data: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(data), content_type="application/json")
