"""For all tests: compiled kernels live in the folder that is named by a hash of their sources, as for users.

Random tests draw the same examples in every run, so that a change is judged and not the day's luck; with
``HOSTLER_RANDOM_TESTS=1``, as in ``make test-long``, they look for new ones, and for more (``random_examples.py``). How
long an example takes says something about the machine and nothing about the code, so no example has a deadline and none
is slow.

What a process inherits from the shell that started it is set here too: a background job of a script ignores SIGINT, and
so would every process that a test starts and interrupts. What commands keep for later, such as the heads of logs that
they know, goes into a folder of this run and not into the home of the person who runs the tests.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from hostler.config import prepare_kernel_cache
from tests.random_examples import LOOKS_FOR_NEW, count_examples

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


def settle_absent_sniffio() -> None:
    """Say once that sniffio is absent: httpx tries to import it several times for each request, and Python looks in
    every folder of its path each time. That was a quarter of the time of tests that send many requests."""
    if importlib.util.find_spec("sniffio") is None:
        sys.modules["sniffio"] = None  # type: ignore[assignment]  # an import of it fails at once


set_signals()
set_state_folder()
settle_absent_sniffio()
os.umask(0o022)

# Before any test imports the engine: numba reads its cache folder at import, and would not notice an edited callee.
prepare_kernel_cache()

settings.register_profile(
    "hostler",
    max_examples=count_examples(100),
    derandomize=not LOOKS_FOR_NEW,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("hostler")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the files that take longest begin first: one that began last would be waited for by all other workers."""
    early = {item.path for item in items if item.get_closest_marker("early")}
    items.sort(key=lambda item: item.path not in early)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: nearly all of it stays, and looking took a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Take what was collected and imported out of the garbage collector's sight: it stays for the whole run, and every
    full collection would look through it; there is one after each file."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio, as the product runs."""
    return "asyncio"
