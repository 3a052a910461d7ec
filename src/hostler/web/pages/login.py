"""Logging in with an API key, and out. The key goes to the doorkeeper and is not kept; the cookie names its id only."""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hostler.control.access.errors import TooManyRequestsError, UnauthenticatedError
from hostler.control.access.limits import address_block
from hostler.control.access.sessions import check_origin, clear_cookie, open_session, seal, set_cookie
from hostler.control.api.requests.endpoint import remote_of
from hostler.control.api.requests.problems import retry_headers, status_of
from hostler.control.api.requests.rejections import count_rejection, ended_key
from hostler.control.services.callers import Caller, write_audit_note
from hostler.control.store import Connection
from hostler.errors import HostlerError, InputError
from hostler.web.menu import first_page
from hostler.web.page_requests import PageHandler, PageRequest
from hostler.web.request_forms import HEADERS, read_form

__all__ = ["LOGIN_LIFE_S", "Login", "OneTimeLogin"]

LOGIN_LIFE_S = 15 * 60  # long enough to open a browser; the address may stay in a terminal's history
_NS = 1_000_000_000
_TOKEN_BYTES = 32


class OneTimeLogin:
    """An address that logs in once, and only for a while: a random token for a key. For one process on loopback.

    The time counts from ``issue``, so a slow start takes nothing of it. A token that expired or was used is forgotten.
    """

    def __init__(
        self, key: Callable[[], str], clock: Callable[[], int], *, random: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._key = key
        self._clock = clock  # nanoseconds
        self._random = random
        self._token = b""
        self._until_ns = 0

    def issue(self) -> str:
        """Return a new token; one that was issued before is void."""
        self._token = base64.urlsafe_b64encode(self._random(_TOKEN_BYTES)).rstrip(b"=")
        self._until_ns = self._clock() + LOGIN_LIFE_S * _NS
        return self._token.decode()

    def take(self, token: str) -> str:
        """Return the key for the token, the first time and in time; InputError."""
        if self._clock() >= self._until_ns:
            self._token = b""
        if not self._token or not hmac.compare_digest(token.encode(), self._token):
            raise InputError(
                "this login address is unknown, was used already or has expired",
                hint="log in with a key; 'hostler dev up' prints the file that has it",
            )
        self._token = b""
        return self._key()


class Login:
    """The door."""

    def __init__(self, desk: PageHandler, one_time: OneTimeLogin | None = None) -> None:
        self._desk = desk
        self._one_time = one_time

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

    async def enter_once(self, request: Request) -> Response:
        """Begin a session by an address that works once; the token in it is the proof that no other site sends it."""
        try:
            self._count(request)
            if self._one_time is None:
                raise InputError("there is no login address", hint="log in with a key")
            return await self._begin(request, self._one_time.take(request.path_params["token"]), "")
        except HostlerError as error:
            self._note_refused(request, error)
            return await self._ask("", error)

    async def leave(self, visit: PageRequest) -> Response:
        """End the session in this browser."""
        await visit.form()
        response = RedirectResponse("/login", status_code=303, headers=HEADERS)
        response.headers["Set-Cookie"] = clear_cookie(is_secure=self._desk.is_secure(visit.request))
        return response

    async def _enter(self, request: Request, key: str, next_page: str) -> Response:
        headers = request.headers
        check_origin(
            host=headers.get("host", ""),
            origin=headers.get("origin", ""),
            referer=headers.get("referer", ""),
            is_secure=self._desk.is_secure(request),
        )
        return await self._begin(request, key, next_page)

    async def _begin(self, request: Request, key: str, next_page: str) -> Response:
        """Begin a session of a key, and go to a page."""
        desk = self._desk
        is_secure = desk.is_secure(request)
        now_ns = desk.context.clock()
        principal = await desk.context.authenticator.key(key, remote_of(request), now_ns)
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
        place = address_block(remote_of(request))
        wait_s = context.limiter.take(f"login from {place}", context.clock(), is_change=True)
        if wait_s:
            raise TooManyRequestsError("more logins than one address may send", retry_after_s=wait_s)

    def _note_refused(self, request: Request, error: HostlerError) -> None:
        request_id = request.scope.get("hostler_request_id", "")
        actor = ended_key(error)
        count_rejection(
            self._desk.context, error, door="session", actor=actor, what="POST /login", request_id=request_id
        )

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
    write_audit_note(connection, caller, "session.open", subject=who.id, name=who.name or who.id, project=who.project)


def _local(path: str) -> str:
    """Return a path of ours, or nothing: a forged link must not send people elsewhere."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if is_ours else ""
