"""``python -m bench engine|sim|kube|control [--quick] [-o FILE]``: measure, print a table, write JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import control, engine, kube, sim
from bench.results import table, write_json

__all__ = ["main"]

_RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Hostler.")
    parser.add_argument("bench", choices=["engine", "sim", "kube", "control"], help="what to measure")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything; targets are not judged")
    parser.add_argument("-o", "--output", type=Path, help="where the JSON goes (bench/results/<bench>.json)")
    parser.add_argument("--only", choices=control.PARTS, help="only this part of control")
    chosen = parser.parse_args(arguments)
    if chosen.only and chosen.bench != "control":
        parser.error(f"--only is for control, not for {chosen.bench}")
    if chosen.bench == "control":
        report = control.run(quick=chosen.quick, progress=_say, only=chosen.only or "")
    else:
        report = {"engine": engine, "sim": sim, "kube": kube}[chosen.bench].run(quick=chosen.quick, progress=_say)
    path = chosen.output or _RESULTS / f"{chosen.bench}.json"
    write_json(report, path)
    print(table(report))
    return 0


def _say(what: str) -> None:
    print(f"... {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
