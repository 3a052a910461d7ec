"""``hostler config``: files checked, settings with their origins, and the schema for editors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hostler.cli.options import FILE, config_option, examples, output_option, policy_option
from hostler.cli.output.terminal import note, print_data, print_table, say

if TYPE_CHECKING:
    from hostler.config import DeclaredFleet, Document
    from hostler.errors import HostlerError
    from hostler.model import Policy

__all__ = ["config"]

_KINDS = ("Config", "Load", "Scenario", "Sweep")


@click.group(
    epilog=examples(
        "hostler config validate fleet.yaml guests.yaml",
        "hostler config show",
        "hostler config schema > hostler.schema.json",
    ),
    short_help="Check files, show settings, print the schema.",
)
def config() -> None:
    """Check files, show settings with where they come from, and print the schema of our files."""


@config.command(
    epilog=examples(
        "hostler config validate fleet.yaml",
        "hostler config validate ~/.config/hostler/config.yaml nodes.json pods.json",
    )
)
@click.argument("files", metavar="FILE...", type=FILE, nargs=-1, required=True)
@click.option("--lenient", is_flag=True, help="List unsupported parts of a KubeSchedulerConfiguration, and continue.")
def validate(files: tuple[str, ...], lenient: bool) -> None:
    """Check files of any kind: fleets, scenarios, configurations, schedulers and Kubernetes manifests, together.

    A folder stands for its .yaml, .yml and .json files, in order of name, without subfolders.

    Reports every error with its location.
    """
    from hostler.config import prepare_kernel_cache

    prepare_kernel_cache()
    from hostler.cli.inputs.problems import find_problems

    documents, problems = _read(files)
    found = find_problems(documents, lambda wanted: _check(wanted, lenient=lenient))
    problems += found.problems
    for error in problems[:-1]:
        note(error.message, label="error: ")
        if error.hint:
            note(error.hint, label="hint: ")
    if problems:
        if found.is_cut:
            note("there may be more: mend these first")
        raise problems[-1]
    for line in found.lines:
        say(line)
    say("ok")


def _read(files: Sequence[str]) -> tuple[list[Document], list[HostlerError]]:
    """Read all files that can be read, and say what is wrong with the others."""
    from hostler.config import read_documents, with_folder_files
    from hostler.errors import InputError

    files = with_folder_files(files)
    if len(files) > len(set(files)):
        return read_documents(files), []
    documents: list[Document] = []
    problems: list[HostlerError] = []
    for file in files:
        try:
            documents += read_documents([file])
        except InputError as error:
            problems.append(error)
    return documents, problems


def _check(documents: Sequence[Document], *, lenient: bool) -> list[str]:
    """Check documents together, and say what each file holds; the first problem is raised."""
    from hostler.cli.inputs.file_input import without_lost_pods
    from hostler.cli.inputs.fleet_parts import read_parts
    from hostler.config import merge_fleets
    from hostler.engine import BUILT_IN
    from hostler.kube.configuration import is_scheduler_file

    known = dict(BUILT_IN)
    lines = [_check_config(document, known) for document in documents if _is_config(document)]
    lines += [_check_scenario(document, known) for document in documents if _is_of(document, "Scenario")]
    lines += [_check_sweep(document, known) for document in documents if _is_of(document, "Sweep")]
    lines += [_check_load(document) for document in documents if _is_of(document, "Load")]
    lines += [_check_scheduler(document, lenient=lenient) for document in documents if is_scheduler_file(document)]
    others = [d for d in documents if not is_scheduler_file(d) and not any(_is_of(d, kind) for kind in _KINDS)]
    parts = read_parts(others, known)
    sources = dict.fromkeys(document.source for document in others)
    lines += [f"{source}: {_describe([part.fleet for part in parts if part.source == source])}" for source in sources]
    if parts:
        hosts = {host.name for part in parts for host in part.fleet.hosts}
        _check_policies(merge_fleets([without_lost_pods(part.fleet, hosts) for part in parts]), known)
    return lines


@config.command(epilog=examples("hostler config show --config hostler.yaml"))
@policy_option()
@config_option()
@output_option("table", "json", "yaml")
def show(policy: str, config: str, output: str) -> None:
    """Show every setting and where it comes from: a flag, a variable, a line of a file, or the default."""
    from hostler.config import load_settings, prepare_kernel_cache

    prepare_kernel_cache()
    from hostler.engine import BUILT_IN

    settings = load_settings(BUILT_IN, config=config, policy=policy)
    if output != "table":
        print_data({one.name: {"value": one.value, "origin": one.origin} for one in settings.shown}, output)
        return
    rows = [[one.name, one.value, one.origin] for one in settings.shown]
    print_table([("SETTING", "left"), ("VALUE", "left"), ("ORIGIN", "left")], rows)


@config.command(epilog=examples("hostler config schema > hostler.schema.json"))
def schema() -> None:
    """Print the JSON schema of all our files, for editors that check while you type."""
    from hostler.config import json_schema
    from hostler.kube.configuration import SchedulerFile
    from hostler.kube.load.settings import LoadFile
    from hostler.sim.scenarios.file import ScenarioFile
    from hostler.sim.sweeps.grids import SweepFile

    print_data(json_schema(ScenarioFile, SweepFile, SchedulerFile, LoadFile), "json")


def _is_config(document: Document) -> bool:
    return _is_of(document, "Config")


def _is_of(document: Document, kind: str) -> bool:
    from hostler.config import kind_of
    from hostler.manifests import is_manifest

    return not is_manifest(document.data) and kind_of(document)[1] == kind


def _check_scenario(document: Document, known: dict[str, Policy]) -> str:
    from hostler.cli.output.decision_texts import plural
    from hostler.sim.scenarios import read_scenario

    scenario = read_scenario(document, known)
    _build(scenario.policies)
    guests, hosts = plural(len(scenario.workload), "guest"), plural(len(scenario.workload.hosts), "host")
    return f"{document.source}: a scenario with {guests} on {hosts}"


def _check_config(document: Document, known: dict[str, Policy]) -> str:
    from hostler.cli.output.decision_texts import plural
    from hostler.config import read_settings

    settings = read_settings(document, known)
    _build(settings.policies)
    known.update({policy.name: policy for policy in settings.policies})
    return f"{document.source}: a configuration with {plural(len(settings.policies), 'policy')}"


def _check_sweep(document: Document, known: dict[str, Policy]) -> str:
    from hostler.cli.output.decision_texts import plural
    from hostler.sim.sweeps.grids import file_seeds, own_policies, read_sweep

    file = read_sweep(document)
    _build(own_policies(document, file, known))
    seeds = plural(len(file_seeds(document, file)), "seed")
    return f"{document.source}: a sweep of {plural(len(file.policies), 'policy')} with {seeds}"


def _check_scheduler(document: Document, *, lenient: bool) -> str:
    from hostler.cli.output.decision_texts import plural
    from hostler.kube.configuration import read_document
    from hostler.queries import with_mixes

    settings = read_document(document, lenient=lenient)
    _build(with_mixes(settings.policies))
    for line in settings.notes:
        note(line)
    return f"{document.source}: a scheduler with {plural(len(settings.profiles), 'profile')}"


def _check_load(document: Document) -> str:
    from hostler.cli.output.decision_texts import plural
    from hostler.kube.load.settings import read_load

    load = read_load(document)
    pods = load.pods.count + load.gangs.count * load.gangs.size
    return f"{document.source}: a load of {plural(load.nodes.count, 'node')} and {plural(pods, 'pod')}"


def _check_policies(fleet: DeclaredFleet, known: dict[str, Policy]) -> None:
    """Check that policies which are named exist, and that their plugins do."""
    from hostler.cli.inputs.file_input import check_named_policies
    from hostler.engine import find_policy

    _build(fleet.policies)
    known.update({policy.name: policy for policy in fleet.policies})
    check_named_policies(fleet, known)
    if fleet.policy:
        find_policy(fleet.policy, known)


def _build(policies: Sequence[Policy]) -> None:
    """Make each policy's plugins once: unknown names and wrong arguments are found so."""
    from hostler.engine import Engine
    from hostler.queries import with_mixes
    from hostler.runtime.plugins import registry_for

    registry = registry_for(policies)
    for policy in policies:
        Engine(with_mixes([policy]), registry=registry)


def _describe(parts: Sequence[DeclaredFleet]) -> str:
    from hostler.cli.output.decision_texts import plural

    counts = [
        plural(sum(len(part.hosts) for part in parts), "host"),
        plural(sum(len(part.guests) for part in parts), "guest"),
    ]
    for noun in ("gang", "budget", "quota", "reservation"):
        count = sum(len(getattr(part.tenancy, f"{noun}s")) for part in parts)
        counts += [plural(count, noun)] if count else []
    own = sum(len(part.policies) for part in parts)
    return ", ".join([*counts, plural(own, "own policy")] if own else counts)
