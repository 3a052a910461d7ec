"""Standard output that is closed, full or gone: the command ends quietly, or says so, and never calls it a bug."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from hostler.cli.kernels import COMPILING
from tests.cli.cli_in_process import DEMO_FILES

ROOT = Path(__file__).resolve().parents[2]
HOSTLER = f"{Path(sys.executable).parent}/hostler"
FULL = "/dev/full"

pytestmark = pytest.mark.skipif(not Path(FULL).exists(), reason="needs /dev/full")

PLACE = f"place {' '.join(DEMO_FILES)}"
WRITERS = {
    "help": "--help",
    "help of a command": "place --help",
    "version": "--version",
    "a table": "policies",
    "more than a buffer": "config schema",
    "json": f"{PLACE} -o json",
    "an explanation": f"explain {' '.join(DEMO_FILES)} web-0",
    "a journal": f"{PLACE} --journal -",
}


def _shell(command: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["bash", "-c", command], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT
    )
    done.stderr = done.stderr.replace(f"{COMPILING}\n", "")
    return done


@pytest.mark.parametrize("words", WRITERS.values(), ids=WRITERS)
def test_a_reader_that_is_gone_ends_it_quietly_with_141(words):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = _shell(f"{HOSTLER} {words}; exit $?", stdout=writer)
    finally:
        os.close(writer)
    assert (result.returncode, result.stderr) == (141, "")


def test_a_reader_that_leaves_in_between_ends_it_quietly():
    result = _shell(f"{HOSTLER} config schema | head -1; exit ${{PIPESTATUS[0]}}")
    assert result.returncode in (0, 141)
    assert (result.stdout, result.stderr) == ("{\n", "")


@pytest.mark.parametrize("words", WRITERS.values(), ids=WRITERS)
def test_a_full_standard_output_is_reported_as_unavailable(words):
    result = _shell(f"{HOSTLER} {words} > {FULL}")
    assert result.returncode == 3
    assert result.stderr.splitlines() == [
        "error: standard output cannot be written: no space left on device",
        "hint: free some space, or send the output elsewhere",
    ]


def test_a_full_file_has_the_same_exit_code():
    result = _shell(f"{HOSTLER} {PLACE} --journal {FULL}")
    assert result.returncode == 3
    assert result.stderr.startswith(f"error: {FULL}: cannot be written: no space left on device\n")


@pytest.mark.parametrize("words", ["--help", "policies", PLACE, f"{PLACE} --journal -"])
def test_without_a_standard_output_it_does_its_work_quietly(words):
    result = _shell(f"{HOSTLER} {words} >&-")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("sink", [f"2> {FULL}", "2>&-", "2>&1 >/dev/null | true; exit ${PIPESTATUS[0]}"])
@pytest.mark.parametrize(("words", "code"), [("nope", 2), ("place -f no-such-file", 2), ("", 2), ("version", 0)])
def test_errors_that_nobody_can_read_keep_their_exit_code(words, code, sink):
    assert _shell(f"{HOSTLER} {words} {sink}").returncode == code


def test_a_standard_output_that_does_not_wait_gets_everything():
    schema = subprocess.run([HOSTLER, "config", "schema"], capture_output=True, check=True).stdout
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    filled = b"x" * os.write(writer, b"x" * 2**20)  # until it holds no more
    with subprocess.Popen([HOSTLER, "config", "schema"], stdout=writer) as process, os.fdopen(reader, "rb") as stream:
        os.close(writer)
        time.sleep(1)  # by now it writes
        assert stream.read() == filled + schema
        assert process.wait(60) == 0


LINE = "".join(f"{number:09}\n" for number in range(600)).encode()
WRITE = f"""
import signal, sys
from hostler.cli.output.streams import guard_streams
signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the process that started us ignores it
try:
    with guard_streams():
        sys.stdout.write({LINE.decode()!r})
        sys.stdout.flush()
except KeyboardInterrupt:
    sys.exit(130)
"""


def _bytes_in(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="needs pipes of another size")
def test_what_was_written_before_an_interrupt_is_not_written_again():
    reader, writer = os.pipe()
    room = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    assert room < len(LINE)  # so that it stands in the middle of a write, with one part of it gone
    with subprocess.Popen([sys.executable, "-c", WRITE], stdout=writer) as process, os.fdopen(reader, "rb") as stream:
        os.close(writer)
        while _bytes_in(reader) < room:
            assert process.poll() is None, "it ended without writing"
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert stream.read() == LINE
        assert process.wait(60) == 130
