"""The real command in a process of its own: streams, signals and start-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.cli_in_process import DEMO_FILES, write

ROOT = Path(__file__).resolve().parents[2]
MODULE = [sys.executable, "-m", "hostler"]
SCRIPTS = str(Path(sys.executable).parent)


def _run(*words: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MODULE, *words], capture_output=True, text=True, check=False, cwd=ROOT, **options)


def test_the_command_and_the_module_are_the_same():
    command = subprocess.run([f"{SCRIPTS}/hostler", "version"], capture_output=True, text=True, check=True, cwd=ROOT)
    assert command.stdout == _run("version").stdout


def test_place_writes_plain_columns_into_a_pipe():
    result = _run("place", *DEMO_FILES)
    assert result.returncode == 0
    assert result.stdout.startswith("GUEST       HOST       DEVICES\n")
    assert "\x1b" not in result.stdout


def test_the_answer_no_is_exit_code_1(tmp_path):
    result = _run("place", "-f", str(write(tmp_path / "f.yaml", "guests: [{name: g}]\n")))
    assert result.returncode == 1


def test_an_error_has_no_traceback():
    result = _run("place", "-f", "no-such-file")
    assert result.returncode == 2
    assert result.stderr.startswith("error: no-such-file: cannot be read")
    assert "Traceback" not in result.stderr


def test_files_and_standard_input_can_be_mixed():
    guests = (ROOT / "demo" / "guests.yaml").read_text()
    assert _run("place", "-f", "demo/fleet.yaml", "-f", "-", input=guests).returncode == 0


@pytest.mark.parametrize("words", [["--help"], ["place", "--help"], ["completion", "fish"]])
def test_help_imports_nothing_that_takes_time(words):
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "hostler", *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    imported = {line.rsplit("|", 1)[-1].strip() for line in result.stderr.splitlines() if "|" in line}
    assert "click" in imported
    heavy = {"numpy", "numba", "msgspec", "yaml", "rich", "platformdirs", "hostler.engine", "hostler.config"}
    assert not imported & heavy


def test_a_reader_that_goes_away_ends_it_quietly():
    # The reader is gone before anything is written.
    command = f"{SCRIPTS}/hostler config schema | true; exit ${{PIPESTATUS[0]}}"
    slow = f"{SCRIPTS}/hostler place {' '.join(DEMO_FILES)} | head -c 1 > /dev/null"
    for words in (command, slow):
        result = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False, cwd=ROOT)
        assert result.returncode in (0, 141)
        assert result.stderr == ""


def test_an_interrupt_ends_it_with_130():
    reader, writer = os.pipe()  # standard input that never ends
    process = subprocess.Popen(
        [*MODULE, "place", "-f", "demo/fleet.yaml", "-f", "-"],
        stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        # A shell starts background jobs with interrupts ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        # More than a pipe holds: the second write returns only when the command is up and reads.
        os.write(writer, b"x" * 65_536)
        os.write(writer, b"x" * 65_536)
        # An interrupt between two reads is noticed only by the next one, so it may take another.
        for _ in range(20):
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
                break
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
        os.close(reader)
        os.close(writer)
    assert process.returncode == 130
    assert errors.strip() == ""


def test_a_cold_start_says_that_it_compiles_and_a_warm_one_does_not(tmp_path):
    """The marker alone decides what is said, so the kernels of this machine are used here, and stay as they are."""
    from hostler.cli.kernels import COMPILING
    from hostler.config import prepare_kernel_cache

    cache = prepare_kernel_cache()
    if cache.folder is None:
        pytest.skip("no place for compiled kernels here")
    twin = tmp_path / "kernels"
    subprocess.run(["cp", "-r", str(cache.folder), str(twin)], check=True)
    (twin / "complete").unlink(missing_ok=True)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(twin)}
    cold, warm = (_run("place", *DEMO_FILES, env=environment) for _ in range(2))
    assert cold.stderr == f"{COMPILING}\n"
    assert warm.stderr == ""
    assert cold.stdout == warm.stdout
