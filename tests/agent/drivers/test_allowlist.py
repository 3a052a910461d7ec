"""What orders may name of a host: files below the roots and nowhere else, and bridges that its operator allows."""

from __future__ import annotations

import os

import pytest

from hostler.agent.driver import BlockedError, PermanentError, UnsupportedError
from hostler.agent.drivers.machine.allowlist import check_bridge, under_roots
from hostler.agent.messages import VmNetwork


@pytest.fixture
def roots(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for root in (first, second):
        root.mkdir()
    (first / "image").write_bytes(b"1")
    (second / "sub").mkdir()
    (second / "sub" / "other").write_bytes(b"2")
    (tmp_path / "secret").write_bytes(b"3")
    return first, second


def test_a_file_is_found_by_its_path_or_relative_to_any_root(roots):
    first, second = roots
    assert under_roots(str(first / "image"), roots) == first / "image"
    assert under_roots("image", roots) == first / "image"
    assert under_roots("sub/other", roots) == second / "sub" / "other"


def test_a_link_within_the_roots_is_followed_to_the_real_file(roots):
    first, second = roots
    (first / "link").symlink_to(second / "sub" / "other")
    assert under_roots("link", roots) == second / "sub" / "other"


@pytest.mark.parametrize("name", ["../secret", "sub/../../secret", "/etc/passwd", "", "image\0", "/", "first/../image"])
def test_a_path_that_leads_out_is_refused(name, roots):
    with pytest.raises(PermanentError):
        under_roots(name, roots)


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", ".."])
def test_a_link_that_leads_out_is_refused(target, roots):
    (roots[0] / "link").symlink_to(target)
    with pytest.raises(PermanentError):
        under_roots("link" if target != ".." else "link/secret", roots)


def test_a_neighbour_whose_name_begins_like_a_root_is_outside(roots, tmp_path):
    (tmp_path / "first-not").mkdir()
    (tmp_path / "first-not" / "image").write_bytes(b"4")
    with pytest.raises(PermanentError):
        under_roots(str(tmp_path / "first-not" / "image"), roots)


def test_a_file_with_a_comma_in_its_name_is_refused(roots):
    (roots[0] / "a,b").write_bytes(b"5")
    with pytest.raises(PermanentError, match="cannot be given to QEMU"):
        under_roots("a,b", roots)


def test_a_missing_file_may_come_later(roots):
    with pytest.raises(BlockedError):
        under_roots("not-yet", roots)
    with pytest.raises(BlockedError):
        under_roots(str(roots[1] / "not-yet"), roots)


def test_what_is_no_file_is_not_taken(roots):
    os.mkfifo(roots[0] / "pipe")
    (roots[0] / "ring").symlink_to("ring")
    for name in ("pipe", "sub", "ring"):
        with pytest.raises(BlockedError):
            under_roots(name, roots)


def test_without_roots_no_path_is_taken():
    with pytest.raises(PermanentError):
        under_roots("/etc/passwd", ())


@pytest.mark.parametrize(
    ("bridges", "error"), [((), UnsupportedError), (("br1",), PermanentError)], ids=["there are none", "another one"]
)
def test_a_bridge_that_the_operator_did_not_allow_is_refused(bridges, error):
    with pytest.raises(error) as caught:
        check_bridge(VmNetwork(kind="bridge", bridge="br0"), bridges)
    assert type(caught.value) is error
    check_bridge(VmNetwork(kind="bridge", bridge="br0"), (*bridges, "br0"))
    check_bridge(VmNetwork(kind="user"), bridges)
