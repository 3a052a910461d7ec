"""From a request to its answer: who calls, how often, what it says, the handler, and what errors become."""

from __future__ import annotations

import traceback
from collections.abc import Mapping

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hostler.control.access.errors import UnauthenticatedError
from hostler.control.access.principals import Principal
from hostler.control.access.secrets import bearer_of, parse_secret, redact
from hostler.control.access.sessions import check_request, cookie_name
from hostler.control.api.calls import Call
from hostler.control.api.context import Context
from hostler.control.api.errors import MethodNotAllowedError
from hostler.control.api.problems import internal, problem
from hostler.control.api.reading import decode_body, query_of, raw_body
from hostler.control.api.refusals import note_refusal
from hostler.control.api.routes import Reply, Route
from hostler.errors import HostlerError, InternalError

__all__ = ["NOBODY", "Endpoint", "credential_of", "failed", "remote_of"]

NOBODY = Principal(id="", kind="key")
_JSON = "application/json"
_ENCODER = msgspec.json.Encoder()


class Endpoint:
    """All methods of one path."""

    def __init__(self, context: Context, routes: Mapping[str, Route]) -> None:
        self._context = context
        self._routes = dict(routes)
        if "GET" in self._routes:
            self._routes.setdefault("HEAD", self._routes["GET"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request without a framework around."""
        request = Request(scope, receive, send)
        if scope["method"] in self._routes:
            answer = await self.serve(request)
        else:
            hint = f"this path knows {', '.join(sorted(self._routes))}"
            error = MethodNotAllowedError(f"{scope['method']} is not for this path", hint=hint)
            answer = failed(self._context, request, error)
            answer.headers["Allow"] = ", ".join(sorted(self._routes))
        await answer(scope, receive, send)

    async def serve(self, request: Request) -> Response:
        """Answer a request; every error becomes an answer too."""
        route = self._routes[request.method]
        request.state.route = route
        request_id: str = request.scope.get("hostler_request_id", "")
        try:
            reply = await self._reply(route, request, request_id)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception as error:
            return failed(self._context, request, error)
        if isinstance(reply, Response):
            return reply
        body = b"" if reply.body is None else _ENCODER.encode(reply.body)
        media = None if reply.body is None else _JSON
        return Response(body, status_code=reply.status, headers=reply.headers, media_type=media)

    async def _reply(self, route: Route, request: Request, request_id: str) -> Reply | Response:
        context, now_ns = self._context, self._context.clock()
        principal = NOBODY
        if route.door == "key":
            principal = await authenticate(context, request, now_ns)
            request.scope["hostler_actor"] = principal.actor
            context.limiter.check(principal.id, now_ns, is_change=route.is_change, project=principal.project)
        elif route.door == "agent":  # before a byte of what it says is read
            request.scope["hostler_host"] = await host_of(context, request)
        query = query_of(request.query_params, route.query)
        asked, raw = None, b""
        if route.body is not None:
            raw = await raw_body(request, wait_s=context.settings.read_s)
            now_ns = context.clock()
            if route.door == "key":  # the key may have been revoked while a slow body arrived
                principal = await authenticate(context, request, now_ns)
                if route.is_change:
                    # Before it is decoded: a body that is rejected has cost as much as a good one.
                    context.limiter.check_size(principal.project, len(raw), now_ns)
            asked = decode_body(request, raw, route.body, is_needed=route.is_body_needed)
        return await route.handler(Call(context, request, principal, request_id, now_ns, asked, query, raw))


async def host_of(context: Context, request: Request) -> str:
    """Return the id of the host whose agent calls; UnauthenticatedError for a credential that is none."""
    return await context.fleet.roll.host_of(credential_of(request), remote_of(request))


def credential_of(request: Request) -> str:
    """Return the credential of an agent; UnauthenticatedError for what is none, such as an API key."""
    return parse_secret(bearer_of(request.headers.get("authorization", "")), "credential").text


async def authenticate(context: Context, request: Request, now_ns: int) -> Principal:
    """Return whose key, or whose session, a request carries; UnauthenticatedError, TooManyRequestsError.

    A session acts by its cookie, which browsers send by themselves: changes need the token of its forms too.
    """
    header = request.headers.get("authorization", "")
    is_secure = request.scope["scheme"] == "https"
    cookie = request.cookies.get(cookie_name(is_secure=is_secure), "")
    if header or not cookie or not context.signing:
        return await context.doorkeeper.key(bearer_of(header), remote_of(request), now_ns)
    session, principal = await context.doorkeeper.session(cookie, context.signing, remote_of(request), now_ns)
    request.scope["hostler_actor"] = principal.actor  # known also where what it sends is not from a page of ours
    check_request(
        session,
        context.signing,
        method=request.method,
        host=request.headers.get("host", ""),
        origin=request.headers.get("origin", ""),
        referer=request.headers.get("referer", ""),
        token=request.headers.get("x-csrf-token", ""),
        is_secure=is_secure,
    )
    return principal


def remote_of(request: Request) -> str:
    """Return the address of whoever calls."""
    return request.client.host if request.client is not None else ""


def failed(context: Context, request: Request, error: Exception) -> Response:
    """Return what an error becomes, and write down what the caller is not told."""
    request_id: str = request.scope.get("hostler_request_id", "")
    path = request.scope["path"]
    if isinstance(error, UnauthenticatedError):
        who = f"{error.why} {error.subject}".strip()
        remote = remote_of(request)
        context.strangers.tell(f"request {request_id}: refused {who} from {remote}", remote)
    if isinstance(error, HostlerError) and not isinstance(error, InternalError):
        note_refusal(context, request, error)
        return problem(error, path=path, request_id=request_id, has_match="if-match" in request.headers)
    lines = "".join(traceback.format_exception(error))
    context.tell(redact(f"request {request_id}: {request.method} {path!r} failed\n{lines}"))
    return internal(path=path, request_id=request_id)
