"""Bytes to lines: every cut gives the same lines."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.kube.api.answers import LineSplitter
from hostler.runtime.transport import TransportError


@given(
    text=st.binary(max_size=60).map(lambda text: text.replace(b"\r", b"\n") + b"\n"), cuts=st.lists(st.integers(0, 60))
)
def test_the_lines_are_those_of_the_whole_text(text, cuts):
    splitter = LineSplitter()
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    got = [line for start, end in itertools.pairwise(edges) for line in splitter.feed(text[start:end])]
    splitter.end()
    assert got == [line for line in text.split(b"\n") if line]


def test_an_end_inside_a_line_is_an_error():
    splitter = LineSplitter()
    assert splitter.feed(b"a\nb") == [b"a"]
    with pytest.raises(TransportError, match="middle of a line"):
        splitter.end()


def test_a_line_has_a_limit_however_small_its_pieces():
    splitter = LineSplitter(max_line_bytes=2**20)
    for _ in range(2**20 // 4096):
        assert splitter.feed(b"x" * 4096) == []
    with pytest.raises(TransportError, match="more than 1 MB"):
        splitter.feed(b"x")


def test_a_limit_is_for_one_line_and_not_for_the_stream():
    splitter = LineSplitter(max_line_bytes=10)
    for _ in range(10):
        assert splitter.feed(b"12345678\n123") == [b"12345678"]
        assert splitter.feed(b"\n") == [b"123"]
