"""What stands behind every page: who visits, what he may see, and how an answer is made of a template."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from hostler.control.access import Principal
from hostler.control.access.errors import UnauthenticatedError
from hostler.control.access.sessions import (
    SAFE_METHODS,
    Session,
    check_request,
    cookie_name,
    csrf_token,
    signing_secret,
)
from hostler.control.api.context import Context
from hostler.control.api.problems import TITLES, problem, retry_headers, status_of
from hostler.control.api.refusals import note_refused
from hostler.control.api.serving import remote_of
from hostler.control.services.callers import Caller
from hostler.control.store import Connection
from hostler.errors import HostlerError
from hostler.web.assets import Assets
from hostler.web.exchange import DONE, HEADERS, read_form, wants_json
from hostler.web.menu import menu_for
from hostler.web.templating import make_environment

__all__ = ["Desk", "Page", "Visit"]

T = TypeVar("T")
Page = Callable[["Visit"], Awaitable[Response]]
_FOR_PROGRAMS = "pages are for those who log in; a program with a key asks what is below /v1, as /docs lists it"


@dataclass(kw_only=True)
class Visit:
    """One request by somebody who is logged in."""

    desk: Desk
    request: Request
    session: Session
    principal: Principal
    token: str
    now_ns: int

    @property
    def context(self) -> Context:
        """Return what the service works with."""
        return self.desk.context

    @property
    def caller(self) -> Caller:
        """Return the visitor as services know him."""
        return Caller(
            principal=self.principal, now_ns=self.now_ns, request_id=self.request.scope.get("hostler_request_id", "")
        )

    def note_refused(self, error: HostlerError) -> None:
        """Count what the visitor was refused, and gather it for the audit if it was a change."""
        method, path = self.request.method, getattr(self.request.scope.get("route"), "path", self.request.url.path)
        what = f"{method} {path}" if method not in SAFE_METHODS else ""
        caller = self.caller
        note_refused(self.context, error, door="session", actor=caller.actor, what=what, request_id=caller.request_id)

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
        await self.desk.look_again(self)  # whoever is slow to send may have been shut out meanwhile
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
        **values: object,
    ) -> Response:
        """Answer with a page. ``twin`` is where REST tells the same, ``live`` the stream that says when it is old.

        What one address of REST does not tell is at ``more_twins``.
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
            done=DONE.get(self.query("done"), ""),
            **values,
        )

    def go(self, path: str) -> Response:
        """Send the browser to a page, after something was done."""
        return RedirectResponse(path, status_code=303, headers=HEADERS)


class Desk:
    """Makes visits of requests, and answers of what pages return or raise."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.assets = Assets()
        self._templates = make_environment(self.assets.url)

    async def secret(self) -> bytes:
        """Return what sessions are signed with; whoever began the service may have left it to us to read it."""
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

    async def refuse(self, visit: Visit, error: HostlerError) -> Response:
        """Answer with what went wrong, and what to do about it."""
        visit.note_refused(error)
        status = status_of(error)
        response = await visit.render("refusal.html", title=_title(status), twin="", status=status, error=error)
        response.headers.update(retry_headers(error))
        return response

    async def _turn_away(self, request: Request, error: HostlerError) -> Response:
        """Answer where nobody can say who visits: a browser logs in or reads what is wrong, a program gets JSON."""
        is_stranger = isinstance(error, UnauthenticatedError)
        if is_stranger and not wants_json(request):
            return self._to_login(request)
        request_id = request.scope.get("hostler_request_id", "")
        note_refused(self.context, error, door="session", actor="", what="", request_id=request_id)
        if wants_json(request):
            told = UnauthenticatedError("missing", hint=_FOR_PROGRAMS) if is_stranger else error
            response = problem(told, path=request.url.path, request_id=request_id)
            response.headers.update(HEADERS)
            return response
        status = status_of(error)
        response = await self.render("outside.html", status=status, title=_title(status), error=error)
        response.headers.update(retry_headers(error))
        return response

    async def look_again(self, visit: Visit) -> None:
        """Refuse a session that has ended since the visit began; UnauthenticatedError."""
        await self._visit(visit.request)

    async def _visit(self, request: Request) -> Visit:
        cookie = request.cookies.get(cookie_name(is_secure=self.is_secure(request)), "")
        if not cookie:
            raise UnauthenticatedError("missing")
        now_ns, secret = self.context.clock(), await self.secret()
        session, principal = await self.context.doorkeeper.session(cookie, secret, remote_of(request), now_ns)
        token = csrf_token(session, secret)
        return Visit(desk=self, request=request, session=session, principal=principal, token=token, now_ns=now_ns)

    def _to_login(self, request: Request) -> Response:
        if request.headers.get("hx-request") or request.method != "GET":
            return Response("log in again\n", status_code=401, headers=HEADERS, media_type="text/plain")
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        where = "/login" if path == "/" else f"/login?{urlencode({'next': path})}"
        return RedirectResponse(where, status_code=303, headers=HEADERS)


def _title(status: int) -> str:
    return TITLES[status] if status in (403, 404, 410, 429) else "That did not work"
