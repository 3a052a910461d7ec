"""Files that are replaced as a whole: the old one or the new one, and secrets for their owner alone."""

from __future__ import annotations

import os

import pytest

from hostler.runtime.files import new_file, write_durably, write_file, write_private


@pytest.mark.parametrize("write", [write_file, write_durably])
def test_a_file_is_replaced_by_a_whole_one(write, tmp_path):
    path = tmp_path / "file"
    for content in (b"first", b"", b"second"):
        write(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [write_file, write_durably])
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


def test_link_in_the_way_is_replaced_and_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"theirs")
    path = tmp_path / "file"
    path.with_name("file.new").symlink_to(other)
    write_file(path, b"ours")
    assert (path.read_bytes(), other.read_bytes()) == (b"ours", b"theirs")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "other"]


def test_failure_while_writing_leaves_nothing_behind(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(TypeError), new_file(path) as stream:
        stream.writelines([b"half", None])  # type: ignore[list-item]
    assert list(tmp_path.iterdir()) == []


def test_private_file_is_for_its_owner_alone(tmp_path):
    write_private(tmp_path / "key", b"secret", part=tmp_path / "part")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
