"""Routes for API keys, sessions, join tokens and whoami."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from hostler.control.access.errors import UnauthenticatedError
from hostler.control.access.keys import recheck_key
from hostler.control.access.roles import PERMISSIONS
from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.route import Reply, Routes
from hostler.control.api.routes.lists import PageQuery, ProjectQuery
from hostler.control.schemas import (
    Key,
    KeyCreate,
    KeyMade,
    KeyRotate,
    Page,
    Token,
    TokenCreate,
    TokenMade,
    Whoami,
)
from hostler.control.services.callers import Caller
from hostler.control.services.tenancy import keys
from hostler.control.services.times import format_optional_time
from hostler.control.store import Connection

__all__ = ["ROUTES"]

T = TypeVar("T")

ROUTES = Routes("access")
_ONCE = "The secret is shown once, so there is no Idempotency-Key."


@ROUTES.add("GET", "/v1/whoami", "The caller and its permissions", answers={200: Whoami})
async def whoami(call: ApiCall) -> Reply:
    """Say who calls."""
    who = call.principal
    found = Whoami(
        id=who.id,
        name=who.name,
        kind=who.kind,
        role=who.role,
        project=who.project,
        scopes=list(who.scopes),
        permissions=[name for name in PERMISSIONS if who.why_not(name, who.project) is None],
        until=format_optional_time(who.until_ns),
    )
    return Reply(200, found)


async def _note_uses(call: ApiCall) -> None:
    """Write the times of key uses before they are read: a request itself writes nothing."""
    may_look = call.principal.why_not("key.read", call.principal.project) is None
    if may_look and (uses := call.context.authenticator.take_uses()):
        await call.context.database.write(lambda connection: keys.note_uses(connection, uses))


async def _write(call: ApiCall, work: Callable[[Connection, Caller], T]) -> T:
    """Run a work that grants or revokes rights. The caller's key is checked again in the same transaction.

    If it has ended meanwhile, the authenticator forgets it too.
    """

    def checked(connection: Connection) -> T:
        now_ns = call.context.clock()
        principal = recheck_key(connection, call.principal, now_ns)
        return work(connection, msgspec.structs.replace(call.caller, principal=principal, now_ns=now_ns))

    try:
        return await call.write(checked)
    except UnauthenticatedError:
        call.context.authenticator.forget(call.principal.id)
        raise


@ROUTES.add("GET", "/v1/keys", "List API keys", query=ProjectQuery, answers={200: Page[Key]}, permission="key.read")
async def list_keys(call: ApiCall) -> Reply:
    """List API keys."""
    asked = call.ask(ProjectQuery)
    await _note_uses(call)
    found = await call.read(
        lambda connection: keys.list_keys(
            connection, call.caller, project=asked.project, after=asked.after, limit=asked.limit
        )
    )
    return Reply(200, found)


@ROUTES.add(
    "POST",
    "/v1/keys",
    "Create an API key",
    body=KeyCreate,
    answers={201: KeyMade},
    permission="key.create",
    refusals=(404,),
    description=_ONCE,
)
async def create_key(call: ApiCall) -> Reply:
    """Create an API key."""
    asked, random = call.body(KeyCreate), call.context.random
    return Reply(201, await _write(call, lambda connection, by: keys.create_key(connection, asked, by, random)))


@ROUTES.add("GET", "/v1/keys/{id}", "Get an API key", answers={200: Key}, permission="key.read", refusals=(404,))
async def get_key(call: ApiCall) -> Reply:
    """Get an API key, without its secret."""
    await _note_uses(call)
    return Reply(200, await call.read(lambda connection: keys.get_key(connection, call.part("id"), call.caller)))


@ROUTES.add(
    "DELETE", "/v1/keys/{id}", "Revoke an API key", answers={200: Key}, permission="key.revoke", refusals=(404,)
)
async def revoke_key(call: ApiCall) -> Reply:
    """Revoke an API key; every caller may revoke their own."""
    identity = call.part("id")
    found = await _write(call, lambda connection, by: keys.revoke_key(connection, identity, by))
    call.context.authenticator.forget(identity)
    return Reply(200, found)


@ROUTES.add(
    "POST",
    "/v1/keys/{id}/rotate",
    "Rotate an API key",
    body=KeyRotate,
    is_body_needed=False,
    answers={201: KeyMade},
    permission="key.create",
    refusals=(404,),
    description=_ONCE,
)
async def rotate_key(call: ApiCall) -> Reply:
    """Rotate an API key; every caller may rotate their own."""
    asked, identity, random = call.body(KeyRotate), call.part("id"), call.context.random
    found = await _write(call, lambda connection, by: keys.rotate_key(connection, identity, asked, by, random))
    call.context.authenticator.forget(identity)
    return Reply(201, found)


@ROUTES.add(
    "POST",
    "/v1/keys/{id}/confirm",
    "Accept an API key again after a restore",
    answers={200: Key},
    permission="key.confirm",
    refusals=(404,),
    description="Needs a key of all projects. Nothing happens to a key that is accepted already.",
)
async def confirm_key(call: ApiCall) -> Reply:
    """Accept an API key again after a restore."""
    identity = call.part("id")
    found = await _write(call, lambda connection, by: keys.confirm_key(connection, identity, by))
    call.context.authenticator.forget(identity)
    return Reply(200, found)


@ROUTES.add(
    "DELETE",
    "/v1/sessions",
    "End all sessions of the dashboard",
    answers={204: None},
    permission="key.revoke",
    description="Needs a key of all projects. The signing secret is replaced, so copies of cookies end "
    "too; on other replicas within 10 seconds.",
)
async def end_sessions(call: ApiCall) -> Reply:
    """End all sessions of the dashboard; users log in again."""
    random = call.context.random
    call.context.signing = await _write(call, lambda connection, by: keys.end_sessions(connection, by, random))
    return Reply(204)


@ROUTES.add(
    "GET", "/v1/tokens", "List join tokens", query=PageQuery, answers={200: Page[Token]}, permission="token.read"
)
async def list_tokens(call: ApiCall) -> Reply:
    """List join tokens."""
    asked = call.ask(PageQuery)
    found = await call.read(
        lambda connection: keys.list_tokens(connection, call.caller, after=asked.after, limit=asked.limit)
    )
    return Reply(200, found)


@ROUTES.add(
    "POST",
    "/v1/tokens",
    "Create a token with which one host can join",
    body=TokenCreate,
    is_body_needed=False,
    answers={201: TokenMade},
    permission="token.create",
    description=_ONCE,
)
async def create_token(call: ApiCall) -> Reply:
    """Create a join token."""
    asked, random = call.body(TokenCreate), call.context.random
    return Reply(201, await _write(call, lambda connection, by: keys.create_token(connection, asked, by, random)))


@ROUTES.add(
    "GET", "/v1/tokens/{id}", "Get a join token", answers={200: Token}, permission="token.read", refusals=(404,)
)
async def get_token(call: ApiCall) -> Reply:
    """Get a join token, without its secret."""
    return Reply(200, await call.read(lambda connection: keys.get_token(connection, call.part("id"), call.caller)))


@ROUTES.add(
    "DELETE", "/v1/tokens/{id}", "Revoke a join token", answers={200: Token}, permission="token.revoke", refusals=(404,)
)
async def revoke_token(call: ApiCall) -> Reply:
    """Revoke a join token."""
    identity = call.part("id")
    return Reply(200, await _write(call, lambda connection, by: keys.revoke_token(connection, identity, by)))
