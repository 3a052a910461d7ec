"""Secrets are written to files of their owner, and to nothing else: a device belongs to everybody on the machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hostler.config.secret_files import read_secret_lines, write_secret
from hostler.control.client.server_target import read_key
from hostler.errors import InputError
from tests.cli.control.test_serve_command import run


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """Give something that is no regular file, and that everybody may use."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    path.chmod(0o666)
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_replaces_an_older_one_and_shuts_others_out(tmp_path):
    path = tmp_path / "admin.key"
    path.write_text("an older and longer one\n")
    path.chmod(0o644)
    write_secret(path, "new")
    assert (path.read_text(), mode(path)) == ("new\n", 0o600)


def test_no_secret_is_written_to_a_pipe_even_if_it_has_a_reader(pipe):
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(InputError, match="no regular file"):
            write_secret(pipe, "secret")
        assert os.read(reader, 100) == b""
    finally:
        os.close(reader)
    assert mode(pipe) == 0o666


def test_service_with_pipe_as_key_file_does_not_start(tmp_path, pipe):
    database = tmp_path / "control.db"
    place = ("--database-url", f"sqlite:///{database}", "--listen", "127.0.0.1:0")
    done = run("serve", *place, "--admin-key-file", str(pipe))
    assert done.returncode == 2, done.stderr
    assert f"{pipe} is no regular file" in done.stderr
    assert mode(pipe) == 0o666
    assert not database.exists(), "a key that nobody has seen would be lost"


@pytest.mark.parametrize("read", [read_key, lambda path: read_secret_lines("--key-file", path)], ids=["key", "token"])
@pytest.mark.parametrize("path", ["/dev/zero", "/tmp"])
def test_what_is_no_file_is_not_to_be_made_private(read, path):
    with pytest.raises(InputError, match=f"--key-file: {path} is no file") as caught:
        read(path)
    assert "chmod" not in caught.value.hint


@pytest.mark.parametrize("content", ["x" * 5 * 2**20, "a\x00b"], ids=["long", "NUL"])
def test_a_file_without_a_token_is_refused_before_anybody_is_asked(tmp_path, content):
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(InputError, match=r"--token-file: .* holds no secret"):
        read_secret_lines("--token-file", str(path))
