"""Who runs cells: this process, processes of this machine, or the workers of a Dask cluster.

All three take cells and yield them done, in whatever order they end; the bytes of a result are the same. Closing the
generator, as Ctrl-C does, ends what it has started.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, connection, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import TypeAlias

import msgspec

from hostler.sim.sweeps.cells import CellRun, SweepCell, failed_result, run_cell_bytes, run_cell_or_fail

__all__ = ["Runner", "compile_kernels", "dead_process_result", "run_here", "run_in_processes", "usable_cores"]

Runner: TypeAlias = Callable[[Sequence[SweepCell]], Generator[CellRun, None, None]]

_PATIENCE_S = 10  # for a process to end that was told to
_AHEAD = 2  # cells per process that are handed out, so that none waits for its next one


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_here(cells: Sequence[SweepCell]) -> Generator[CellRun, None, None]:
    """Run cells one after the other in this process."""
    for cell in cells:
        yield run_cell_or_fail(cell)


def run_in_processes(cells: Sequence[SweepCell], processes: int) -> Generator[CellRun, None, None]:
    """Run cells in so many processes.

    A process that dies, for example for want of memory, takes the others with it. The cells that were running then are
    tried once more, each alone; the one that kills its process again is the culprit, and fails.
    """
    left = deque(cells)
    while left:
        for suspect in (yield from _pooled(left, processes)):
            for culprit in (yield from _pooled(deque([suspect]), 1)):
                yield dead_process_result(culprit)


def compile_kernels() -> None:
    """Compile the kernels in this process, before others would all do so at once."""
    from hostler.config import prepare_kernel_cache

    if prepare_kernel_cache().is_warm:
        return
    import numpy as np

    from hostler.engine import BUILT_IN, typical_mix
    from hostler.model import Device, DeviceRequest, GuestSpec, Host, amounts
    from hostler.sim.fill_experiment import FillExperiment, run_fill_experiment

    host = Host(name="host", uid="host", capacity=amounts({"cpu": 1000}), devices=(Device("gpu"),))
    specs = (GuestSpec(devices=(DeviceRequest("gpu", 1, 500),)), GuestSpec(requests=amounts({"cpu": 100})))
    order = np.array([0, 1, 0], dtype=np.int64)
    run_fill_experiment(FillExperiment("warm-up", (host,), specs, order, typical_mix(specs)), BUILT_IN["fgd"], 0)


def dead_process_result(cell: SweepCell) -> CellRun:
    """Return the failure of a cell whose process died."""
    result = failed_result(cell, "the process that ran it died", "there may be too little memory: run fewer at a time")
    return CellRun(msgspec.json.encode(result, order="sorted"), 0.0)


def _pooled(left: deque[SweepCell], processes: int) -> Generator[CellRun, None, list[SweepCell]]:
    """Run cells until none is left or a process dies; return those that were running then."""
    before = set(active_children())
    # Spawned: a forked process would share locks and compiled code with threads that it does not have.
    pool = ProcessPoolExecutor(
        min(processes, len(left)), mp_context=get_context("spawn"), initializer=_prepare_process, initargs=()
    )
    running: dict[Future[tuple[bytes, float]], SweepCell] = {}
    try:
        while left or running:
            while left and len(running) < _AHEAD * processes:
                running[pool.submit(run_cell_bytes, msgspec.json.encode(left[0]))] = left[0]
                left.popleft()
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                done = CellRun(*future.result())
                del running[future]
                yield done
    except BrokenProcessPool:
        whole = [future for future in running if future.done() and future.exception() is None]
        for future in whole:
            del running[future]
            yield CellRun(*future.result())
        lost = list(running.values())
        running.clear()
        return lost
    finally:
        _end(pool, before, is_busy=bool(running))
    return []


def _end(pool: ProcessPoolExecutor, before: set[BaseProcess], *, is_busy: bool) -> None:
    """End a pool; what its processes still do is given up."""
    if not is_busy:
        pool.shutdown(wait=True)
        return
    ours = set(active_children()) - before
    pool.shutdown(wait=False, cancel_futures=True)
    for process in ours:
        process.terminate()
    # The pool's own thread waits for them too, and either may see the end first: so check again.
    until = time.monotonic() + _PATIENCE_S
    while (alive := [process for process in ours if process.is_alive()]) and time.monotonic() < until:
        time.sleep(0.01)
    for process in alive:
        process.kill()


def _prepare_process() -> None:
    """Leave Ctrl-C to the parent, and end when the parent is gone, however it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
