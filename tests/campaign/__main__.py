"""``python -m tests.campaign [--seed N] [--count N]``: play campaigns and report which failed."""

from __future__ import annotations

import argparse
import gc
import sys
import time
import traceback

from hostler.config import prepare_kernel_cache

prepare_kernel_cache()

from tests.campaign.plan import draw_plan  # noqa: E402 - after the kernels' folder is set
from tests.campaign.play import play  # noqa: E402


def main() -> int:
    """Play campaigns one after another."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--severity", type=float, help="how bad the network is, from 0 to 1; drawn if not given")
    chosen = parser.parse_args()
    gc.freeze()  # what the program itself is need not be searched for garbage after each campaign
    gc.set_threshold(50_000, 20, 100)
    began, wrong = time.perf_counter(), 0
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        try:
            ended = play(seed, plan=draw_plan(seed, chosen.severity))
        except Exception:
            wrong += 1
            sys.stdout.write(f"seed {seed}: {traceback.format_exc()[-1500:]}\n")
            continue
        if ended.wrongs or chosen.count == 1:
            wrong += bool(ended.wrongs)
            sys.stdout.write(f"seed {seed}: {ended}\n")
    took = time.perf_counter() - began
    sys.stdout.write(f"{chosen.count} campaigns, {wrong} went wrong, {1000 * took / chosen.count:.0f} ms each\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
