"""How errors are worded: short, on one line, with the nearest name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config import convert, describe_path, did_you_mean, parse_documents, quote
from hostler.config.fleet.file import FleetFile
from hostler.errors import InputError


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param((), "the document", id="root"),
        pytest.param(("hosts", 0, "capacity"), "hosts[0].capacity", id="plain"),
        pytest.param(("labels", "a.b/c"), "labels['a.b/c']", id="odd-key"),
        pytest.param((3,), "[3]", id="item"),
    ],
)
def test_path_is_written_as_a_person_would(path, text):
    assert describe_path(path) == text


@given(st.text())
def test_quoted_text_is_short_and_on_one_line(text):
    shown = quote(text)
    assert shown.isprintable()
    assert len(shown) < 700


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        pytest.param("sprad", ["spread", "pack"], "did you mean 'spread'?", id="near"),
        pytest.param("xyz", ["spread", "pack"], "known: pack, spread", id="far"),
        pytest.param("xyz", [], "", id="nothing-known"),
        pytest.param(
            "?",
            [f"n{i:02d}" for i in range(20)],
            "known: " + ", ".join(f"n{i:02d}" for i in range(12)) + " and 8 more",
            id="many",
        ),
        pytest.param("z" * 1_000_000, ["zz"], "known: zz", id="huge-name"),
    ],
)
def test_hint_names_the_nearest_or_lists_some(name, known, hint):
    assert did_you_mean(name, known) == hint


def test_huge_unknown_key_gives_a_short_error():
    document = parse_documents(b"? " + b"k" * 1_000_000 + b"\n: 1\n", "f")[0]
    with pytest.raises(InputError) as caught:
        convert(document, document.data, FleetFile)
    assert len(str(caught.value)) < 200


def test_part_of_a_document_is_converted_with_its_full_path():
    document = parse_documents(b"a:\n- b:\n    hots: []\n", "f")[0]
    with pytest.raises(InputError, match=r"^f:3: unknown key 'hots' in a\[0\]\.b$"):
        convert(document, {"hots": []}, FleetFile, ("a", 0, "b"))
