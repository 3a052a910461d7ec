"""Grids: a sweep runs every combination of their workloads, scenarios, policies, seeds and tunings.

A grid comes from options or from a file of kind ``Sweep``. Policies are written into the cells as data, so that a
policy that changes gives other cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hostler.config import Document, check_kind, convert, invalid, kind_of, means, read_documents, with_location
from hostler.config.policies import read_policies
from hostler.config.policy_file import PolicyEntry
from hostler.errors import InputError
from hostler.model import Policy
from hostler.sim.sweeps.cells import PluginFile, SweepCell, TraceSource

__all__ = ["FIRST_SEED", "Grid", "ScenarioSource", "SweepFile", "count_seeds", "file_seeds", "own_policies"]
__all__ += ["read_seeds", "read_sweep", "read_sweep_file", "scenario_source"]

FIRST_SEED = 42  # the first of openb's published seeds
MAX_SEED = 2**32 - 1
_MOST_SEEDS = 100_000

Seed = Annotated[int, Meta(ge=0, le=MAX_SEED)]
Tune = Annotated[float, Meta(ge=0, le=100)]


class SweepFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of kind Sweep: every combination of what it lists is run."""

    api_version: Annotated[Literal["hostler/v1"], means("The version of the format.")] = msgspec.field(
        name="apiVersion"
    )
    kind: Annotated[Literal["Sweep"], means("What the file holds.")]
    workloads: Annotated[list[str], means("Pod lists of openb.")] = []
    scenarios: Annotated[list[str], means("Files of kind Scenario, seen from this file's folder.")] = []
    policies: Annotated[list[str], means("Names of policies: built in, of this file, or of a plugin file.")] = []
    define: Annotated[list[PolicyEntry], means("Policies of this file, as in a Config.")] = []
    runs: Annotated[
        int, Meta(ge=1, le=_MOST_SEEDS), means("How many runs with different seeds, which count up from 42.")
    ] = 10
    seeds: Annotated[
        str | list[Seed], means("Instead of runs: the seeds themselves, as a range such as 42-51 or a list.")
    ] = []
    tunes: Annotated[tuple[Tune, ...], means("GPU demand as a share of all GPUs; 0 leaves it as it is.")] = (1.3,)
    plugins: Annotated[list[str], means("Python files with plugins, seen from this file's folder.")] = []


class ScenarioSource(msgspec.Struct, frozen=True):
    """A scenario as cells carry it: its document, or the trace that it plays."""

    name: str
    text: str
    source: str
    trace: TraceSource | None = None


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """What is combined."""

    workloads: tuple[str, ...] = ()
    scenarios: tuple[ScenarioSource, ...] = ()
    policies: tuple[str | Policy, ...] = ()
    seeds: tuple[int, ...] = (FIRST_SEED,)
    tunes: tuple[float, ...] = (1.3,)
    plugins: tuple[PluginFile, ...] = ()
    data_dir: str = ""

    def cells(self) -> Iterator[SweepCell]:
        """Yield every combination."""
        for workload, tune, seed, policy in product(self.workloads, self.tunes, self.seeds, self.policies):
            yield SweepCell(
                workload=workload, tune=tune, seed=seed, policy=policy, plugins=self.plugins, data_dir=self.data_dir
            )
        for scenario, seed, policy in product(self.scenarios, self.seeds, self.policies):
            yield SweepCell(
                kind="scenario",
                workload=scenario.name,
                scenario=scenario.text,
                source=scenario.source,
                trace=scenario.trace,
                seed=seed,
                policy=policy,
                plugins=self.plugins,
                data_dir=self.data_dir,
            )

    def bounds(self, forced: float | None) -> Iterator[SweepCell]:
        """Yield the upper bounds of all experiments of openb."""
        for workload, tune, seed in product(self.workloads, self.tunes, self.seeds):
            yield SweepCell(
                kind="bound", workload=workload, tune=tune, seed=seed, forced=forced, data_dir=self.data_dir
            )


def count_seeds(runs: int) -> tuple[int, ...]:
    """Return the seeds of so many runs, which count up from the first published seed."""
    return tuple(range(FIRST_SEED, FIRST_SEED + runs))


def read_seeds(given: str | Sequence[int]) -> tuple[int, ...]:
    """Return the seeds of a range such as 42-51 or of a list, with commas if it is a text.

    A number alone is rejected: older versions ran so many seeds, others may mean that seed.
    """
    if isinstance(given, str):
        return _read_seed_text(given)
    if not given:
        raise InputError("the list of seeds is empty", hint="give at least one")
    return tuple(dict.fromkeys(given))


def _read_seed_text(text: str) -> tuple[int, ...]:
    error = InputError(f"{text!r} are no seeds", hint="a range, such as 42-51 (one alone: 42-42); or a list: 42,47")
    parts = [part.strip() for part in text.split(",")]
    ends = parts[0].split("-")
    numbers = [*ends, *parts[1:]]
    if not all(number.isascii() and number.isdigit() and int(number) <= MAX_SEED for number in numbers):
        raise error
    if len(parts) > 1 and len(ends) == 1:
        return read_seeds([int(part) for part in parts])
    if len(parts) > 1 or len(ends) != 2 or not 0 <= int(ends[1]) - int(ends[0]) < _MOST_SEEDS:
        raise error
    return tuple(range(int(ends[0]), int(ends[1]) + 1))


def scenario_source(path: str) -> tuple[Document, ScenarioSource]:
    """Read a scenario's file: its document, and what cells carry of it."""
    documents = read_documents([path])
    if len(documents) != 1:
        raise InputError(f"{path}: it has {len(documents)} documents", hint="a scenario has one")
    document = documents[0]
    check_kind(document, "Scenario")
    data = document.data if isinstance(document.data, dict) else {}
    name = str(data.get("name") or Path(path).stem)
    text = msgspec.json.encode(data, order="sorted").decode()
    return document, ScenarioSource(name, text, str(Path(path).resolve()) if "trace" in data else "")


def read_sweep_file(path: str) -> tuple[Document, SweepFile]:
    """Read a file of kind Sweep."""
    documents = read_documents([path])
    if len(documents) != 1:
        raise InputError(f"{path}: it has {len(documents)} documents", hint="a sweep has one")
    return documents[0], read_sweep(documents[0])


def read_sweep(document: Document) -> SweepFile:
    """Read a document of kind Sweep; InputError with the line."""
    if kind_of(document)[1] != "Sweep":
        raise invalid(document, ("kind",), f"is {kind_of(document)[1]!r}", hint="a sweep begins with 'kind: Sweep'")
    check_kind(document, "Sweep")
    _check_seeds(document)
    file = convert(document, document.data, SweepFile)
    for key in ("policies", "tunes"):
        if not getattr(file, key):
            raise invalid(document, (key,), "is empty", hint="give at least one")
    if not file.workloads and not file.scenarios:
        raise invalid(document, (), "has neither workloads nor scenarios", hint="add one of them")
    return file


def _check_seeds(document: Document) -> None:
    """Reject a lone number as seeds, which is a count to some and a seed to others, and seeds beside runs."""
    data = document.data if isinstance(document.data, dict) else {}
    seeds = data.get("seeds")
    number = str(seeds).strip() if isinstance(seeds, int | str) and not isinstance(seeds, bool) else ""
    if number.isdecimal():
        error = InputError(
            f"{number} may mean one seed or {number} of them",
            hint=f"'runs: {number}' runs {number} seeds; 'seeds: [{number}]' runs seed {number} alone",
        )
        raise with_location(document, ("seeds",), error)
    if "seeds" in data and "runs" in data:
        raise invalid(document, ("seeds",), "is given beside runs", hint="runs counts seeds from 42 on; keep one")


def file_seeds(document: Document, file: SweepFile) -> tuple[int, ...]:
    """Return the seeds of a file; InputError with the line."""
    data = document.data if isinstance(document.data, dict) else {}
    if "seeds" not in data:
        return count_seeds(file.runs)
    try:
        return read_seeds(file.seeds)
    except InputError as error:
        raise with_location(document, ("seeds",), error) from None


def own_policies(document: Document, file: SweepFile, known: Mapping[str, Policy]) -> tuple[Policy, ...]:
    """Return the policies that a sweep's file defines."""
    return read_policies(document, file.define, ("define",), known)


def as_paths(names: Iterable[str], file: str) -> list[Path]:
    """Return files that are named in another one, as seen from its folder."""
    return [Path(file).parent / name for name in names]
