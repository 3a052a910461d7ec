"""The handling of page requests: the visitor's session and permissions, and answers rendered from templates.

Styles and scripts are served from memory under names that change with their content, so browsers cache them. A
rejection has the same text as in REST, because pages show it beside the fields of a form.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from hostler.control.access import Principal
from hostler.control.access.errors import UnauthenticatedError
from hostler.control.access.sessions import (
    SAFE_METHODS,
    DashboardSession,
    check_request,
    cookie_name,
    csrf_token,
    signing_secret,
)
from hostler.control.api.requests.context import ServiceContext
from hostler.control.api.requests.endpoint import remote_of
from hostler.control.api.requests.problems import TITLES, problem, retry_headers, status_of
from hostler.control.api.requests.rejections import count_rejection
from hostler.control.schemas import Problem
from hostler.control.services.callers import Caller
from hostler.control.store import Connection
from hostler.errors import HostlerError
from hostler.web.jinja_environment import make_environment
from hostler.web.menu import menu_for
from hostler.web.request_forms import DONE, HEADERS, read_form, wants_json

__all__ = ["Assets", "Page", "PageHandler", "PageRequest", "problem_of"]

_STATIC = Path(__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"
_SHORT = "no-cache"


class Assets:
    """All files that pages refer to."""

    def __init__(self, folder: Path = _STATIC) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        for path in sorted(folder.rglob("*")):
            kind = _TYPES.get(path.suffix)
            if kind is not None:
                content = path.read_bytes()
                name = path.relative_to(folder).as_posix()
                self._files[name] = (content, kind, hashlib.sha256(content).hexdigest()[:12])

    def url(self, name: str) -> str:
        """Return the address of a file; a name that is none is a mistake in a template."""
        return f"/static/{name}?v={self._files[name][2]}"

    async def serve(self, request: Request) -> Response:
        """Answer with a file."""
        found = self._files.get(request.path_params["name"])
        if found is None:
            return Response("there is no such file\n", status_code=404, media_type="text/plain")
        content, kind, mark = found
        keep = _FOR_EVER if request.query_params.get("v") == mark else _SHORT
        headers = {"Cache-Control": keep, "ETag": f'"{mark}"', "X-Content-Type-Options": "nosniff"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=kind)


T = TypeVar("T")
Page = Callable[["PageRequest"], Awaitable[Response]]
_FOR_PROGRAMS = "pages are for those who log in; a program with a key asks what is below /v1, as /docs lists it"


@dataclass(kw_only=True)
class PageRequest:
    """One request by a visitor who is logged in."""

    desk: PageHandler
    request: Request
    session: DashboardSession
    principal: Principal
    token: str
    now_ns: int

    @property
    def context(self) -> ServiceContext:
        """Return what the service works with."""
        return self.desk.context

    @property
    def caller(self) -> Caller:
        """Return the visitor as services know him."""
        return Caller(
            principal=self.principal,
            now_ns=self.now_ns,
            request_id=self.request.scope.get("hostler_request_id", ""),
            strategies=self.context.books.strategies,
        )

    def note_refused(self, error: HostlerError) -> None:
        """Count what the visitor was refused, and gather it for the audit if it was a change."""
        method, path = self.request.method, getattr(self.request.scope.get("route"), "path", self.request.url.path)
        what = f"{method} {path}" if method not in SAFE_METHODS else ""
        caller = self.caller
        count_rejection(
            self.context, error, door="session", actor=caller.actor, what=what, request_id=caller.request_id
        )

    @property
    def here(self) -> str:
        """Return the address of this page."""
        url = self.request.url
        return url.path + (f"?{url.query}" if url.query else "")

    def may(self, permission: str, project: str = "") -> bool:
        """Say whether the visitor may do something."""
        return self.principal.why_not(permission, project) is None

    def heard(self, host: str) -> int | None:
        """Return when this replica heard a host last."""
        fleet = self.context.fleet
        heard_ns = fleet.presence.heard_at(host)
        return None if heard_ns is None else self.now_ns - (fleet.steady() - heard_ns)

    def query(self, name: str, default: str = "") -> str:
        """Return a value of the address."""
        return self.request.query_params.get(name, default).strip()

    def part(self, name: str) -> str:
        """Return a part of the path."""
        found: str = self.request.path_params[name]
        return found

    async def form(self) -> Mapping[str, str]:
        """Return the fields of a form that a page of this session sent; ForgedRequestError."""
        fields = await read_form(self.request)
        await self.desk.check_session(self)  # a key may have been revoked while the form was being sent
        headers = self.request.headers
        check_request(
            self.session,
            await self.desk.secret(),
            method=self.request.method,
            host=headers.get("host", ""),
            origin=headers.get("origin", ""),
            referer=headers.get("referer", ""),
            token=fields.get("token", ""),
            is_secure=self.desk.is_secure(self.request),
        )
        return fields

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Read from the database."""
        return await self.context.database.read(work)

    async def write(self, work: Callable[[Connection, Caller], T]) -> T:
        """Let a service change something, as the visitor."""
        caller = self.caller
        return await self.context.database.write(lambda connection: work(connection, caller))

    async def render(
        self,
        template: str,
        *,
        title: str,
        twin: str,
        more_twins: Sequence[str] = (),
        status: int = 200,
        live: str = "",
        done: str | None = None,
        **values: object,
    ) -> Response:
        """Answer with a page. ``twin`` is where REST tells the same, ``live`` the stream that says when it is old.

        What one address of REST does not tell is at ``more_twins``. ``done`` is the message about the last action,
        empty if it is no longer true; None takes the message that the address names.
        """
        return await self.desk.render(
            template,
            status=status,
            title=title,
            twin=twin,
            more_twins=more_twins,
            visit=self,
            menu=menu_for(self.principal, self.request.url.path),
            now_ns=self.now_ns,
            live=live,
            done=DONE.get(self.query("done"), "") if done is None else done,
            **values,
        )

    def go(self, path: str) -> Response:
        """Send the browser to a page, after something was done."""
        return RedirectResponse(path, status_code=303, headers=HEADERS)


class PageHandler:
    """Makes visits of requests, and answers of what pages return or raise."""

    def __init__(self, context: ServiceContext) -> None:
        self.context = context
        self.assets = Assets()
        self._templates = make_environment(self.assets.url)

    async def secret(self) -> bytes:
        """Return the secret that signs sessions. It is read now unless the service was started with it."""
        if not self.context.signing:
            now_ns, random = self.context.clock(), self.context.random
            self.context.signing = await self.context.database.write(lambda one: signing_secret(one, now_ns, random))
        return self.context.signing

    def is_secure(self, request: Request) -> bool:
        """Say whether the browser reaches us by TLS."""
        return request.url.scheme == "https"

    async def render(self, template: str, *, status: int = 200, **values: object) -> Response:
        """Answer with a template. A thousand hosts take a while: others are served meanwhile."""
        found = self._templates.get_template(template)
        return HTMLResponse(await asyncio.to_thread(found.render, values), status, HEADERS)

    def page(
        self, show: Page, twin: Callable[[Request], str] | None = None, *, verb: str = ""
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a route that needs a login. Who asks for JSON is sent to the ``twin`` in REST, if there is one."""

        async def route(request: Request) -> Response:
            if verb:
                request.path_params["verb"] = verb
            elsewhere = twin(request) if twin is not None and wants_json(request) else ""
            if elsewhere:
                return RedirectResponse(elsewhere, status_code=307, headers=HEADERS)
            try:
                visit = await self._visit(request)
            except HostlerError as error:
                return await self._turn_away(request, error)
            try:
                is_change = request.method not in SAFE_METHODS
                self.context.limiter.check(
                    visit.principal.id, visit.now_ns, is_change=is_change, project=visit.principal.project
                )
                return await show(visit)
            except HostlerError as error:
                return await self.refuse(visit, error)

        return route

    async def refuse(self, visit: PageRequest, error: HostlerError) -> Response:
        """Answer with what went wrong, and what to do about it."""
        visit.note_refused(error)
        status = status_of(error)
        response = await visit.render("refusal.html", title=_title(status), twin="", status=status, error=error)
        response.headers.update(retry_headers(error))
        return response

    async def _turn_away(self, request: Request, error: HostlerError) -> Response:
        """Answer a request without a valid session: a browser logs in or reads the problem, a program gets JSON."""
        is_stranger = isinstance(error, UnauthenticatedError)
        if is_stranger and not wants_json(request):
            return self._to_login(request)
        request_id = request.scope.get("hostler_request_id", "")
        count_rejection(self.context, error, door="session", actor="", what="", request_id=request_id)
        if wants_json(request):
            told = UnauthenticatedError("missing", hint=_FOR_PROGRAMS) if is_stranger else error
            response = problem(told, path=request.url.path, request_id=request_id)
            response.headers.update(HEADERS)
            return response
        status = status_of(error)
        response = await self.render("outside.html", status=status, title=_title(status), error=error)
        response.headers.update(retry_headers(error))
        return response

    async def check_session(self, visit: PageRequest) -> None:
        """Reject a session that has ended since the visit began; UnauthenticatedError."""
        await self._visit(visit.request)

    async def _visit(self, request: Request) -> PageRequest:
        cookie = request.cookies.get(cookie_name(is_secure=self.is_secure(request)), "")
        if not cookie:
            raise UnauthenticatedError("missing")
        now_ns, secret = self.context.clock(), await self.secret()
        session, principal = await self.context.authenticator.session(cookie, secret, remote_of(request), now_ns)
        token = csrf_token(session, secret)
        return PageRequest(desk=self, request=request, session=session, principal=principal, token=token, now_ns=now_ns)

    def _to_login(self, request: Request) -> Response:
        if request.headers.get("hx-request") or request.method != "GET":
            return Response("log in again\n", status_code=401, headers=HEADERS, media_type="text/plain")
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        where = "/login" if path == "/" else f"/login?{urlencode({'next': path})}"
        return RedirectResponse(where, status_code=303, headers=HEADERS)


def _title(status: int) -> str:
    return TITLES[status] if status in (403, 404, 410, 429) else "That did not work"


_PROBLEM = msgspec.json.Decoder(Problem)


def problem_of(visit: PageRequest, error: HostlerError, *, has_match: bool = False) -> Problem:
    """Return the object that REST would answer with: the same words and the same code, and nothing of our insides."""
    visit.note_refused(error)
    request_id = visit.caller.request_id
    answer = problem(error, path=visit.request.url.path, request_id=request_id, has_match=has_match)
    return _PROBLEM.decode(answer.body)
