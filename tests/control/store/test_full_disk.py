"""A full disk refuses changes, and says so: nothing is half there, and all goes on when there is room again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

_MOUNT = 'mount -t tmpfs -o size=2m none "$0" && exec "$@"'
_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Fill a small disk that only one process sees, and return what it tells of it."""
    folder = tmp_path_factory.mktemp("disk")
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _MOUNT, str(folder)]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    words = [*alone, sys.executable, "-m", "tests.control.store.full_disk", str(folder)]
    done = subprocess.run(words, cwd=_ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found


def test_a_full_disk_is_a_refusal_with_its_cause_and_a_cure(told):
    code, message, hint = told["error"]
    assert (code, message) == ("database_full", "the disk of the database is full, and nothing was written")
    assert "free space" in hint


def test_a_write_that_fails_is_counted_by_its_cause(told):
    assert told["failures"] == {"database_full": 1}


def test_what_was_refused_is_not_there_and_what_was_not_is(told):
    assert told["written"] > 0
    assert told["kept"] == told["written"]


def test_changes_are_taken_again_as_soon_as_there_is_room(told):
    assert told["more"] > 0
