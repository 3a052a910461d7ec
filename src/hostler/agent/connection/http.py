"""The Transport to a real control plane: HTTP on aiohttp, TLS verified; plain HTTP to this machine, or by an option."""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from hostler.agent.connection.link import ServerResponse
from hostler.errors import InputError
from hostler.runtime.transport import Request, TransportError

__all__ = ["HttpTransport"]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CONNECT_S = 5.0
_LONGEST_SECONDS = 5  # digits: about a day
_LONGEST_ANSWER = 64 * 2**20
_NUMBERS = re.compile(r"\[Errno ([0-9]+)\]")


class HttpTransport:
    """Carries the calls of any number of agents to one server; used in one event loop."""

    def __init__(self, server: str, *, authority_file: Path | None = None, is_insecure: bool = False) -> None:
        address = urlsplit(server)
        if address.scheme not in ("http", "https") or not address.hostname or address.query or address.username:
            raise InputError(f"{server!r} is not the address of a server", hint="write https://host:port")
        if address.scheme == "http" and address.hostname not in _LOOPBACK and not is_insecure:
            raise InputError(
                f"{server} is not on this machine and not encrypted",
                hint="use https://, or --insecure where the network is safe",
            )
        self._server = server.rstrip("/")
        self._tls = _tls(authority_file) if address.scheme == "https" else None
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> ServerResponse:
        """Send a request and wait for the whole answer."""
        if self._session is None:
            self._session = _new_session()
        headers = {"Content-Type": "application/json"}
        if request.credential:
            headers["Authorization"] = f"Bearer {request.credential}"
        try:
            async with self._session.request(
                request.method,
                URL(self._server + request.path, encoded=True),
                data=request.body or None,
                headers=headers,
                allow_redirects=False,  # a credential is shown to the server that it is for, and to no other
                timeout=aiohttp.ClientTimeout(total=request.timeout_s, sock_connect=_CONNECT_S),
                ssl=self._tls or True,
            ) as answer:
                return await _read(answer)
        except TimeoutError as error:
            raise self._failure(f"did not answer within {request.timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure(f"cannot be reached: {_problem(error)}") from error

    async def close(self) -> None:
        """End all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _failure(self, what: str) -> TransportError:
        return TransportError(f"{self._server} {what}", hint="VMs run on; it is tried again")


def _problem(error: Exception) -> str:
    """Describe a connection error. aiohttp's own text repeats the address and names unknown settings."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = error.certificate_error
        reason = why.verify_message if isinstance(why, ssl.SSLCertVerificationError) else str(why)
        return f"its certificate is not accepted: {reason.removesuffix('.')} (--ca-file names who signed it)"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection ended before the answer"
    if isinstance(error, aiohttp.ClientResponseError):
        return "its answer is no HTTP"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ssl.SSLError):
        return f"TLS cannot be agreed on ({(cause.reason or 'no reason').replace('_', ' ').lower()})"
    if isinstance(cause, OSError):
        numbers = [cause.errno] if cause.errno else map(int, _NUMBERS.findall(str(cause)))  # one of each address
        if words := ", ".join(dict.fromkeys(os.strerror(number).lower() for number in numbers)):
            return words
    return " ".join(str(cause).split()) or type(cause).__name__


async def _read(answer: aiohttp.ClientResponse) -> ServerResponse:
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > _LONGEST_ANSWER:
            raise TransportError("the answer is too long", hint="is this address a control plane's?")
    asked = answer.headers.get("Retry-After", "")
    return ServerResponse(status=answer.status, body=bytes(body), retry_after_s=_read_seconds(asked))


def _read_seconds(text: str) -> float:
    """Return the seconds that a header asks to wait for; 0 for a date, and for more than an agent would wait."""
    return float(text) if text.isdecimal() and len(text) <= _LONGEST_SECONDS else 0.0


def _new_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),  # a long poll of each agent keeps its connection
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


def _tls(authority_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authority_file)
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"{authority_file} has no certificates: {error}",
            hint="name a file with the authority's certificate in PEM",
        ) from error
