"""Logging in with an API key, and out. The key goes to the doorkeeper and is not kept; the cookie names its id only."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hostler.control.access.errors import TooManyRequestsError, UnauthenticatedError
from hostler.control.access.limits import place_of
from hostler.control.access.sessions import check_origin, clear_cookie, open_session, seal, set_cookie
from hostler.control.api.problems import retry_headers, status_of
from hostler.control.api.refusals import ended_key, note_refused
from hostler.control.api.serving import remote_of
from hostler.control.services.callers import Caller, note
from hostler.control.store import Connection
from hostler.errors import HostlerError
from hostler.web.desk import Desk, Visit
from hostler.web.exchange import HEADERS, read_form
from hostler.web.menu import first_page

__all__ = ["Login"]

_NS = 1_000_000_000


class Login:
    """The door."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show(self, request: Request) -> Response:
        """Ask for a key."""
        return await self._ask(_local(request.query_params.get("next", "")), None)

    async def enter(self, request: Request) -> Response:
        """Take a key and begin a session."""
        next_page = ""
        try:
            self._count(request)
            fields = await read_form(request)
            next_page = _local(fields.get("next", ""))
            return await self._enter(request, fields.get("key", "").strip(), next_page)
        except HostlerError as error:
            self._note_refused(request, error)
            return await self._ask(next_page, error)

    async def leave(self, visit: Visit) -> Response:
        """End the session in this browser."""
        await visit.form()
        response = RedirectResponse("/login", status_code=303, headers=HEADERS)
        response.headers["Set-Cookie"] = clear_cookie(is_secure=self._desk.is_secure(visit.request))
        return response

    async def _enter(self, request: Request, key: str, next_page: str) -> Response:
        desk, headers = self._desk, request.headers
        is_secure = desk.is_secure(request)
        check_origin(
            host=headers.get("host", ""),
            origin=headers.get("origin", ""),
            referer=headers.get("referer", ""),
            is_secure=is_secure,
        )
        now_ns = desk.context.clock()
        principal = await desk.context.doorkeeper.key(key, remote_of(request), now_ns)
        desk.context.limiter.check(
            principal.id, now_ns, is_change=True, project=principal.project
        )  # each leaves an event
        caller = Caller(principal=principal, now_ns=now_ns, request_id=request.scope.get("hostler_request_id", ""))
        await desk.context.database.write(lambda connection: _note(connection, caller))
        session = open_session(principal, now_ns=now_ns, random=desk.context.random)
        response = RedirectResponse(next_page or first_page(principal), status_code=303, headers=HEADERS)
        life_s = max((session.expires_ns - now_ns) // _NS, 1)
        sealed = seal(session, await desk.secret())
        response.headers["Set-Cookie"] = set_cookie(sealed, is_secure=is_secure, life_s=life_s)
        return response

    def _count(self, request: Request) -> None:
        """Count a login to the changes of an address, before anything is read of it; TooManyRequestsError."""
        context = self._desk.context
        place = place_of(remote_of(request))
        wait_s = context.limiter.take(f"login from {place}", context.clock(), is_change=True)
        if wait_s:
            raise TooManyRequestsError("more logins than one address may send", retry_after_s=wait_s)

    def _note_refused(self, request: Request, error: HostlerError) -> None:
        request_id = request.scope.get("hostler_request_id", "")
        actor = ended_key(error)
        note_refused(self._desk.context, error, door="session", actor=actor, what="POST /login", request_id=request_id)

    async def _ask(self, next_page: str, error: HostlerError | None) -> Response:
        status = status_of(error) if error is not None else 200
        if isinstance(error, UnauthenticatedError):
            self._desk.context.tell(f"a login was refused: {error.why} {error.subject}")
            error = UnauthenticatedError(error.why, message="that key opens nothing here", hint=error.hint)
        response = await self._desk.render("login.html", status=status, title="Log in", next=next_page, error=error)
        response.headers.update(retry_headers(error) if error is not None else {})
        return response


def _note(connection: Connection, caller: Caller) -> None:
    """Leave a trace for the audit."""
    who = caller.principal
    note(connection, caller, "session.open", subject=who.id, name=who.name or who.id, project=who.project)


def _local(path: str) -> str:
    """Return a path of ours, or nothing: whoever wrote the link may want to send people elsewhere."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if is_ours else ""
