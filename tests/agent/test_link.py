"""The agent's side of the protocol: what answers mean, how long is waited, and who keeps the secret."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import msgspec
import pytest

from hostler.agent.connection.credentials import AgentIdentity, CredentialFile, MemoryCredentials, read_token
from hostler.agent.connection.link import (
    PAUSES,
    AgentRejectedError,
    ControlPlaneBusyError,
    Link,
    MessageRejectedError,
    ServerResponse,
    longest_pause_s,
)
from hostler.agent.messages import HostSize, Joined, Orders, Register, Registered, Report
from hostler.errors import InputError
from hostler.runtime.backoff import Backoff
from hostler.runtime.transport import Request


class ScriptedTransport:
    """A transport that gives the answers that it was given."""

    def __init__(self, *answers: ServerResponse) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    async def send(self, request: Request) -> ServerResponse:
        self.requests.append(request)
        return self.answers.pop(0)

    async def close(self) -> None:
        pass


def answer(message, status=200):
    return ServerResponse(status=status, body=msgspec.json.encode(message))


REPORT = Report(boot="b", agent="a", epoch=1, sequence=1)
KNOWN = AgentIdentity("host-1", "secret-1")


def report(response: ServerResponse):
    return asyncio.run(Link(ScriptedTransport(response), MemoryCredentials(KNOWN)).report(REPORT))


def test_joining_keeps_the_credential_and_every_later_call_shows_it():
    script = ScriptedTransport(answer(Joined(host="h", credential="c", protocol=1)), ServerResponse(status=204))
    credentials = MemoryCredentials()
    link = Link(script, credentials)
    asyncio.run(link.join("token", "name"))
    assert asyncio.run(link.poll(3, wait_s=45)) is None
    assert [request.credential for request in script.requests] == ["", "c"]
    assert credentials.load() == AgentIdentity("h", "c")
    assert script.requests[1].path == "/agent/v1/orders?from=3&wait_s=45"
    assert script.requests[1].timeout_s > 45


def test_a_new_credential_is_kept_before_it_is_used():
    register = Register(
        boot="b", agent="a", version="1", driver="fake", capabilities={}, size=HostSize(cpu_millis=1, memory_bytes=1)
    )
    credentials = MemoryCredentials(KNOWN)
    script = ScriptedTransport(answer(Registered(epoch=1, heartbeat_s=5, silent_after_s=15, credential="secret-2")))
    asyncio.run(Link(script, credentials).register(register))
    assert credentials.load() == AgentIdentity("host-1", "secret-2")


@pytest.mark.parametrize("status", [401, 403, 410, 426])
def test_a_rejected_identity_is_the_end(status):
    with pytest.raises(AgentRejectedError, match="revoked") as caught:
        report(ServerResponse(status=status, body=b'{"code": "x", "detail": "it was revoked"}'))
    assert not caught.value.retryable
    assert caught.value.hint


def test_a_name_that_another_host_joined_with_is_the_end():
    with pytest.raises(AgentRejectedError, match="host node-1 joined before") as caught:
        report(ServerResponse(status=409, body=b'{"code": "host_exists", "detail": "host node-1 joined before"}'))
    assert "hostler token create --host" in caught.value.hint


@pytest.mark.parametrize("status", [302, 429, 500, 502, 503])
def test_a_server_that_cannot_answer_now_is_asked_again(status):
    with pytest.raises(ControlPlaneBusyError) as caught:
        report(ServerResponse(status=status, body=b"<html>", retry_after_s=7.0))
    assert caught.value.retry_after_s == 7.0


@pytest.mark.parametrize("status", [400, 404, 409, 422])
def test_a_refused_message_says_so_with_the_code(status):
    with pytest.raises(MessageRejectedError, match="stale_report"):
        report(ServerResponse(status=status, body=b'{"code": "stale_report"}'))


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"version": "x"}'])
def test_an_answer_that_is_none_of_ours_is_tried_again(body):
    with pytest.raises(ControlPlaneBusyError):
        asyncio.run(
            Link(ScriptedTransport(ServerResponse(status=200, body=body)), MemoryCredentials(KNOWN)).poll(0, wait_s=1)
        )


def test_fields_of_a_newer_control_plane_are_ignored():
    body = b'{"version": 4, "is_full": true, "something_new": [1], "orders": []}'
    orders = asyncio.run(
        Link(ScriptedTransport(ServerResponse(status=200, body=body)), MemoryCredentials(KNOWN)).poll(0, wait_s=1)
    )
    assert orders == Orders(version=4, is_full=True)


def test_waits_double_from_one_second_to_thirty_and_differ_between_agents():
    waits = [Backoff(PAUSES, random.Random(seed)) for seed in range(2)]
    ours, theirs = ([backoff.next_wait_s() for _ in range(8)] for backoff in waits)
    for wait, base in zip(ours, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert base <= wait <= base * 1.3
    assert ours != theirs
    waits[0].reset()
    assert waits[0].next_wait_s() < 2


def test_waits_stay_below_what_a_registration_asks_for_and_still_differ():
    backoff = Backoff(PAUSES, random.Random(0))
    told = Registered(epoch=1, heartbeat_s=5.0, silent_after_s=15.0, stop_after_s=12.0)
    waits = [backoff.next_wait_s(longest_s=longest_pause_s(told)) for _ in range(8)]
    for wait, base in zip(waits, [1, 2, 4, 4, 4, 4, 4, 4], strict=True):
        assert base <= wait <= base * 1.3
    assert len(set(waits)) == len(waits)
    busy = ControlPlaneBusyError("busy", retry_after_s=20.0)
    assert backoff.next_wait_s(busy.retry_after_s, longest_s=longest_pause_s(told)) >= 20.0, "the server's word counts"


@pytest.mark.parametrize(
    ("silent_after_s", "stop_after_s", "longest_s"),
    [
        (15.0, 12.0, 4.0),
        (15.0, 0.0, 5.0),
        (15.0, 1e-9, 5.0),  # a lease that has run out before it is read
        (3600.0, 2880.0, 30.0),
        (0.5, 0.0, 0.5 / 3),
        (1e-9, 0.0, 0.1),
        (0.0, 0.0, 30.0),
        (-1.0, 0.0, 30.0),
    ],
)
def test_longest_pause_is_a_third_of_the_shortest_deadline(silent_after_s, stop_after_s, longest_s):
    told = Registered(epoch=1, heartbeat_s=5.0, silent_after_s=silent_after_s, stop_after_s=stop_after_s)
    assert longest_pause_s(told) == pytest.approx(longest_s)


def test_a_wait_is_never_shorter_than_the_server_asked_for():
    assert (
        Backoff(PAUSES, random.Random(0)).next_wait_s(ControlPlaneBusyError("busy", retry_after_s=20.0).retry_after_s)
        >= 20.0
    )


def test_a_credential_file_is_for_its_owner_only(tmp_path):
    path = tmp_path / "state" / "credential"
    file = CredentialFile(path)
    assert file.load() is None
    file.save(KNOWN)
    assert path.stat().st_mode & 0o777 == 0o600
    assert CredentialFile(path).load() == KNOWN
    path.chmod(0o640)
    with pytest.raises(InputError, match="others"):
        file.load()


def test_a_damaged_credential_file_says_what_to_do(tmp_path):
    path = tmp_path / "credential"
    path.write_text("{")
    path.chmod(0o600)
    with pytest.raises(InputError) as caught:
        CredentialFile(path).load()
    assert "join" in caught.value.hint


def test_a_token_is_read_from_a_private_file(tmp_path):
    path = tmp_path / "token"
    path.write_text("  abc\n")
    path.chmod(0o600)
    assert read_token(path) == "abc"
    path.write_text("\n")
    with pytest.raises(InputError, match="empty"):
        read_token(path)
    with pytest.raises(InputError, match="cannot read"):
        read_token(tmp_path / "nothing")


def test_no_secret_is_shown_when_an_identity_is_printed():
    assert "secret-1" not in repr(KNOWN)


DEEP = b'{"unknown": ' + b"[" * 100_000
NO_UTF8 = b'{"detail": "\xff", "credential": "\xff"}'
REGISTER = Register(
    boot="b", agent="a", version="1", driver="fake", capabilities={}, size=HostSize(cpu_millis=1, memory_bytes=1)
)


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("body", [DEEP, NO_UTF8], ids=["deep", "no UTF-8"])
def test_an_answer_that_cannot_be_read_is_waited_for_again(body, status):
    link = Link(ScriptedTransport(ServerResponse(status=status, body=body)), MemoryCredentials())
    with pytest.raises(ControlPlaneBusyError):
        asyncio.run(link.join("token", "name") if status == 200 else link.report(REPORT))


@pytest.mark.parametrize(
    "said",
    [{"heartbeat_s": 1e300}, {"heartbeat_s": 0.0}, {"heartbeat_s": -1.0}, {"stop_after_s": 1e300},
     {"stop_after_s": -1.0}, {"epoch": 2**70}, {"credential": "a\r\nb"}, {"credential": "x" * 5000}],
    ids=str,
)  # fmt: skip
def test_a_registration_that_nobody_means_is_neither_obeyed_nor_kept(said):
    usual = {"epoch": 1, "heartbeat_s": 5.0, "silent_after_s": 30.0, "credential": "next"}
    body = json.dumps(usual | said).encode()
    credentials = MemoryCredentials(KNOWN)
    with pytest.raises(ControlPlaneBusyError):
        asyncio.run(Link(ScriptedTransport(ServerResponse(status=200, body=body)), credentials).register(REGISTER))
    assert credentials.load() == KNOWN


def test_a_credential_that_no_header_can_carry_is_not_kept():
    credentials = MemoryCredentials()
    script = ScriptedTransport(answer(Joined(host="h", credential="a\r\nX: b", protocol=1)))
    with pytest.raises(ControlPlaneBusyError):
        asyncio.run(Link(script, credentials).join("token", "name"))
    assert credentials.load() is None


@pytest.mark.parametrize(
    "content", [DEEP, b'{"host": "\xff", "credential": "c"}', b'{"host": "h", "credential": "a\\r\\nb"}'], ids=ascii
)
def test_a_file_that_holds_no_credential_is_refused(tmp_path, content):
    file = tmp_path / "credential"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(InputError, match=r"does not hold an agent's credential|is too long"):
        CredentialFile(file).load()


@pytest.mark.parametrize("content", [b"x" * 5000, b"x" * 5 * 2**20, b"two words"], ids=["long", "very long", "words"])
def test_a_file_that_holds_no_token_is_refused_at_once(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(InputError, match=r"holds no token|is too long"):
        read_token(file)


@pytest.mark.parametrize("path", ["/dev/zero", "/tmp"])
def test_what_is_no_file_is_not_to_be_made_private(path):
    with pytest.raises(InputError, match="is no file") as caught:
        read_token(Path(path))
    assert "chmod" not in caught.value.hint


def test_a_server_that_asks_to_be_left_alone_for_ever_is_asked_again():
    busy = ControlPlaneBusyError("busy", retry_after_s=float("inf"))
    assert Backoff(PAUSES, random.Random(0)).next_wait_s(busy.retry_after_s) <= 400.0
