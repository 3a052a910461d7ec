"""Secrets are told from typos, kept as hashes, and never printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.control.access.errors import UnauthenticatedError
from hostler.control.access.secrets import bearer_of, hash_secret, make_secret, parse_secret, redact
from tests.control.access.principals import repeatable_random

KINDS = ("key", "token", "credential")
ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


@pytest.mark.parametrize(("kind", "prefix"), [("key", "hk_"), ("token", "hj_"), ("credential", "ha_")])
def test_a_secret_is_read_back_as_what_it_is(kind, prefix):
    made = make_secret(kind, repeatable_random())
    assert made.text.startswith(f"{prefix}{made.id}_")
    assert parse_secret(made.text, kind) == made
    assert made.hash == hash_secret(made.text)
    assert len(made.hash) == 64


def test_a_secret_holds_at_least_192_random_bits():
    asked: list[int] = []

    def give(count: int) -> bytes:
        asked.append(count)
        return bytes(count)

    make_secret("key", give)
    assert max(asked) * 8 >= 192


def test_secrets_differ_in_id_and_random_part():
    random = repeatable_random()
    made = [make_secret("key", random) for _ in range(100)]
    assert len({one.id for one in made}) == len({one.hash for one in made}) == 100


@given(st.integers(0, 67), st.sampled_from(ALPHABET), st.integers(0, 50))
def test_one_wrong_character_differs_from_a_wrong_key(place, letter, seed):
    text = make_secret("key", repeatable_random(seed)).text
    wrong = text[:place] + letter + text[place + 1 :]
    if wrong == text:
        return
    with pytest.raises(UnauthenticatedError) as caught:
        parse_secret(wrong, "key")
    assert caught.value.why == "mistyped"


@given(st.integers(1, 67), st.booleans())
def test_a_part_of_a_secret_is_no_secret(length, from_the_end):
    text = make_secret("key", repeatable_random()).text
    with pytest.raises(UnauthenticatedError) as caught:
        parse_secret(text[-length:] if from_the_end else text[:length], "key")
    assert "copy all of it" in caught.value.hint


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text):
    with pytest.raises(UnauthenticatedError):
        parse_secret(text, "key")
    hash_secret(text)


def test_a_secret_of_another_kind_is_named():
    token = make_secret("token", repeatable_random()).text
    with pytest.raises(UnauthenticatedError, match="an API key is needed here, and this is a join token"):
        parse_secret(token, "key")
    with pytest.raises(UnauthenticatedError, match="an API key is needed") as caught:
        parse_secret("", "key")
    assert caught.value.why == "missing"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "line",
    ["{}", "key={}", '{{"key": "{}"}}', "GET /x?key={}&y=1", "Authorization: Bearer {}", "tried {}, then {}", "x{}y"],
)
def test_no_secret_is_left_in_a_line(line, kind):
    secret = make_secret(kind, repeatable_random())
    for text in (secret.text, secret.text.upper()):
        left = redact(line.replace("{}", text)).lower()
        assert secret.text[20:60] not in left
        assert secret.text[-8:] not in left
    assert "[redacted]" in left


@given(st.integers(21, 68))
def test_what_is_left_of_a_cut_secret_is_removed_too(length):
    text = make_secret("key", repeatable_random()).text[:length]
    left = redact(f"refused {text} today")
    assert left == f"refused {text[:19]}_[redacted] today"


@given(st.integers(20, 67), st.sampled_from("-_ä"))
def test_a_mistyped_secret_is_removed_too(place, letter):
    text = make_secret("key", repeatable_random()).text
    assert redact(f"({text[:place]}{letter}{text[place + 1 :]})") == f"({text[:19]}_[redacted])"


@pytest.mark.parametrize(
    ("header", "secret"), [("Bearer x", "x"), ("bearer  x ", "x"), ("Basic x", ""), ("x", ""), ("", ""), ("Bearer", "")]
)
def test_a_bearer_is_read_from_its_header(header, secret):
    assert bearer_of(header) == secret


def test_the_id_of_a_secret_and_the_rest_of_a_line_stay():
    secret = make_secret("key", repeatable_random())
    assert redact(f"alpha_omega of vm-1 used {secret.text}.") == f"alpha_omega of vm-1 used hk_{secret.id}_[redacted]."
    again = redact(redact(f"Bearer {secret.text}"))
    assert again == redact(f"Bearer {secret.text}")


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("cookie hs_W1siYSJd.c2ln-_x; path", "cookie hs_[redacted]; path"),
        ("postgresql://me:word@db/x", "postgresql://me:[redacted]@db/x"),
        ("the bearer", "the bearer"),
        ("https://host:8470/v1/vms", "https://host:8470/v1/vms"),
    ],
)
def test_sessions_bearers_and_passwords_go_too(line, kept):
    assert redact(line) == kept


def test_a_secret_printed_by_mistake_shows_its_id_only():
    secret = make_secret("key", repeatable_random())
    assert repr(secret) == str(secret) == f"Secret(hk_{secret.id}_[redacted])"
