"""A secret given in place of a file or an address is reported as that, and never printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.config.secret_files import read_secret_lines
from hostler.control.access.secrets import Kind, make_secret
from hostler.control.client.server_target import check_server, read_key
from hostler.errors import InputError


def secret(kind: Kind) -> str:
    return make_secret(kind, lambda count: bytes(range(count))).text


def said(caught: pytest.ExceptionInfo[InputError]) -> str:
    return f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("kind", ["key", "token", "credential"])
def test_a_key_given_instead_of_a_file_is_not_echoed(kind: Kind) -> None:
    text = secret(kind)
    for given in (text, text[:40], text.upper(), f"./{text}"):
        with pytest.raises(InputError, match="looks like a key") as caught:
            read_key(given)
        assert given not in said(caught)
        assert text[20:36].lower() not in said(caught).lower()
        assert "into a file" in caught.value.hint
        with pytest.raises(InputError, match="looks like a secret") as caught:
            read_secret_lines("--token-file", given)
        assert text[20:36].lower() not in said(caught).lower()
        assert "into a file" in caught.value.hint


def test_a_file_that_is_named_like_a_key_is_read_and_its_name_not_printed(tmp_path: Path) -> None:
    text = secret("key")
    path = tmp_path / text
    path.write_text("the-key\n")
    path.chmod(0o600)
    assert read_key(str(path)) == "the-key"
    assert read_secret_lines("--key-file", str(path)) == ["the-key"]
    path.write_text("")
    for read in (read_key, lambda name: read_secret_lines("--key-file", name)):
        with pytest.raises(InputError, match="empty") as caught:
            read(str(path))
        assert text not in said(caught)
    path.chmod(0o644)
    for read in (read_key, lambda name: read_secret_lines("--key-file", name)):
        with pytest.raises(InputError, match="others") as caught:
            read(str(path))
        assert text not in said(caught)


def test_a_key_in_the_place_of_an_address_is_not_echoed() -> None:
    text = secret("key")
    for given in (text, f"https://{text}@control.example"):
        with pytest.raises(InputError, match="looks like a key") as caught:
            check_server(given)
        assert text not in said(caught)


def test_a_file_that_is_not_there_is_still_named() -> None:
    with pytest.raises(InputError, match=r"/nowhere/admin\.key cannot be read"):
        read_key("/nowhere/admin.key")
