"""``python -m tests.kube.e2e``: run scheduling specs of Kubernetes, and print the result of each."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import get_args

from hostler.kube.local.binaries import find_binaries
from tests.kube.e2e.spec_runs import Scheduler, e2e_cluster, run_specs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kube.e2e", description=__doc__)
    parser.add_argument("focus", nargs="*", default=["sig-scheduling"], help="patterns of names, one run for each")
    parser.add_argument("--scheduler", choices=get_args(Scheduler), default="ours")
    parser.add_argument("--skip", default="", help="a pattern of names that are left out")
    parser.add_argument("--limit", type=int, default=1200, metavar="SECONDS", help="for each run")
    parser.add_argument("--folder", type=Path, help="keep the logs and reports there")
    told = parser.parse_args()
    binary = find_binaries(["e2e.test"], print)["e2e.test"].path
    with tempfile.TemporaryDirectory() as temporary:
        folder = told.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with e2e_cluster(told.scheduler, folder) as cluster:
            for number, focus in enumerate(told.focus):
                ran = run_specs(binary, cluster, focus, folder / str(number), skip=told.skip, limit_s=told.limit)
                for name, outcome in sorted(ran.items()):
                    print(f"{outcome.state:9} {outcome.seconds:6.1f} s  {name}", flush=True)
                    if outcome.message:
                        print(f"    {outcome.message}", flush=True)


main()
