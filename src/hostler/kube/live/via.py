"""Query a running scheduler: at its own address, or through the API server's service proxy.

The proxy consumes the Authorization header, so the token is repeated in a header that it passes on; the scheduler asks
the API server who the token belongs to. A person who may change the service or its pods could read the token there, as
with any webhook: use a token that is short-lived and has few rights. The token is sent to the given address only:
redirects are not followed. Used by commands with ``--via``.

Responses are validated, since the address is user input. Only what the commands need is required, so that older and
newer schedulers are understood too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from hostler.errors import HostlerError, InputError, UnavailableError, UnknownNameError
from hostler.kube.api.access import Access
from hostler.kube.api.failures import lost_answer, unsent
from hostler.kube.api.tls import make_tls
from hostler.kube.live.plan import PodPlan
from hostler.model import Explanation

__all__ = ["TOKEN_HEADER", "ask_scheduler"]

TOKEN_HEADER = "Hostler-Authorization"  # repeats the token, since the proxy consumes the usual header

_TIMEOUT_S = 30.0
_HINT = "write NAMESPACE/SERVICE[:PORT], NAMESPACE/https:SERVICE[:PORT] or http://127.0.0.1:10359"
_SCHEMES = ("http", "https")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # of namespaces, services and ports
_MAX_ANSWER = 64 * 2**20  # kilobytes for each of tens of thousands of nodes
_NOT_THERE = "does a scheduler run there? 'hostler kube schedule --listen' sets its address"


class _Problem(msgspec.Struct):
    detail: str = ""
    hint: str = ""
    message: str = ""  # of the API server's own errors


async def ask_scheduler(
    access: Access, via: str, path: str, *, query: Mapping[str, str] | None = None, body: bytes = b""
) -> Any:  # noqa: ANN401 - plain JSON
    """Request one page of a scheduler and return its content; with a body, post it."""
    if access.credential.is_due():
        await access.credential.renew()
    identity = access.credential.identity
    if not identity.token:
        raise InputError(
            "the scheduler authenticates by token, and the kubeconfig has none",
            hint="use a context with a token; 'kubectl create token NAME' makes one for a service account",
        )
    bearer = f"Bearer {identity.token}"
    if "://" in via:
        base, tls, headers = _own_address(via), True, {"Authorization": bearer}
    else:
        base = access.server + _proxy_path(via)
        headers = {"Authorization": bearer, TOKEN_HEADER: bearer}
        tls = make_tls(access.authority, identity, is_insecure=access.is_insecure)  # type: ignore[assignment]
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    method, data = ("POST", body) if body else ("GET", None)
    try:
        url = URL(base + path, encoded=True).update_query(dict(query or {}))
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.request(method, url, data=data, headers=headers, ssl=tls, allow_redirects=False) as response,
        ):
            status, answer = response.status, await _read(response, via)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        failure = unsent(msgspec.structs.replace(access, server=base), error)
        if tls is True:  # a plain address: no kubeconfig applies
            failure.hint = _NOT_THERE
        raise failure from error
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise lost_answer(msgspec.structs.replace(access, server=base), error, _TIMEOUT_S) from error
    if status != 200:
        raise _refusal(status, answer, via)
    told = read_answer(path, answer)
    if told is None:
        raise UnavailableError(f"{via}: the server is not a Hostler scheduler", hint=_NOT_THERE)
    return told


async def _read(response: aiohttp.ClientResponse, via: str) -> bytes:
    """Read a response that is not longer than any scheduler's."""
    read = bytearray()
    async for chunk in response.content.iter_any():
        read += chunk
        if len(read) > _MAX_ANSWER:
            raise UnavailableError(f"{via}: the response is too long for a Hostler scheduler", hint=_NOT_THERE)
    return bytes(read)


def _own_address(via: str) -> str:
    if "@" in via:
        raise InputError("--via: user and password are not allowed", hint="the kubeconfig's token authenticates you")
    try:
        parts = urlsplit(via)
        is_whole = bool(parts.hostname) and parts.port != 0 and not parts.query and not parts.fragment
    except ValueError:  # half an IPv6 address, or an invalid port
        is_whole = False
    if not is_whole or not via.isascii() or not via.isprintable() or " " in via:
        raise InputError(f"--via {via[:80]!r} is not an address", hint=_HINT)
    is_near = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme == "https" or (parts.scheme == "http" and is_near):
        return via.rstrip("/")
    raise InputError(f"{via}: a token is not sent in clear text to another machine", hint="use https, or a service")


def _proxy_path(via: str) -> str:
    """Return the path of a service's proxy. With a scheme, the proxy needs two colons, even without a port."""
    namespace, _, service = via.partition("/")
    parts = service.split(":")
    scheme = parts.pop(0) if len(parts) > 1 and parts[0] in _SCHEMES else ""
    words = [namespace, *parts]
    if not 2 <= len(words) <= 3 or not all(map(_NAME.fullmatch, words)):
        raise InputError(f"--via {via[:80]!r} is neither an address nor a service", hint=_HINT)
    name, port = (*parts, "")[:2]
    target = f"{scheme}:{name}:{port}" if scheme else ":".join(parts)
    return f"/api/v1/namespaces/{namespace}/services/{target}/proxy"


def _refusal(status: int, body: bytes, via: str) -> HostlerError:
    """Return the error that a scheduler or the API server sent."""
    if 300 <= status < 400:
        return UnavailableError(
            f"{via}: {status}: it redirects, and the token is not sent to another address", hint=_NOT_THERE
        )
    try:
        told = msgspec.json.decode(body, type=_Problem)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        told = _Problem(detail=" ".join(body[:200].decode("utf-8", "replace").split()))
    hint = told.hint or ("" if told.detail or "://" in via else _proxy_hint(status, via))
    return _error(status)(_plain(f"{via}: {status}: {told.detail or told.message}"), hint=_plain(hint))


def _plain(text: str) -> str:
    """Replace control characters, which could move a terminal's cursor."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _proxy_hint(status: int, via: str) -> str:
    """Return a hint if the API server rejected the call: it does not reach the scheduler."""
    namespace = via.partition("/")[0]
    if status == 404:
        return f"'kubectl get services -n {namespace}' lists the services;  {_HINT}"
    if status == 503:
        return f"no pod behind that service answers at that port: 'kubectl get pods,endpointslices -n {namespace}'"
    return f"ask for the right to use services/proxy in namespace {namespace}" if status == 403 else ""


def _error(status: int) -> type[HostlerError]:
    return {400: InputError, 404: UnknownNameError}.get(status, UnavailableError)


class _Row(msgspec.Struct):
    namespace: str
    name: str
    state: str
    priority: int
    age_s: int | None
    attempts: int | None
    next_try: str | None
    nominated: str | None
    reason: str | None


class _Queue(msgspec.Struct):
    pods: list[_Row]
    total: int


class _Answer(msgspec.Struct):
    decision: dict[str, Any]
    notes: list[str] = []
    message: str | None = None


def read_answer(path: str, body: bytes) -> dict[str, Any] | None:
    """Read the response of a page; None if no scheduler would send it."""
    try:
        data = msgspec.json.decode(body, type=dict[str, Any])
        _check(path, data)
    except (msgspec.MsgspecError, ValueError, KeyError, RecursionError):
        return None
    return data


def _check(path: str, data: dict[str, Any]) -> None:
    """Raise if a response does not have the structure of its page."""
    if path == "/v1/queue":
        msgspec.convert(data, _Queue)
    elif path == "/v1/plan":
        msgspec.convert(data, PodPlan)
    elif path.startswith("/v1/explain/"):
        decision = msgspec.convert(data, _Answer).decision
        msgspec.convert({**data, "decision": {**decision, "host": decision["host"] or ""}}, Explanation)
