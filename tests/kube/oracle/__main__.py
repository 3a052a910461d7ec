"""Compare by hand: ``python -m tests.kube.oracle --seed 123 -v``, or ``--cases 500 --from 1000``."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from hostler.config import prepare_kernel_cache

prepare_kernel_cache()

from hostler.kube.local import LocalCluster  # noqa: E402 - the engine is imported after its cache has a place
from tests.kube.oracle.clusters import make_case  # noqa: E402
from tests.kube.oracle.examination import Finding, examine, shrink  # noqa: E402
from tests.kube.oracle.kube_scheduler_answers import asker  # noqa: E402


async def _examine(options: argparse.Namespace, cluster: LocalCluster, folder: Path) -> int:
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.cases)
    began = time.monotonic()
    found: list[Finding] = []
    counts: Counter[str] = Counter()
    async with asker(cluster, folder) as real:
        for seed in seeds:
            finding = await examine(real, make_case(seed))
            counts += finding.counts()
            if finding.differences:
                if options.shrink:
                    finding = await shrink(real, finding)
                found.append(finding)
                print(finding.text(is_long=options.verbose), flush=True)
            elif options.verbose:
                print(finding.text(is_long=True))
            if options.words:
                print("\n".join(finding.words), end="\n" if finding.words else "")
    took = time.monotonic() - began
    print(json.dumps({"cases": len(seeds), "differ": len(found), "seconds": round(took, 1), **counts}))
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kube.oracle", description=__doc__)
    parser.add_argument("--seed", type=int, help="ask this one case")
    parser.add_argument("--cases", type=int, default=100, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--shrink", action="store_true", help="leave out what a difference does not need")
    parser.add_argument("--words", action="store_true", help="show also where only the words of a refusal differ")
    parser.add_argument("-v", "--verbose", action="store_true", help="show answers and objects")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hostler-oracle-") as folder:
        place = Path(folder)
        with LocalCluster.start("oracle", place / "cluster", bare=True, dies_with_us=True) as cluster:
            return asyncio.run(_examine(options, cluster, place))


if __name__ == "__main__":
    sys.exit(main())
