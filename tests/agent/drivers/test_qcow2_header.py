"""Headers of qcow2 as strangers write them: whatever is changed, reading is bounded and what is accepted is ours."""

from __future__ import annotations

import json
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.agent.drivers.machine.qcow2_header import read_header, why_not_image, why_not_overlay
from tests.agent.drivers.qemu_setup import MIB, real_parts
from tests.random_examples import count_examples

SIZE = 4 * MIB


@pytest.fixture(scope="module")
def overlay(tmp_path_factory):
    """The bytes of a disk over an image, as the real qemu-img makes it."""
    real_parts()
    path = tmp_path_factory.mktemp("disks") / "disk"
    make = ["qemu-img", "create", "-q", "-f", "qcow2", "-u", "-F", "raw", "-b", "/images/base", path, str(SIZE)]
    subprocess.run(make, check=True)
    return path.read_bytes()


def reason(content):
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return why_not_overlay(read_header(file.fileno()), base="base", sizes=(SIZE,))


def test_disk_as_we_make_it_is_accepted(overlay):
    assert reason(overlay) == ""


@given(content=st.binary(max_size=300))
def test_bytes_that_are_no_disk_have_a_reason(content):
    assert reason(content)
    assert reason(b"QFI\xfb" + content)


@pytest.mark.parametrize("at", [2**64 - 1, 2**63, 2**63 - 1, 2**32, 1 << 16], ids=hex)
def test_name_beyond_the_first_cluster_is_rejected(overlay, at):
    """No read may fail by where a header says that its name stands."""
    content = overlay[:8] + struct.pack(">QI", at, 4) + overlay[20:]
    assert reason(content) == f"has a damaged header: a name at byte {at}"


def test_version_zero_is_rejected(overlay):
    assert reason(overlay[:4] + bytes(4) + overlay[8:]) == "is in version 0 of qcow2, not 3"


@settings(deadline=None, max_examples=count_examples(150))
@given(changes=st.lists(st.tuples(st.integers(0, 600), st.binary(min_size=1, max_size=8)), min_size=1, max_size=3))
def test_changed_header_is_rejected_or_names_no_further_file(overlay, changes):
    """What passes our check is also harmless in the eyes of the real qemu-img, which knows the format best."""
    content = bytearray(overlay)
    for at, new in changes:
        content[at : at + len(new)] = new
    if reason(bytes(content)):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "disk")
        path.write_bytes(content)
        done = subprocess.run(["qemu-img", "info", "--output=json", path], capture_output=True, check=False)
    if done.returncode:
        return  # QEMU would not open it either
    found = json.loads(done.stdout)
    assert found["virtual-size"] == SIZE
    assert Path(found["backing-filename"]).name == "base"
    more = found["format-specific"]["data"]
    assert "data-file" not in more
    assert not found.get("encrypted")
    assert not found.get("snapshots")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "is laid over /images/base"),
        ({79: 4}, "keeps its data in another file"),
        ({8: 0, 14: 0, 15: 0, 35: 2}, "is encrypted"),
    ],
)
def test_image_that_reaches_further_has_a_reason(overlay, changes, expected):
    content = bytearray(overlay)
    for at, byte in changes.items():
        content[at] = byte
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        header = read_header(file.fileno())
    assert header is not None
    assert why_not_image(header) == expected
