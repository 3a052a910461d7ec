"""The conditions that all tests rely on hold, whatever shell, script or job runner starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SHOW = """
import signal, subprocess, sys
import tests.conftest
child = "import signal; print(signal.getsignal({number}) in (signal.SIG_DFL, signal.default_int_handler), "
child += "signal.pthread_sigmask(signal.SIG_BLOCK, []) == set())"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout)
"""


def _ignore(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD])
def test_inherited_signal_disposition_reaches_no_process_of_a_test(number: signal.Signals) -> None:
    """`make test &` in a script starts it with SIGINT ignored, `nohup` with SIGHUP ignored."""
    program = SHOW.format(number=int(number))
    done = subprocess.run(
        [sys.executable, "-c", program], preexec_fn=lambda: _ignore(number), capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["True", "True"], "")


def test_commands_of_a_test_leave_the_state_folder_of_the_user_alone(tmp_path: Path) -> None:
    program = "import tests.conftest; from hostler.config.folders import state_folder; print(state_folder())"
    home = os.environ | {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "mine")}
    done = subprocess.run([sys.executable, "-c", program], env=home, capture_output=True, text=True, check=True)
    found = Path(done.stdout.strip())
    assert not found.is_relative_to(tmp_path)
    assert not found.parent.exists()  # it went with the process
