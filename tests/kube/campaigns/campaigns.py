"""Play blocks of campaigns; a failure names the seeds."""

from __future__ import annotations

import pytest

from tests.campaign.plan import draw_plan
from tests.campaign.play import play

__all__ = ["BLOCK", "blocks", "play_block"]

BLOCK = 25
_QUICK = 150  # campaigns that are played by `make test` too; the rest of a range is left to the long tests


def blocks(first: int, count: int) -> list[object]:
    """Return the first seeds of blocks; those after the first few are marked as long."""
    seeds = range(first, first + count, BLOCK)
    return [pytest.param(seed, marks=pytest.mark.long if seed - first >= _QUICK else ()) for seed in seeds]


def play_block(first: int, severity: float | None, size: int = BLOCK) -> None:
    """Play a block; replay a failed seed with ``python -m tests.campaign``."""
    option = "" if severity is None else f" --severity {severity:g}"
    wrongs = []
    for seed in range(first, first + size):
        try:
            ended = play(seed, plan=draw_plan(seed, severity))
        except Exception as error:
            wrongs.append(f"--seed {seed}{option}: {type(error).__name__}: {error}")
        else:
            wrongs += [f"--seed {seed}{option}: {wrong}" for wrong in ended.wrongs]
    assert not wrongs, "\n".join(wrongs)
