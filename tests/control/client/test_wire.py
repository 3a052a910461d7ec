"""What is sent again, what is not, and what answers become."""

from __future__ import annotations

import socket

import pytest

from hostler.control.client.client import Client
from hostler.control.client.errors import (
    AnswerError,
    NotAllowedError,
    NotPlacedError,
    RejectedInputError,
    ServerConflictError,
    ServerNotFoundError,
    ServerUnavailableError,
    UnreachableError,
)
from hostler.control.client.server_target import ServerTarget
from hostler.control.client.wire import Wire
from tests.control.client.scripted_server import ScriptedAnswer, scripted_server

OK = ScriptedAnswer(body={"fine": True})


def problem(status, code, *, retry=None, **more):
    body = {"title": "No", "status": status, "code": code, "detail": "not so", "hint": "do otherwise", **more}
    return ScriptedAnswer(status, body, {} if retry is None else {"Retry-After": str(retry)})


def ask(script, method="GET", **more):
    """Send one request, and return what came of it and how long each pause would have been."""
    pauses: list[float] = []
    with Wire(ServerTarget(server=script.address, key="secret"), sleep=pauses.append) as wire:
        return wire.send(method, "/v1/things", **more), pauses


def test_the_key_is_shown_and_the_body_is_json():
    with scripted_server(OK) as script:
        ask(script, "POST", body={"a": 1})
    [heard] = script.heard
    assert heard.headers["authorization"] == "Bearer secret"
    assert heard.headers["content-type"] == "application/json"
    assert heard.body == b'{"a":1}'


def test_an_answer_that_got_lost_is_asked_for_again_with_the_same_key():
    with scripted_server(ScriptedAnswer(body={"long": "x" * 100}, is_cut=True), OK) as script:
        answer, _ = ask(script, "POST", body={"a": 1})
    assert answer.decode(dict) == {"fine": True}
    first, second = (heard.headers["idempotency-key"] for heard in script.heard)
    assert first == second


def test_two_changes_have_two_keys():
    with scripted_server(OK, OK) as script:
        ask(script, "POST")
        ask(script, "POST")
    assert len({heard.headers["idempotency-key"] for heard in script.heard}) == 2


def test_what_answers_with_a_secret_is_not_asked_for_again():
    with (
        scripted_server(ScriptedAnswer(body={"long": "x" * 100}, is_cut=True)) as script,
        pytest.raises(UnreachableError),
    ):
        ask(script, "POST", is_once=True)
    assert len(script.heard) == 1
    assert "idempotency-key" not in script.heard[0].headers


def test_reading_carries_no_idempotency_key():
    with scripted_server(OK) as script:
        ask(script)
    assert "idempotency-key" not in script.heard[0].headers


@pytest.mark.parametrize("status", [429, 503])
def test_postponed_request_is_sent_again_at_the_given_time(status):
    with scripted_server(problem(status, "later", retry=7), OK) as script:
        _, pauses = ask(script, "POST")
    assert pauses == [7]


def test_request_postponed_for_ever_is_an_error():
    with (
        scripted_server(*[problem(503, "database_unavailable", retry=1)] * 4) as script,
        pytest.raises(ServerUnavailableError) as caught,
    ):
        ask(script)
    assert len(script.heard) == 4
    assert (caught.value.code, caught.value.exit_code) == ("database_unavailable", 3)


def test_request_postponed_for_an_hour_is_an_error_at_once():
    with (
        scripted_server(problem(429, "too_many_requests", retry=3600)) as script,
        pytest.raises(ServerUnavailableError),
    ):
        ask(script)


def test_a_503_without_a_time_is_not_repeated():
    with scripted_server(problem(503, "agent_service_unavailable")) as script, pytest.raises(ServerUnavailableError):
        ask(script, "POST")


def test_no_host_being_ready_is_an_answer():
    with (
        scripted_server(problem(503, "no_available_agents", retry=1)) as script,
        pytest.raises(ServerUnavailableError) as caught,
    ):
        ask(script, "POST")
    assert caught.value.code == "no_available_agents"


@pytest.mark.parametrize(
    ("status", "code", "kind", "exit_code"),
    [
        (400, "invalid_strategy", RejectedInputError, 2),
        (401, "unauthenticated", NotAllowedError, 2),
        (403, "forbidden", NotAllowedError, 2),
        (404, "not_found", ServerNotFoundError, 2),
        (409, "name_taken", ServerConflictError, 4),
        (412, "stale_version", ServerConflictError, 4),
        (422, "idempotency_mismatch", ServerConflictError, 4),
        (413, "too_large", RejectedInputError, 2),
        (500, "internal", ServerUnavailableError, 3),
    ],
)
def test_a_refusal_keeps_its_code_and_hint(status, code, kind, exit_code):
    with scripted_server(problem(status, code)) as script, pytest.raises(kind) as caught:
        ask(script, "POST")
    error = caught.value
    assert (error.code, error.exit_code, error.message, error.hint) == (code, exit_code, "not so", "do otherwise")


def test_a_refusal_keeps_its_cause():
    refused = problem(409, "deletion_protected", cause={"code": "protected", "kind": "vm", "name": "db"})
    with scripted_server(refused) as script, pytest.raises(ServerConflictError) as caught:
        ask(script, "DELETE")
    assert caught.value.cause == ("protected", "vm", "db")


def test_a_service_that_tells_no_causes_is_understood():
    refused = problem(409, "deletion_protected")
    with scripted_server(refused) as script, pytest.raises(ServerConflictError) as caught:
        ask(script, "DELETE")
    assert caught.value.cause is None


def test_a_vm_that_nobody_has_room_for_is_an_answer_with_its_decision():
    with (
        scripted_server(problem(409, "insufficient_resources", decision={"chosen": None})) as script,
        pytest.raises(NotPlacedError) as caught,
    ):
        ask(script, "POST")
    assert caught.value.exit_code == 1
    assert caught.value.problem.decision == {"chosen": None}


def test_the_code_of_one_refusal_does_not_stay_with_the_next():
    with scripted_server(problem(409, "name_taken"), ScriptedAnswer(409, b"")) as script:
        for code in ("name_taken", "conflict"):
            with pytest.raises(ServerConflictError) as caught:
                ask(script)
            assert caught.value.code == code


def test_a_page_of_a_proxy_is_no_bug_of_ours():
    page = ScriptedAnswer(502, b"<html>Bad gateway</html>", {"Content-Type": "text/html"})
    with scripted_server(page) as script, pytest.raises(ServerUnavailableError) as caught:
        ask(script)
    assert caught.value.message == "the server answered 502"


def test_a_redirection_is_not_followed_with_the_key():
    with (
        scripted_server(ScriptedAnswer(302, b"", {"Location": "http://elsewhere.example/"})) as script,
        pytest.raises(RejectedInputError),
    ):
        ask(script)
    assert len(script.heard) == 1


def test_answer_of_another_program_is_not_understood():
    with (
        scripted_server(ScriptedAnswer(body="hello")) as script,
        Client(ServerTarget(server=script.address)) as client,
        pytest.raises(AnswerError) as caught,
    ):
        client.whoami()
    assert "not understood" in caught.value.message


def test_nobody_at_the_address_is_tried_a_few_times():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"  # ours, so that nobody else listens there
        pauses: list[float] = []
        with Wire(ServerTarget(server=address), sleep=pauses.append) as wire, pytest.raises(UnreachableError) as caught:
            wire.send("POST", "/v1/vms", is_once=True)
    assert len(pauses) == 3
    assert caught.value.exit_code == 3
    assert "hostler serve" in caught.value.hint


@pytest.mark.parametrize(
    ("method", "hint"),
    [("GET", "try again in a moment"), ("POST", "it may be done: look at what is there, then try again")],
)
def test_who_gets_no_answer_is_reported_whether_something_may_have_changed(method, hint):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        target = ServerTarget(server=f"http://127.0.0.1:{silent.getsockname()[1]}")
        with Wire(target, sleep=lambda seconds: None, answer_s=0.05) as wire, pytest.raises(UnreachableError) as caught:
            wire.send(method, "/v1/vms")
    assert caught.value.message.endswith("took too long to answer")
    assert caught.value.hint == hint


def test_the_key_is_not_shown_by_what_holds_it():
    assert "secret" not in repr(ServerTarget(server="http://127.0.0.1:1", key="secret"))
