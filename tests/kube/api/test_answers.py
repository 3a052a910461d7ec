"""HTTP responses from bytes: complete, cut anywhere, in every framing, and invalid."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.kube.api.answers import MAX_HEAD_BYTES, parse_answer

SIZED = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nRetry-After: 7\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: t\r\n\r\n"
CHUNKED_PLAIN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
INFORMED = b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED
BARE = b"HTTP/1.1 204 No Content\r\n\r\n"


def parsed(text: bytes, **arguments) -> tuple:
    answer = parse_answer(text, **arguments)
    assert answer is not None
    return answer


def body_of(response) -> bytes:
    return asyncio.run(response.read())


@pytest.mark.parametrize(
    ("text", "status", "body"),
    [
        (SIZED, 201, b"hello"),
        (CHUNKED, 200, b"hello"),
        (CHUNKED_PLAIN, 200, b"hello"),
        (INFORMED, 201, b"hello"),
        (BARE, 204, b""),
        (b"HTTP/1.1 200\r\nContent-Length:0\r\n\r\n", 200, b""),
    ],
)
def test_every_framing_gives_its_body_and_only_when_it_is_whole(text, status, body):
    for cut in range(len(text)):
        assert parse_answer(text[:cut]) is None
    response, is_reusable = parsed(text)
    assert (response.status, body_of(response), is_reusable) == (status, body, True)


def test_headers_have_small_names():
    response, _ = parsed(SIZED)
    assert response.headers == {"content-length": "5", "retry-after": "7"}


@pytest.mark.parametrize(
    "text",
    [
        SIZED + b"more",
        SIZED.replace(b"\r\nRetry", b"\r\nConnection: close\r\nRetry"),
        SIZED.replace(b"HTTP/1.1", b"HTTP/1.0"),
        BARE + b"more",
    ],
)
def test_a_connection_is_not_used_again_when_it_may_not_be(text):
    _, is_reusable = parsed(text)
    assert not is_reusable


def test_without_a_length_the_end_of_the_connection_is_the_end():
    text = b"HTTP/1.1 200 OK\r\n\r\nhel"
    assert parse_answer(text) is None
    response, is_reusable = parsed(text, is_ended=True)
    assert (body_of(response), is_reusable) == (b"hel", False)


def test_a_sized_answer_that_ends_early_is_not_whole():
    assert parse_answer(SIZED[:-1], is_ended=True) is None


@pytest.mark.parametrize(
    "text",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_HEAD_BYTES,
    ],
)
def test_what_is_no_http_is_an_error(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_answer(text)


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_parse_wait_or_fail(text):
    for beginning in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        try:
            answer = parse_answer(beginning + text, is_ended=True)
        except ValueError:
            continue
        assert answer is None or answer[0].status >= 200
