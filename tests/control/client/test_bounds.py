"""A server that never ends, or sends what no control plane would, costs neither memory nor for ever."""

from __future__ import annotations

import gzip
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from hostler.control.client.client import Client
from hostler.control.client.errors import AnswerError, ServerUnavailableError, UnreachableError
from hostler.control.client.responses import read_lines
from hostler.control.client.server_target import ServerTarget
from hostler.control.client.wire import Wire, list_items
from hostler.control.schemas import Page
from tests.control.client.scripted_server import ScriptedAnswer, scripted_server

DEEP = b"[" * 100_000
NO_UTF8 = b'{"detail": "\xff"}'


@contextmanager
def sending(head: bytes, piece: bytes, *, times: int, pause_s: float = 0.0):
    """Serve the same piece over and over, until the client hangs up or has had so many."""
    ending = threading.Event()

    def serve(there: socket.socket) -> None:
        with there, suppress(OSError):
            there.recv(65536)
            there.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + head + b"\r\n")
            for _ in range(times):
                there.sendall(piece)
                if ending.wait(pause_s):
                    return

    def accept() -> None:
        with suppress(OSError):
            while True:
                there, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(there,)))
                threads[-1].start()

    listener = socket.create_server(("127.0.0.1", 0))
    threads = [threading.Thread(target=accept)]
    threads[0].start()
    try:
        yield ServerTarget(server=f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        ending.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in threads:
            thread.join()


def test_an_answer_that_does_not_end_is_left():
    with (
        sending(b"", b"[" + b" " * 2**20, times=100) as target,
        Wire(target) as wire,
        pytest.raises(AnswerError, match="longer than 64 MiB"),
    ):
        wire.send("GET", "/v1/vms")


def test_an_answer_that_trickles_is_no_answer():
    head = b"Content-Length: 400\r\n"
    with (
        sending(head, b"1", times=400, pause_s=0.02) as target,
        Wire(target, answer_s=0.2, sleep=lambda _: None) as wire,
        pytest.raises(UnreachableError, match="took too long"),
    ):
        wire.send("GET", "/v1/vms")


def test_no_encoding_is_asked_for_and_none_is_taken():
    packed = ScriptedAnswer(body=gzip.compress(b"[" + b" " * 2**20), headers={"Content-Encoding": "gzip"})
    with (
        scripted_server(packed) as script,
        Wire(ServerTarget(server=script.address)) as wire,
        pytest.raises(AnswerError, match=r"encoded \(gzip\)"),
    ):
        wire.send("GET", "/v1/vms")
    assert script.heard[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("piece", [b"x" * 2**16, b"data: " + b"x" * 2**16 + b"\n"], ids=["line", "message"])
def test_a_stream_whose_lines_or_messages_do_not_end_is_left(piece):
    head = b"Content-Type: text/event-stream\r\n"
    with (
        sending(head, piece, times=200) as target,
        Client(target) as client,
        pytest.raises(AnswerError, match="longer than 4 MiB"),
    ):
        next(client.follow())


@pytest.mark.parametrize("pages", [["a", "a"], ["a", "b", "a"]], ids=["the same", "in a circle"])
def test_a_list_that_leads_back_to_itself_is_left(pages):
    answers = [ScriptedAnswer(body={"items": [1], "next": cursor}) for cursor in pages]
    with (
        scripted_server(*answers) as script,
        Wire(ServerTarget(server=script.address)) as wire,
        pytest.raises(AnswerError, match="does not end"),
    ):
        list(list_items(wire, "/v1/things", Page[int]))


def test_a_list_of_nothing_but_empty_pages_is_left():
    answers = [ScriptedAnswer(body={"items": [], "next": str(number)}) for number in range(1000)]
    with (
        scripted_server(*answers) as script,
        Wire(ServerTarget(server=script.address)) as wire,
        pytest.raises(AnswerError, match="does not end"),
    ):
        list(list_items(wire, "/v1/things", Page[int]))
    assert script.answers


@pytest.mark.parametrize("body", [DEEP, b'{"unknown": ' + DEEP, NO_UTF8], ids=["deep", "deep inside", "no UTF-8"])
def test_what_cannot_be_read_is_reported_as_such(body):
    with (
        scripted_server(ScriptedAnswer(body=body)) as script,
        Client(ServerTarget(server=script.address)) as client,
        pytest.raises(AnswerError, match="not understood"),
    ):
        client.whoami()


@pytest.mark.parametrize("body", [DEEP, NO_UTF8], ids=["deep", "no UTF-8"])
def test_a_refusal_that_cannot_be_read_keeps_its_status(body):
    with (
        scripted_server(ScriptedAnswer(status=500, body=body)) as script,
        Client(ServerTarget(server=script.address)) as client,
        pytest.raises(ServerUnavailableError, match="answered 500"),
    ):
        client.whoami()


def test_an_event_that_cannot_be_read_is_reported_as_such():
    stream = ScriptedAnswer(body=b'data: {"unknown": ' + DEEP + b"\n\n", headers={"Content-Type": "text/event-stream"})
    with (
        scripted_server(stream) as script,
        Client(ServerTarget(server=script.address)) as client,
        pytest.raises(AnswerError, match="not understood"),
    ):
        next(client.follow())


class Pieces:
    """An answer that comes in pieces of a test's choice."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.headers: dict[str, str] = {}

    def iter_raw(self):
        return iter(self.pieces)


@pytest.mark.parametrize("size", range(1, 9))
def test_lines_are_the_same_however_they_come_in_pieces(size):
    text = "data: Köln\r\nid: 1\n\n\rdata: a\u2028b\r\n\r\nhalf"
    data = text.encode()
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    assert list(read_lines(Pieces(*pieces))) == ["data: Köln", "id: 1", "", "", "data: a\u2028b", ""]
