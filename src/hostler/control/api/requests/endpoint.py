"""The path from a request to its response: authentication, rate limits, decoding, the handler, errors."""

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
from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.context import ServiceContext
from hostler.control.api.requests.errors import MethodNotAllowedError
from hostler.control.api.requests.problems import internal, problem
from hostler.control.api.requests.rejections import count_rejected_request
from hostler.control.api.requests.request_decoder import decode_body, query_of, raw_body
from hostler.control.api.requests.route import Reply, Route
from hostler.errors import HostlerError, InternalError

__all__ = ["ANONYMOUS", "Endpoint", "answer_error", "credential_of", "remote_of"]

ANONYMOUS = Principal(id="", kind="key")
_JSON = "application/json"
_ENCODER = msgspec.json.Encoder()


class Endpoint:
    """All methods of one path."""

    def __init__(self, context: ServiceContext, routes: Mapping[str, Route]) -> None:
        self._context = context
        self._routes = dict(routes)
        if "GET" in self._routes:
            self._routes.setdefault("HEAD", self._routes["GET"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request without the framework's routing."""
        request = Request(scope, receive, send)
        if scope["method"] in self._routes:
            answer = await self.serve(request)
        else:
            hint = f"allowed methods: {', '.join(sorted(self._routes))}"
            error = MethodNotAllowedError(f"{scope['method']} is not allowed for this path", hint=hint)
            answer = answer_error(self._context, request, error)
            answer.headers["Allow"] = ", ".join(sorted(self._routes))
        await answer(scope, receive, send)

    async def serve(self, request: Request) -> Response:
        """Answer a request; every error becomes a response too."""
        route = self._routes[request.method]
        request.state.route = route
        request_id: str = request.scope.get("hostler_request_id", "")
        try:
            reply = await self._reply(route, request, request_id)
        except ClientDisconnect:
            return Response(status_code=400)  # the client is gone
        except Exception as error:
            return answer_error(self._context, request, error)
        if isinstance(reply, Response):
            return reply
        body = b"" if reply.body is None else _ENCODER.encode(reply.body)
        media = None if reply.body is None else _JSON
        return Response(body, status_code=reply.status, headers=reply.headers, media_type=media)

    async def _reply(self, route: Route, request: Request, request_id: str) -> Reply | Response:
        context, now_ns = self._context, self._context.clock()
        principal = ANONYMOUS
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
        return await route.handler(ApiCall(context, request, principal, request_id, now_ns, asked, query, raw))


async def host_of(context: ServiceContext, request: Request) -> str:
    """Return the id of the host whose agent calls; UnauthenticatedError."""
    return await context.fleet.credentials.host_of(credential_of(request), remote_of(request))


def credential_of(request: Request) -> str:
    """Return the credential of an agent; UnauthenticatedError for another secret, such as an API key."""
    return parse_secret(bearer_of(request.headers.get("authorization", "")), "credential").text


async def authenticate(context: ServiceContext, request: Request, now_ns: int) -> Principal:
    """Return the principal of a request's key or session; UnauthenticatedError, TooManyRequestsError.

    Browsers send the session's cookie by themselves, so a change also needs the CSRF token of its forms.
    """
    header = request.headers.get("authorization", "")
    is_secure = request.scope["scheme"] == "https"
    cookie = request.cookies.get(cookie_name(is_secure=is_secure), "")
    if header or not cookie or not context.signing:
        return await context.authenticator.key(bearer_of(header), remote_of(request), now_ns)
    session, principal = await context.authenticator.session(cookie, context.signing, remote_of(request), now_ns)
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
    """Return the address of the client."""
    return request.client.host if request.client is not None else ""


def answer_error(context: ServiceContext, request: Request, error: Exception) -> Response:
    """Return the response for an error, and log what the client must not see."""
    request_id: str = request.scope.get("hostler_request_id", "")
    path = request.scope["path"]
    if isinstance(error, UnauthenticatedError):
        who = f"{error.why} {error.subject}".strip()
        remote = remote_of(request)
        context.strangers.tell(f"request {request_id}: refused {who} from {remote}", remote)
    if isinstance(error, HostlerError) and not isinstance(error, InternalError):
        count_rejected_request(context, request, error)
        return problem(error, path=path, request_id=request_id, has_match="if-match" in request.headers)
    lines = "".join(traceback.format_exception(error))
    context.tell(redact(f"request {request_id}: {request.method} {path!r} failed\n{lines}"))
    return internal(path=path, request_id=request_id)
