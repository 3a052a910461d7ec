"""Cells: single runs as plain data, so that any process on any machine can do them and gives the same bytes.

A cell says what is run; its key is a hash of that. A result holds nothing that depends on who ran it, or when; the time
that it took is kept apart. Nothing here imports the engine before it is needed, because the folder of compiled kernels
must be known first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from hostler._version import __version__
from hostler.errors import HostlerError, PluginError
from hostler.model import Policy

if TYPE_CHECKING:
    from hostler.engine import Registry
    from hostler.runtime.plugin_files import OwnPlugins
    from hostler.sim.scenarios import Scenario, ScenarioOutcome

__all__ = [
    "CellResult",
    "CellRun",
    "PluginFile",
    "SweepCell",
    "TraceSource",
    "cell_key",
    "failed_result",
    "run_cell_bytes",
    "run_cell_or_fail",
]
__all__ += ["hash_plugin_files", "run_cell"]

KEY_LENGTH = 24  # hexadecimal digits: 96 bits, so that two cells never share one


class PluginFile(msgspec.Struct, frozen=True):
    """A file with plugins; its hash tells an edited one from the one that a result was made with."""

    path: str
    sha256: str


class TraceSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trace that is played as it is, and how it is read: the fields of ``TraceOptions`` that a user may give."""

    path: str
    format: str | None = None
    hosts: int | None = None
    host_cpu: str = ""
    host_memory: str = ""
    host_gpus: int | None = None
    hosts_file: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    censored: Literal["end", "forever"] = "end"
    tenants: bool = True


class SweepCell(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run: an openb experiment, a scenario or a trace under a policy, or the upper bound of an openb experiment."""

    kind: Literal["openb", "scenario", "bound"] = "openb"
    workload: str = "default"  # of openb, or the scenario's name
    scenario: str = ""  # the scenario's document, as a JSON text
    source: str = ""  # the scenario's file, where it names others beside it
    trace: TraceSource | None = None  # in place of a scenario's document
    policy: str | Policy = ""
    seed: int = 42
    tune: float = 1.3
    forced: float | None = None  # of a bound
    data_dir: str = ""
    plugins: tuple[PluginFile, ...] = ()

    @property
    def policy_name(self) -> str:
        """Return the policy's name."""
        return self.policy.name if isinstance(self.policy, Policy) else self.policy

    @property
    def label(self) -> str:
        """Name the cell for people."""
        parts = [self.workload, self.policy_name or self.kind, f"seed {self.seed}"]
        return ", ".join(parts if self.kind == "scenario" else [*parts, f"tune {self.tune:g}"])


class CellResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a cell: figures, or an error."""

    key: str
    hostler: str  # version
    cell: SweepCell
    figures: dict[str, float] = {}
    failed_by_kind: dict[str, int] = {}
    curves: dict[str, tuple[float, ...]] = {}
    error: str = ""
    hint: str = ""
    outcome: msgspec.Raw = msgspec.Raw(b"null")  # of a scenario, without the picture of its hosts; see ``played``

    def played(self) -> ScenarioOutcome | None:
        """Return what came of a scenario, with its series; None if the result holds figures only."""
        from hostler.sim.scenarios.outcome import ScenarioOutcome

        return msgspec.json.decode(self.outcome, type=ScenarioOutcome | None)


class CellRun(NamedTuple):
    """A cell that was run: its result as bytes, and the seconds that it took."""

    content: bytes
    wall_s: float

    @property
    def result(self) -> CellResult:
        """Return the result."""
        return msgspec.json.decode(self.content, type=CellResult)


def cell_key(cell: SweepCell) -> str:
    """Return the name of a cell: equal cells have equal ones."""
    return hashlib.sha256(msgspec.json.encode(cell, order="sorted")).hexdigest()[:KEY_LENGTH]


def hash_plugin_files(files: Iterable[Path]) -> tuple[PluginFile, ...]:
    """Return plugin files with their hashes."""
    found = []
    for file in files:
        try:
            found.append(PluginFile(str(file.resolve()), hashlib.sha256(file.read_bytes()).hexdigest()))
        except OSError as error:
            raise PluginError(f"{file} cannot be read: {error.strerror}", hint="check the path") from None
    return tuple(found)


def run_cell(cell: SweepCell) -> CellResult:
    """Run one cell."""
    import_module("hostler.config").prepare_kernel_cache()
    run = {"openb": _run_openb, "scenario": _run_scenario, "bound": _run_bound}[cell.kind]
    return run(cell)


def run_cell_or_fail(cell: SweepCell) -> CellRun:
    """Run one cell; an error becomes a result, too."""
    start = perf_counter()
    try:
        result = run_cell(cell)
    except HostlerError as error:
        result = failed_result(cell, error.located_message(), error.hint)
    except (Exception, SystemExit) as error:
        result = failed_result(cell, f"{type(error).__name__}: {error}")
    return CellRun(msgspec.json.encode(result, order="sorted"), perf_counter() - start)


def run_cell_bytes(content: bytes) -> tuple[bytes, float]:
    """Run a cell that comes as JSON: what processes and machines send each other."""
    done = run_cell_or_fail(msgspec.json.decode(content, type=SweepCell))
    return done.content, done.wall_s


def failed_result(cell: SweepCell, error: str, hint: str = "") -> CellResult:
    """Return the result of a cell that failed."""
    return CellResult(key=cell_key(cell), hostler=__version__, cell=cell, error=error[:2000], hint=hint)


def _run_openb(cell: SweepCell) -> CellResult:
    from hostler.sim.fill_experiment import run_fill_experiment
    from hostler.sim.openb import openb_experiment
    from hostler.sim.sweeps.cell_figures import filling_curves, filling_figures

    policy, registry = _policy(cell)
    data_dir = Path(cell.data_dir) if cell.data_dir else None
    result = run_fill_experiment(
        openb_experiment(cell.workload, cell.seed, tune=cell.tune, data_dir=data_dir), policy, cell.seed, registry
    )
    return CellResult(
        key=cell_key(cell),
        hostler=__version__,
        cell=cell,
        figures=filling_figures(result),
        failed_by_kind=result.failed_by_kind,
        curves=filling_curves(result),
    )


def _run_bound(cell: SweepCell) -> CellResult:
    from hostler.sim.bounds import gpu_bound
    from hostler.sim.openb import openb_experiment

    data_dir = Path(cell.data_dir) if cell.data_dir else None
    experiment = openb_experiment(cell.workload, cell.seed, tune=cell.tune, data_dir=data_dir)
    bound = gpu_bound(experiment, None, cell.forced).bound_percent
    figures = {} if bound is None else {"bound_percent": bound}
    return CellResult(key=cell_key(cell), hostler=__version__, cell=cell, figures=figures)


def _run_scenario(cell: SweepCell) -> CellResult:
    from hostler.sim.scenarios import run_scenario

    scenario = _scenario(cell)
    policy, registry = _policy(cell, scenario.policies)
    outcome = run_scenario(scenario, policy, cell.seed, registry)
    # The picture of all hosts is nearly all of the size, and a sweep has many cells.
    series = msgspec.structs.replace(outcome.series, by_host=())
    kept = msgspec.structs.replace(outcome, series=series)
    return CellResult(
        key=cell_key(cell),
        hostler=__version__,
        cell=cell,
        figures=outcome.figures(),
        failed_by_kind=outcome.failed_by_kind,
        outcome=msgspec.Raw(msgspec.json.encode(kept, order="sorted")),
    )


def _scenario(cell: SweepCell) -> Scenario:
    from hostler.config import Document
    from hostler.engine import BUILT_IN
    from hostler.sim.scenarios import read_scenario, scenario_of_trace

    if cell.trace is None:
        document = Document(msgspec.json.decode(cell.scenario), cell.source or cell.workload)
        return read_scenario(document, {**BUILT_IN, **_own_plugins(cell).policies}, seed=cell.seed)
    from hostler.sim.traces.formats import read_trace
    from hostler.sim.traces.options import TraceOptions

    trace = cell.trace
    options = TraceOptions(
        hosts=trace.hosts,
        host_cpu=trace.host_cpu,
        host_memory=trace.host_memory,
        host_gpus=trace.host_gpus,
        hosts_file=Path(trace.hosts_file) if trace.hosts_file else None,
        columns=dict(trace.columns),
        censored=trace.censored,
        tenants=trace.tenants,
        data_dir=Path(cell.data_dir) if cell.data_dir else None,
    )
    return scenario_of_trace(read_trace(trace.path, trace.format, options), cell.seed)


def _own_plugins(cell: SweepCell) -> OwnPlugins:
    """Import the plugin files, if they are still those that the run was planned with."""
    from hostler.runtime.plugin_files import load_plugin_files

    files = [Path(plugin.path) for plugin in cell.plugins]
    if hash_plugin_files(files) != cell.plugins:
        raise PluginError("a plugin file has changed since the run was planned", hint="start it again")
    return load_plugin_files(files)


def _policy(cell: SweepCell, more: Sequence[Policy] = ()) -> tuple[Policy, Registry]:
    """Return the policy, and a registry with all plugins that it names, and those of the others."""
    from hostler.engine import BUILT_IN, ENTRY_POINT_GROUP, Registry, find_policy
    from hostler.sim.own_plugins import with_network

    policy = cell.policy
    own = with_network(_own_plugins(cell), policy if isinstance(policy, str) else policy.name)
    if not isinstance(policy, Policy):
        policy = find_policy(policy, {**BUILT_IN, **{each.name: each for each in more}, **own.policies})
    known = {name for names in Registry.names() for name in names} | own.factories.keys()
    named: set[str] = set()
    for each in (policy, *more):
        named |= {use.name for use in each.filters} | {use.name for use in each.scorers}
    foreign = named - known
    installed = {point.name: point.load() for point in entry_points(group=ENTRY_POINT_GROUP) if point.name in foreign}
    return policy, Registry({**installed, **own.factories})
