"""How much is measured; a quick run takes a tenth of everything, and measures it once."""

from __future__ import annotations

import msgspec

from bench.rows import QUICK_RUNS, RUNS

__all__ = ["Sizes"]


class Sizes(msgspec.Struct, frozen=True):
    """How many of each; what is not about amounts (zones, kinds of constraints) stays in a quick run."""

    hosts: int = 5_000
    guests: int = 50_000
    alone: int = 2_000
    few_hosts: int = 1_000
    many_hosts: int = 20_000
    large_guests: int = 150_000
    constrained: int = 10_000  # guests; half of them have constraints on others
    preemptors: int = 1_000
    few_preemptors: int = 20  # where one alone takes long
    gang: int = 1_000
    waiting: int = 10_000
    waiting_shapes: int = 500
    arriving: int = 10_000  # while those wait
    few_arriving: int = 1_000  # where that takes long
    batch: int = 100  # of those that arrive
    openb_part: int = 1  # one in so many arrivals
    runs: int = RUNS  # for each figure

    def tenth(self) -> Sizes:
        """Return a tenth of everything."""
        whole = msgspec.structs.asdict(self)
        tenths = {name: value // 10 for name, value in whole.items() if name not in ("openb_part", "runs")}
        return Sizes(**tenths, openb_part=10, runs=QUICK_RUNS)
