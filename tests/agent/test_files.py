"""Files of agents: the old one or the new one, never half of it, and secrets for their owner alone."""

from __future__ import annotations

import os

import pytest

from hostler.agent.files import write_durably, write_whole


@pytest.mark.parametrize("write", [write_whole, write_durably])
def test_a_file_is_replaced_by_a_whole_one(write, tmp_path):
    path = tmp_path / "file"
    for content in (b"first", b"", b"second"):
        write(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [write_whole, write_durably])
def test_what_cannot_be_written_leaves_the_old_file_as_it_was(write, tmp_path):
    path = tmp_path / "file"
    write(path, b"old")
    with pytest.raises(TypeError):
        write(path, "no bytes")
    assert path.read_bytes() == b"old"


def test_what_is_durable_is_for_its_owner_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        write_durably(tmp_path / "secret", b"credential")
    finally:
        os.umask(before)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
