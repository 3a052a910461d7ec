"""The door: every page but the probes needs a token that the API server knows and a right that it grants.

The API server's service proxy takes the Authorization header away before it passes a request on, and what it adds
(X-Forwarded-…, X-Remote-User) can be written by anybody who reaches our port: none of it is believed. Whoever comes
that way repeats the token in the header ``Hostler-Authorization``, as ``hostler … --via`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from hostler.kube.service.problems import Handler, RefusedError
from hostler.kube.service.reviews import Attributes, Reviews

__all__ = ["OPEN_PATHS", "TOKEN_HEADER", "Guard", "Need"]

TOKEN_HEADER = "Hostler-Authorization"
OPEN_PATHS = frozenset({"/livez", "/readyz", "/healthz"})

Need = Callable[[web.Request], Attributes]  # what a request to a route needs


class Guard:
    """Lets in whom the API server lets in. ``needs`` says by route what a request needs."""

    def __init__(self, reviews: Reviews, needs: Mapping[str, Need]) -> None:
        self._reviews = reviews
        self._needs = needs

    @property
    def middleware(self) -> Callable[[web.Request, Handler], object]:
        """Return what stands before all pages."""

        @web.middleware
        async def stand(request: web.Request, handler: Handler) -> web.StreamResponse:
            resource = request.match_info.route.resource
            route = resource.canonical if resource is not None else ""
            if route in OPEN_PATHS:
                return await handler(request)
            token = _token(request)
            if not _is_text(request.path_qs, *request.match_info.values(), *request.query.values()):
                raise RefusedError(400, "the address is not UTF-8")
            user = await self._reviews.user_of(token)
            need = self._needs.get(route)
            if need is None:  # no page, or one that nobody thought about
                raise RefusedError(404, f"there is no page {request.path}")
            await self._reviews.check(user, need(request))
            return await handler(request)

        return stand


def _token(request: web.Request) -> str:
    for name in (TOKEN_HEADER, "Authorization"):
        kind, _, token = request.headers.get(name, "").partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token:
            continue
        if not (token.isascii() and token.isprintable()):
            raise RefusedError(401, "the token has characters that no token has", hint="send it as it was given")
        return token
    raise RefusedError(
        401,
        "no token was sent",
        hint=f"send 'Authorization: Bearer TOKEN', or {TOKEN_HEADER} through the API server's proxy",
    )


def _is_text(*words: str) -> bool:
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        return False
    return True
