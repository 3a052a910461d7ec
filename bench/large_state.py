"""Measure one large engine in a process of its own: resident memory, fork, checkpoint and restore.

A fresh process, because memory that other measurements used and gave back would count otherwise. It prints one JSON
object: ``python -m bench.large_state HOSTS GUESTS``.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from bench.fleet import arrivals, choose_shapes, engine_with_hosts, specs
from bench.results import Row
from bench.sizes import Sizes
from hostler.engine import Engine

__all__ = ["measure", "rows"]

SHAPES = 200
REPEATS = 3
_ROOT = Path(__file__).resolve().parent.parent


def rows(sizes: Sizes) -> Iterator[Row]:
    """Measure so many hosts and guests, each time in a new process."""
    figures = [_measure_apart(sizes) for _ in range(sizes.runs)]
    fleet = f"{sizes.hosts:,} hosts with {sizes.large_guests:,} guests"
    for key, name, what, unit, target in (
        ("peak_mb", "memory, peak", "resident at the peak, actions kept", "MB", 1000.0),
        ("resident_mb", "memory, after", "resident after the actions are gone", "MB", None),
        ("fork_ms", "fork", "an independent twin", "ms", 50.0),
        ("checkpoint_ms", "checkpoint", "all state to bytes", "ms", None),
        ("restore_ms", "restore", "an engine from those bytes", "ms", None),
        ("checkpoint_mb", "checkpoint size", "bytes of it", "MB", None),
    ):
        runs = tuple(round(figure[key], 3) for figure in figures)
        yield Row(
            name=name,
            what=f"{fleet}: {what}",
            unit=unit,
            target=target,
            sense="at most",
            measured=min(runs),
            runs=runs,
        )


def _measure_apart(sizes: Sizes) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.large_state", str(sizes.hosts), str(sizes.large_guests)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the measurement of a large state failed:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def measure(hosts: int, guests: int) -> dict[str, float]:
    """Place the guests, then measure; memory first, so that the twins do not count."""
    engine = engine_with_hosts(hosts, "spread")
    for event in arrivals(specs(SHAPES), choose_shapes(guests, SHAPES)):
        engine.apply(event)
    actions = engine.step(1)
    result = {"placed": float(sum(type(action).__name__ == "Bind" for action in actions))}
    result["peak_mb"] = _status_mb("VmHWM")
    del actions
    result["resident_mb"] = _status_mb("VmRSS")
    result["fork_ms"] = _best_ms(engine.fork)
    saved = engine.checkpoint()
    result["checkpoint_mb"] = len(saved) / 1e6
    result["checkpoint_ms"] = _best_ms(engine.checkpoint)
    result["restore_ms"] = _best_ms(lambda: Engine.restore(saved))
    return result


def _best_ms(call: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        kept = call()
        times.append(perf_counter() - start)
        del kept
    return 1000 * min(times)


def _status_mb(field: str) -> float:
    """Read a figure of /proc in MB; ``ru_maxrss`` would count the parent that started this process."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    line = next(line for line in status.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
