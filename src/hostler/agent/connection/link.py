"""The agent's side of the protocol: join, register, report, poll; each is one try with typed errors.

``PAUSES`` says how long to wait between tries. ``longest_pause_s`` bounds that by the registration: a control plane
that comes back hears every agent before it could call its host silent. If the control plane rejects the agent's
identity, the agent stops: another try cannot help, and a removed host must not come back by itself.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from hostler.agent.connection.credentials import AgentIdentity, CredentialStore, is_usable
from hostler.agent.messages import (
    JOIN_PATH,
    ORDERS_PATH,
    REGISTER_PATH,
    REPORT_PATH,
    Join,
    Joined,
    Orders,
    Register,
    Registered,
    Report,
    Reported,
)
from hostler.errors import HostlerError, UnavailableError
from hostler.runtime.backoff import BackoffRules
from hostler.runtime.transport import Request, Transport

__all__ = [
    "LONGEST_PAUSE_S",
    "PAUSES",
    "AgentRejectedError",
    "AgentTransport",
    "ControlPlaneBusyError",
    "Link",
    "MessageRejectedError",
    "MessageTooLargeError",
    "ProtocolOutdatedError",
    "ServerResponse",
    "longest_pause_s",
]

T = TypeVar("T")

# The service waits for the longest pause, jitter included, before it judges a host that it never heard: keep
# FleetTimes.longest_pause_s in step.
LONGEST_PAUSE_S = 30.0

_SHORTEST_PAUSE_S = 0.1  # whatever a control plane says: no agent tries without a pause
_TRIES_IN_TIME = 3  # tries that fit into the shortest deadline
_TOO_LARGE = 413
_OUTDATED = 426  # Upgrade Required
_TAKEN = "host_exists"  # a host of this name joined before, and the token is not for it: no other try would help
_LONGEST_S = 366 * 86_400.0  # of what a registration says; what is longer is no time that anybody meant
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# Up to 30 % longer by chance, so that a fleet does not come at once.
PAUSES = BackoffRules(first_s=1.0, limit_s=LONGEST_PAUSE_S, spread=0.3, asked_spread=0.3, asked_limit_s=300.0)
_SLACK_S = 10.0  # a long poll is answered that much later than asked for, at most


class ServerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer. ``retry_after_s``: how long the server asked us to wait."""

    status: int
    body: bytes = b""
    retry_after_s: float = 0.0


AgentTransport: TypeAlias = Transport[ServerResponse]


class AgentRejectedError(HostlerError):
    """The control plane rejects this agent: its credential, its token or its protocol."""

    code = "agent_rejected"
    exit_code = 2


class ProtocolOutdatedError(AgentRejectedError):
    """The control plane speaks no protocol version of this agent: a new token would not help."""


class MessageRejectedError(HostlerError):
    """The control plane rejected a message as wrong or outdated; registering again may help."""

    code = "agent_message_refused"
    retryable = True
    exit_code = 3


class MessageTooLargeError(MessageRejectedError):
    """The control plane, or a proxy before it, rejects a message of this size: a smaller one may help."""

    code = "agent_message_too_large"


class ControlPlaneBusyError(UnavailableError):
    """The control plane cannot answer now."""

    code = "control_plane_busy"

    def __init__(self, message: str, *, retry_after_s: float = 0.0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


def longest_pause_s(registered: Registered) -> float:
    """Return the longest pause between tries to reach the control plane: a third of the shortest deadline it set.

    Deadlines are when it calls the host silent and when VMs are stopped. A lease that ends before the next heartbeat
    starts nothing and is none that a try could meet; the interval of heartbeats is no deadline.
    """
    deadlines = [registered.silent_after_s] if registered.silent_after_s > 0 else []
    if registered.stop_after_s > registered.heartbeat_s:
        deadlines.append(registered.stop_after_s)
    pause_s = min(deadlines, default=LONGEST_PAUSE_S * _TRIES_IN_TIME) / _TRIES_IN_TIME
    return min(max(pause_s, _SHORTEST_PAUSE_S), LONGEST_PAUSE_S)


class _Problem(msgspec.Struct):
    """What is read of a problem+json answer."""

    code: str = ""
    title: str = ""
    detail: str = ""


class Link:
    """One agent's calls."""

    def __init__(self, transport: AgentTransport, credentials: CredentialStore) -> None:
        self._transport = transport
        self._credentials = credentials
        self._identity = credentials.load()

    @property
    def identity(self) -> AgentIdentity | None:
        """Return who this agent is; None before it joined."""
        return self._identity

    async def join(self, token: str, name: str) -> Joined:
        """Trade a one-time token for a credential and keep it."""
        body = msgspec.json.encode(Join(token=token, name=name))
        joined = _decode(await self._send("POST", JOIN_PATH, body), Joined)
        if not is_usable(joined.credential):
            raise _odd("gives a credential that cannot be shown")
        self._keep(AgentIdentity(joined.host, joined.credential))
        return joined

    async def register(self, message: Register) -> Registered:
        """Say all that this host is and has; a new credential in the answer is used from now on."""
        registered = _decode(await self._send("POST", REGISTER_PATH, msgspec.json.encode(message)), Registered)
        if problem := _why_not(registered):
            raise _odd(problem)
        if registered.credential and self._identity is not None:
            self._keep(AgentIdentity(self._identity.host, registered.credential))
        return registered

    async def report(self, message: Report, *, timeout_s: float = 10.0) -> Reported:
        """Say what changed, or only that we are there."""
        body = msgspec.json.encode(message)
        return _decode(await self._send("POST", REPORT_PATH, body, timeout_s), Reported)

    async def poll(self, version: int, *, wait_s: float, epoch: int = 0) -> Orders | None:
        """Wait for newer orders than a version; None when there were none for so long.

        With an epoch, which protocol 1 does not know, they are given as long as that registration counts.
        """
        path = f"{ORDERS_PATH}?from={version}&wait_s={quote(f'{wait_s:g}')}"
        path += f"&epoch={epoch}" if epoch else ""
        response = await self._send("GET", path, timeout_s=wait_s + _SLACK_S)
        return None if response.status == 204 else _decode(response, Orders)

    def _keep(self, identity: AgentIdentity) -> None:
        self._credentials.save(identity)
        self._identity = identity

    async def _send(self, method: str, path: str, body: bytes = b"", timeout_s: float = 10.0) -> ServerResponse:
        credential = self._identity.credential if self._identity is not None and path != JOIN_PATH else ""
        request = Request(method=method, path=path, body=body, credential=credential, timeout_s=timeout_s)
        response = await self._transport.send(request)
        if response.status not in (200, 201, 204):
            raise _failure(response)
        return response


def _decode(response: ServerResponse, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(response.body, type=kind)
    except _UNREADABLE as error:
        raise _odd(f"is no {kind.__name__}: {error}") from error


def _odd(problem: str) -> ControlPlaneBusyError:
    """Return the error for an answer that no control plane of ours would give: the next one may be right."""
    return ControlPlaneBusyError(
        f"the control plane's answer {problem}", hint="does the address lead to a control plane of this version?"
    )


def _why_not(registered: Registered) -> str:
    """Say what is wrong with an answer before anything is done by it; empty where nothing is."""
    if not 0 < registered.epoch < 2**63:
        return f"has no epoch, but {registered.epoch}"
    if not 0 < registered.heartbeat_s <= _LONGEST_S:
        return f"asks for a heartbeat every {registered.heartbeat_s:g} s"
    if not 0 <= registered.stop_after_s <= _LONGEST_S:
        return f"has VMs stopped after {registered.stop_after_s:g} s"
    if registered.credential and not is_usable(registered.credential):
        return "gives a credential that cannot be shown"
    return ""


def _failure(response: ServerResponse) -> HostlerError:
    try:
        problem = msgspec.json.decode(response.body, type=_Problem)
    except _UNREADABLE:
        problem = _Problem()
    said = problem.detail or problem.title or problem.code or "no reason was given"
    rejection = f"the control plane rejects this agent ({response.status}): {said}"
    if response.status == _OUTDATED:
        return ProtocolOutdatedError(rejection, hint="bring the agent to the control plane's version")
    if response.status in (401, 403, 410) or problem.code == _TAKEN:
        return AgentRejectedError(rejection, hint="join again with a new token: 'hostler token create --host NAME'")
    if response.status in (408, 425, 429) or response.status >= 500 or response.status < 400:
        return ControlPlaneBusyError(
            f"the control plane answered {response.status}: {said}",
            retry_after_s=response.retry_after_s,
            hint="VMs run on; it is tried again",
        )
    if response.status == _TOO_LARGE:
        return MessageTooLargeError(
            f"a message of this agent is too large for the control plane (413 {problem.code}): {said}",
            hint="it is sent again in smaller parts; if a proxy is between, let it take bodies of 1 MiB",
        )
    return MessageRejectedError(
        f"the control plane rejected a message ({response.status} {problem.code}): {said}",
        hint="the agent registers again; if this persists, compare the versions of both sides",
    )
