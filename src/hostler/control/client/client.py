"""One control plane from outside: everything that REST offers, as typed calls.

::

    with Client(resolve_target(TargetOptions())) as client:
        changed = client.vms.create(VmCreate(name="web-0", spec=VmSpec(cpu=2, memory="4Gi")))
        client.wait(changed.operation.id, 60)

Calls for VMs are in ``vms``, those for projects, quotas, reservations and gangs in ``tenancy``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Literal

import httpx
import msgspec

from hostler.control.client.errors import UNREADABLE, AnswerError
from hostler.control.client.responses import read_lines, read_messages
from hostler.control.client.server_target import ServerTarget
from hostler.control.client.tenancy import check_project, gangs, projects, quotas, reservations
from hostler.control.client.vms import Vms, split_name
from hostler.control.client.wire import PAGE, Query, Wire, list_items, path_of
from hostler.control.schemas import (
    AllowTeardown,
    Confirm,
    Event,
    Host,
    HostEdit,
    Key,
    KeyCreate,
    KeyMade,
    KeyRotate,
    Operation,
    Page,
    Policies,
    Scheduling,
    Token,
    TokenCreate,
    TokenMade,
    Whoami,
)

__all__ = ["Client", "HostVerb", "Hosts", "Keys", "Tokens"]

HostVerb = Literal["cordon", "uncordon", "drain", "undrain"]


class Hosts:
    """Calls for hosts. Each host is named by its name or id."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self, *, state: str = "", limit: int = 0) -> Iterator[Host]:
        """Return the hosts, page by page."""
        return list_items(self._wire, "/v1/hosts", Page[Host], {"state": state}, limit=limit)

    def get(self, host: str) -> Host:
        """Return a host. If it is draining, the VMs that cannot leave are included."""
        return self._wire.read(path_of("hosts", host), Host)

    def scheduling(self, host: str) -> Scheduling:
        """Return the view of a host for schedulers."""
        return self._wire.read(path_of("hosts", host, "scheduling"), Scheduling)

    def act(self, host: str, verb: HostVerb) -> Host:
        """Cordon, drain, uncordon or undrain a host."""
        return self._wire.change("POST", path_of("hosts", host, verb), Host)

    def force_offline(self, host: str, *, confirm: str) -> Host:
        """Treat a host as offline at once; its VMs stay assigned to it."""
        return self._confirmed(host, "force-offline", confirm)

    def confirm_dead(self, host: str, *, confirm: str) -> Host:
        """Confirm that nothing runs on a host, so that its VMs may start elsewhere."""
        return self._confirmed(host, "confirm-dead", confirm)

    def allow_teardown(self, host: str, count: int) -> Host:
        """Let a host remove many VMs at once."""
        body = AllowTeardown(confirm=count)
        return self._wire.change("POST", path_of("hosts", host, "allow-teardown"), Host, body=body)

    def rotate_credential(self, host: str) -> Host:
        """Give a host's agent a new credential, at its next report."""
        return self._wire.change("POST", path_of("hosts", host, "rotate-credential"), Host)

    def revoke_credential(self, host: str) -> Host:
        """Revoke the credential of a host's agent; its VMs keep running."""
        return self._wire.change("POST", path_of("hosts", host, "revoke-credential"), Host)

    def edit(self, host: str, edit: HostEdit, *, version: str = "") -> Host:
        """Change labels, taints, overcommitment or reserve."""
        return self._wire.change("PATCH", path_of("hosts", host), Host, body=edit, version=version)

    def delete(self, host: str, *, confirm: str) -> None:
        """Delete a host."""
        self._wire.remove(path_of("hosts", host), {"confirm": confirm})

    def _confirmed(self, host: str, verb: str, name: str) -> Host:
        return self._wire.change("POST", path_of("hosts", host, verb), Host, body=Confirm(confirm=name))


_POLL_S = 20.0  # of one long poll: shorter than what proxies in between allow


class Tokens:
    """Calls for tokens with which hosts join. A secret is returned once, when it is created."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, wish: TokenCreate) -> TokenMade:
        """Create a token."""
        return self._wire.change("POST", "/v1/tokens", TokenMade, body=wish, is_once=True)

    def list(self) -> Iterator[Token]:
        """Return the tokens, without their secrets."""
        return list_items(self._wire, "/v1/tokens", Page[Token])

    def revoke(self, token: str) -> None:
        """Revoke a token."""
        self._wire.remove(path_of("tokens", token))


class Keys:
    """Calls for API keys. A secret is returned once, when it is created."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, wish: KeyCreate) -> KeyMade:
        """Create a key."""
        return self._wire.change("POST", "/v1/keys", KeyMade, body=wish, is_once=True)

    def list(self, *, project: str = "") -> Iterator[Key]:
        """Return the keys, without their secrets."""
        return list_items(self._wire, "/v1/keys", Page[Key], {"project": project})

    def rotate(self, key: str, *, overlap_s: int = 0) -> KeyMade:
        """Create a key that replaces another one, which stays valid for the overlap."""
        body = KeyRotate(overlap_s=overlap_s)
        return self._wire.change("POST", path_of("keys", key, "rotate"), KeyMade, body=body, is_once=True)

    def confirm(self, key: str) -> Key:
        """Accept a key again after a restore."""
        return self._wire.change("POST", path_of("keys", key, "confirm"), Key, is_once=True)

    def revoke(self, key: str) -> None:
        """Revoke a key."""
        self._wire.remove(path_of("keys", key))

    def end_sessions(self) -> None:
        """End every session of the dashboard."""
        self._wire.remove(path_of("sessions"))


class Client:
    """Calls to one control plane. Close it, or use it in a ``with``."""

    def __init__(
        self,
        target: ServerTarget,
        *,
        sleep: Callable[[float], None] = time.sleep,
        answer_s: float = 30.0,
        page: int = PAGE,
    ) -> None:
        self.target = target
        self._wire = Wire(target, sleep=sleep, answer_s=answer_s, page=page)
        self.vms = Vms(self._wire)
        self.hosts = Hosts(self._wire)
        self.tokens = Tokens(self._wire)
        self.keys = Keys(self._wire)
        self.projects = projects(self._wire)
        self.quotas = quotas(self._wire)
        self.reservations = reservations(self._wire)
        self.gangs = gangs(self._wire)

    def close(self) -> None:
        """End all connections."""
        self._wire.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def split_name(self, word: str) -> tuple[str, str]:
        """Return project and name of ``NAME``, in the project of the target, or of ``PROJECT/NAME``."""
        return split_name(word, self.target.project)

    def whoami(self) -> Whoami:
        """Return whose key it is, and its permissions."""
        return self._wire.read("/v1/whoami", Whoami)

    def policies(self) -> Policies:
        """Return the strategies that place VMs."""
        return self._wire.read("/v1/policies", Policies)

    def check_project(self, name: str) -> None:
        """Reject a project that does not exist, as far as the key may see projects; ServerNotFoundError."""
        check_project(self._wire, name)

    def operations(
        self, *, project: str = "", state: str = "", subject: str = "", limit: int = 0
    ) -> Iterator[Operation]:
        """Return operations, newest first, page by page."""
        query = {"project": project, "state": state, "subject": subject, "newest_first": "true"}
        return list_items(self._wire, "/v1/operations", Page[Operation], query, limit=limit)

    def operation(self, operation: str, *, wait_s: float = 0.0) -> Operation:
        """Return an operation: at once, or when it has ended, after at most so many seconds."""
        query = {"wait": f"{wait_s:.3f}" if wait_s > 0 else None}
        return self._wire.read(path_of("operations", operation), Operation, query, wait_s=wait_s)

    def wait(self, operation: str, seconds: float) -> Operation:
        """Wait until an operation has ended, or so many seconds have passed. Returns its last state."""
        until = time.monotonic() + seconds
        while True:
            found = self.operation(operation, wait_s=max(0.0, min(_POLL_S, until - time.monotonic())))
            if found.state != "pending" or until - time.monotonic() <= 0:
                return found

    def events(
        self, *, project: str = "", subject: str = "", host: str = "", after: int = 0, limit: int = 0,
        since: str = "", tail: int | None = None, kinds: Sequence[str] = (),
    ) -> Iterator[Event]:  # fmt: skip
        """Return events, oldest first; ``subject`` is the id of a VM or another object.

        A ``host`` is named by its name or id, and may be deleted. ``since`` is a time (RFC 3339), ``tail`` is the
        number of the last events, and ``kinds`` are such as vm.placed, or vm for all kinds of VMs.
        """
        query: Query = {"project": project, "subject": subject, "host": host, "after": after or None}
        query = {**query, "since": since, "tail": tail, "kind": list(kinds)}
        return list_items(self._wire, "/v1/events", Page[Event], query, limit=limit)

    def follow(
        self, *, project: str = "", subject: str = "", host: str = "", after: int | None = None,
        since: str = "", tail: int | None = None, kinds: Sequence[str] = (),
    ) -> Iterator[Event]:  # fmt: skip
        """Stream events until the caller stops. A broken connection is resumed where it broke.

        Past events come first: those after a number, since a time, or the last ones; see ``events``.
        """
        query: Query = {"project": project, "subject": subject, "host": host}
        query = {**query, "since": since, "tail": tail, "kind": list(kinds)}
        last = "" if after is None else str(after)
        failures = 0
        while True:
            try:
                for seq, event in self._stream(query, last):
                    last, failures = seq, 0
                    if event is not None:
                        yield event
            except httpx.TransportError as error:
                failures += 1
                if failures > 3:
                    raise self._wire.failure(error) from error
            time.sleep(min(2.0, 0.2 * 2**failures))

    def _stream(self, query: Query, last: str) -> Iterator[tuple[str, Event | None]]:
        """Return events with their numbers, and the number at which the past ends without one."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if last:
            headers["Last-Event-ID"] = last
        with self._wire.stream("/v1/events", query, headers) as answer:
            for message in read_messages(read_lines(answer)):
                if message.event == "live":
                    yield message.id, None
                    continue
                try:
                    event = msgspec.json.decode(message.data, type=Event)
                    yield str(event.seq), event
                except UNREADABLE as error:
                    hint = "'hostler version' here and there should agree"
                    raise AnswerError(f"an event is not understood: {error}", hint=hint) from error
