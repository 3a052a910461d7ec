"""Routes for agents: join, register, report and fetch orders. ``fleet`` does the work."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hostler.agent.messages import (
    JOIN_PATH,
    ORDERS_PATH,
    REGISTER_PATH,
    REPORT_PATH,
    Join,
    Joined,
    Orders,
    Register,
    Registered,
    Report,
    Reported,
)
from hostler.config.entries import means
from hostler.control.access.errors import TooManyRequestsError
from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.endpoint import credential_of, remote_of
from hostler.control.api.requests.route import Reply, Routes
from hostler.control.api.routes.lists import Query

__all__ = ["ROUTES"]

ROUTES = Routes("agents")
_REFUSALS = (401, 403, 409, 410, 422, 426)


class OrdersQuery(Query, frozen=True):
    """The version that the agent has, and how long to wait for a newer one."""

    from_version: Annotated[int, Meta(ge=0, le=2**63 - 1), means("The version that the agent knows; 0: none.")] = (
        msgspec.field(default=0, name="from")
    )
    epoch: Annotated[int, Meta(ge=0, le=2**63 - 1), means("That of the agent's registration; 0: protocol 1.")] = 0
    wait_s: Annotated[float, Meta(ge=0, le=600), means("How long to wait for a newer one; at most 60 s are.")] = 0.0


def _limited_credential(call: ApiCall, what: str, *, is_change: bool = False) -> str:
    """Return the credential of a host within its rate limits; TooManyRequestsError.

    Reports are written to the database, and one host must not fill it. A host may register as often as a key may write,
    and report and fetch orders as often as a key may read: a correct agent stays far below.
    """
    context, host = call.context, call.request.scope["hostler_host"]
    wait_s = context.limiter.take(f"{what} of {host}", context.clock(), is_change=is_change)
    if wait_s:
        raise TooManyRequestsError(f"more {what} than one host may send", retry_after_s=wait_s)
    return credential_of(call.request)


@ROUTES.add("POST", JOIN_PATH, "Join with a token", body=Join, answers={200: Joined}, door="none", refusals=_REFUSALS)
async def join(call: ApiCall) -> Reply:
    """Exchange a token for a credential."""
    return Reply(200, await call.context.fleet.join(call.body(Join), remote_of(call.request)))


@ROUTES.add(
    "POST",
    REGISTER_PATH,
    "Register a host with all that it has",
    body=Register,
    answers={200: Registered},
    door="agent",
    refusals=_REFUSALS,
)
async def register(call: ApiCall) -> Reply:
    """Register a host."""
    fleet = call.context.fleet
    credential = _limited_credential(call, "registrations", is_change=True)
    return Reply(200, await fleet.register(credential, call.body(Register), remote_of(call.request)))


@ROUTES.add(
    "POST",
    REPORT_PATH,
    "Report what changed; nothing is a heartbeat",
    body=Report,
    answers={200: Reported},
    door="agent",
    refusals=_REFUSALS,
)
async def report(call: ApiCall) -> Reply:
    """Apply a report."""
    fleet = call.context.fleet
    credential = _limited_credential(call, "reports")
    return Reply(200, await fleet.report(credential, call.body(Report), remote_of(call.request)))


@ROUTES.add(
    "GET",
    ORDERS_PATH,
    "Ask for orders, and wait for new ones",
    query=OrdersQuery,
    answers={200: Orders, 204: None},
    door="agent",
    refusals=_REFUSALS,
)
async def orders(call: ApiCall) -> Reply:
    """Return the orders of a host."""
    asked, fleet = call.ask(OrdersQuery), call.context.fleet
    found = await fleet.orders(
        _limited_credential(call, "polls"), asked.from_version, asked.wait_s, remote_of(call.request), epoch=asked.epoch
    )
    return Reply(204) if found is None else Reply(200, found)
