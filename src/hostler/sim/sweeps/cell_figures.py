"""The scalar figures of a run, by name: what comparisons and tables of sweeps are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.sim.fill_experiment import BINS, FillResult

__all__ = ["filling_curves", "filling_figures", "is_less_better", "usual_figures"]

_POINTS = (80, 90, 95, 100, 110, 120, 130)  # percent of requested gpus, at which curves are read
# Of these, less is better; of everything else, more.
_LESS_IS_BETTER = (
    "failed", "frag", "idle", "gpus_touched", "wait", "dropped", "gave_up", "evict", "restart", "migrat", "failures",
    "lost", "stranded", "overloaded", "span",
)  # fmt: skip
_USUAL = ("gpu_percent",), ("cpu_mean", "gpu_mean", "wait_mean_s", "dropped", "gave_up", "evictions")


def filling_figures(result: FillResult) -> dict[str, float]:
    """Return the figures of an experiment in which guests arrive and never leave."""
    last = min(BINS - 1, 130)
    frag = [amount for name, amount in result.fragmentation.items() if name not in ("q3", "idle")]
    figures = {
        "gpu_percent": _percent(result.gpu_milli_allocated, result.gpu_milli_total),
        "cpu_percent": _percent(result.cpu_milli_allocated, result.cpu_milli_total),
        "memory_percent": _percent(result.memory_bytes_allocated, result.memory_bytes_total),
        "arrivals": float(result.events),
        "failed": float(result.failed),
        "gpus_touched": float(result.gpus_touched),
        "frag_percent": _percent(sum(frag), result.gpu_milli_total),
    }
    figures |= {f"gpu_percent_at_{at}": result.curves.alloc[at] for at in _POINTS if at <= last}
    figures |= {f"frag_percent_at_{at}": result.curves.frag[at] for at in _POINTS if at <= last}
    return figures


def filling_curves(result: FillResult) -> dict[str, tuple[float, ...]]:
    """Return the curves by name."""
    return {
        "alloc": result.curves.alloc,
        "frag": result.curves.frag,
        "frag_ratio": result.curves.frag_ratio,
    }


def is_less_better(figure: str) -> bool:
    """Say whether less is better, by the figure's name."""
    return any(word in figure for word in _LESS_IS_BETTER)


def usual_figures(runs: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the figures that a comparison shows unless told: of those that differ from zero somewhere."""
    for names in _USUAL:
        found = [name for name in names if all(name in run for run in runs) and any(run[name] for run in runs)]
        if found:
            return found
    return list(runs[0])[:1] if runs else []


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0
