"""For all tests: compiled kernels live in the folder that is named by a hash of their sources, as for users.

Random tests draw the same examples in every run, so that a change is judged and not the day's luck; with
``HOSTLER_RANDOM_TESTS=1``, as in ``make test-long``, they look for new ones. How long an example takes says something
about the machine and nothing about the code, so no example has a deadline and none is slow.

What a process inherits from the shell that started it is set here too: a background job of a script ignores SIGINT, and
so would every process that a test starts and interrupts. What commands keep for later, such as the heads of logs that
they know, goes into a folder of this run and not into the home of the person who runs the tests.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

from hypothesis import HealthCheck, settings

from hostler.config import prepare_kernel_cache

_IGNORED_BY_JOBS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM)


def set_signals() -> None:
    """Take every signal as a command started from a terminal does, and block none."""
    for number in _IGNORED_BY_JOBS:
        if signal.getsignal(number) in (signal.SIG_IGN, None):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def set_state_folder() -> None:
    """Give this process, and those that it starts, an empty state folder that is removed with it."""
    folder = tempfile.mkdtemp(prefix="hostler-state-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["XDG_STATE_HOME"] = folder


set_signals()
set_state_folder()
os.umask(0o022)

# Before any test imports the engine: numba reads its cache folder at import, and would not notice an edited callee.
prepare_kernel_cache()

settings.register_profile(
    "hostler",
    derandomize=os.environ.get("HOSTLER_RANDOM_TESTS") != "1",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("hostler")
