"""Write the references under ``docs/reference`` from the code, so that they cannot grow stale unnoticed.

``make docs`` writes them; ``python -m tools.references --check`` (part of ``make check``) only compares, and fails with
the list of stale files. Every page is a function from the code to Markdown.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from hostler import config, errors
from hostler.cli.main import COMMANDS, TRACEBACK_VARIABLE, cli
from hostler.control.api.requests.meters import METRICS as CONTROL_METRICS
from hostler.engine import BUILT_IN, DEFAULT_POLICY, ENTRY_POINT_GROUP, Registry
from hostler.engine.policy.registry import KERNEL_FILTERS, REASONS
from hostler.kube.configuration import SchedulerFile
from hostler.kube.load.settings import LoadFile
from hostler.kube.scheduler.meters import METRICS as SCHEDULER_METRICS
from hostler.model.notes import NOTE_TEXTS, OBSTACLE_TEXTS
from hostler.model.reasons import Wake
from hostler.model.vocabulary import ENGINE_WORDS, WAKE_TEXTS
from hostler.runtime.metrics import MetricTable
from hostler.sim.scenarios.file import ScenarioFile
from hostler.sim.sweeps.grids import SweepFile

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
MADE_BY = "<!-- Made by `make docs`; edits are lost. -->\n"
WIDTH = 100  # of help texts

Schema = Mapping[str, object]

# Parts of files that have the same name in two kinds of files, and where they stand.
_OF = {
    "hostler.sim.scenarios.file": "Scenario",
    "hostler.config.settings": "Config and Scheduler",
    "hostler.kube.configuration.scheduler_file": "Scheduler",
}

_RESOURCES = "`resources`: names to weights 1 to 100, default `{cpu: 1, memory: 1}`"
_TAKEN = "as if the guest were there"
# Of each built-in scorer, before its weight: range, formula, arguments.
_POLICY_HEADINGS = ("policy", "takes", "scorers and weights", "soft constraints", "ties by", "devices")
SCORERS: Mapping[str, tuple[str, str, str]] = {
    "least_allocated": ("0 to 100", f"weighted mean of 100 x free / limit over resources, {_TAKEN}", _RESOURCES),
    "most_allocated": ("0 to 100", f"weighted mean of 100 x used / limit over resources, {_TAKEN}", _RESOURCES),
    "balanced": (
        "50 to 100",
        "50 + (50 + after - before) / 2, each 100 x (1 - standard deviation of used / limit over resources)",
        f"{_RESOURCES}; the weights do not count",
    ),
    "capacity_ratio": (
        "0 to 100",
        f"weighted mean of 10 x the line of points at 100 x used / limit, {_TAKEN}, rounded; zeros do not count",
        f"{_RESOURCES}; `points`: up to 11 pairs [use in percent, score 0 to 10], default `[[0, 0], [100, 10]]`",
    ),
    "preferred_hosts": ("0 to 100", "100 x sum of the weights of matching terms / highest sum of those that fit", ""),
    "preferred_taints": (
        "0 to 100",
        "100 - 100 x untolerated soft taints / highest number of those that fit",
        "`always`: whether all hosts score 100 where none has any (default: they score nothing)",
    ),
    "near_guests": (
        "0 to 100",
        "sum of weight x guests near, of own preferences and those of others, stretched over those that fit",
        "",
    ),
    "even_spread": (
        "0 to 100",
        "100 x (highest + lowest - s) / highest; s sums guests of the domain x ln(domains + 2) + skew - 1, rounded",
        "`defaults`: how guests of one owner are spread that say nothing themselves (default: not at all)",
    ),
    "image_locality": (
        "0 to 100",
        "bytes of the images that are there x share of hosts that have them, from 23 MiB to 1000 MiB per image",
        "",
    ),
    "utilization": (
        "from 0, a fraction",
        "0.4 x cpu + 0.4 x memory + 0.2 x storage, each used / limit, before the placement",
        "",
    ),
    "free_capacity": (
        "whole, unbounded",
        "free milli-cores + free MiB of memory + free GiB of storage, before the placement",
        "",
    ),
    "fgd": ("0 to 100", "100 x sigmoid((fragments before - fragments after) / 1000), in milli-gpus, over the mix", ""),
    "gpu_best_fit": (
        "0 to 100",
        "100 x (1 - cpu left / 128 / 2 - gpus left / 8 / 2) after, then stretched over those that fit to 0 to 100",
        "",
    ),
    "dot_product": ("up to 100", "100 x (1 - (free cpu x asked cpu / 128^2 + free gpus x asked gpus / 8^2) / 2)", ""),
    "gpu_clustering": (
        "up to 100",
        "25 x (8 - free gpus) / 8, + 75 where only guests with as many gpus are, + 50 where such and others are, "
        "+ 25 where none are; 0 for guests without gpus",
        "",
    ),
    "gpu_packing": (
        "0 to 100",
        "on a host with all gpus free the larger of n and 33 - n, n being its gpus; else, if it must take free gpus, "
        "50 - their number, at least 33; else 100 - 10 x what was left of those it takes, at least 50; 0 without gpus",
        "",
    ),
}


def main(arguments: Sequence[str]) -> int:
    """Write all pages, or check them; return the exit code."""
    if list(arguments) not in ([], ["--check"]):
        print("usage: python -m tools.references [--check]", file=sys.stderr)
        return 2
    pages = {FOLDER / f"{name}.md": make() for name, make in PAGES.items()}
    stale = [path for path, text in pages.items() if not path.is_file() or path.read_text() != text]
    if arguments:
        for path in stale:
            print(f"error: {path.relative_to(FOLDER.parent.parent)} is stale", file=sys.stderr)
        if stale:
            print("hint: run 'make docs'", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(pages[path])
        print(f"wrote {path.relative_to(FOLDER.parent.parent)}")
    return 0


def command_line() -> str:
    """Return the page of all commands: their help texts, group by group."""
    parts = [f"# Command line\n\n{MADE_BY}"]
    parts.append(
        "Answers go to standard output; notes, progress and errors to standard error. Every error is a line `error:` "
        "and a line `hint:`.\n\n"
        + _table(
            ("exit code", "meaning"),
            [
                ("0", "done"),
                ("1", "the answer is no: not placed, would change, differs"),
                ("2", "bad input or usage"),
                ("3", "something outside does not answer"),
                ("4", "another change came first"),
                ("70", "a bug of ours"),
            ],
        )
    )
    root = click.Context(cli, info_name="hostler", terminal_width=WIDTH, help_option_names=["-h", "--help"])
    parts.append(_help(cli, root))
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        parts += _command_pages(command, root, name)
    return "\n".join(parts)


def _command_pages(command: click.Command, parent: click.Context, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH)
    yield f"## {context.command_path}\n\n{_help(command, context)}"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from _command_pages(found, context, inner)


def _help(command: click.Command, context: click.Context) -> str:
    return f"```text\n{command.get_help(context)}\n```\n"


def configuration() -> str:
    """Return the page of files, keys, environment variables and folders."""
    schema = config.json_schema(ScenarioFile, SweepFile, SchedulerFile, LoadFile)
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    parts = [
        f"# Files and settings\n\n{MADE_BY}",
        "Files are YAML or JSON. One of kind `Fleet` holds hosts and guests, one of kind `Config` holds policies and "
        "settings, one of kind `Scenario` a fleet in time, one of kind `Sweep` a grid of experiments, one of kind "
        "`Scheduler` how a cluster's pods are placed, one of kind `Load` what is created on a cluster for experiments. "
        "Each kind has a section below that lists its keys; what stands inside a key has a section of its own. Unknown "
        "keys are refused. "
        "`hostler config schema` prints the same as a JSON schema for editors.\n",
        "A flag beats an environment variable, which beats the file, which beats the default; "
        "`hostler config show` says where each value comes from.\n",
        "## Environment variables\n\n" + _table(("variable", "meaning"), _variables()),
    ]
    parts += [_definition(name, definition) for name, definition in definitions.items()]
    return "\n".join(parts)


def _variables() -> list[tuple[str, str]]:
    return [
        (f"`{config.CONFIG_VARIABLE}`", "the configuration file; without it `config.yaml` in `~/.config/hostler`"),
        (f"`{config.POLICY_VARIABLE}`", "the policy of guests that name none"),
        (
            "`HOSTLER_SERVER`, `HOSTLER_KEY_FILE`, `HOSTLER_CA_FILE`",
            "the control plane that commands talk to, instead of a context",
        ),
        ("`HOSTLER_CONTEXT`, `HOSTLER_PROJECT`", "the context, and the project in it, that commands use"),
        ("`HOSTLER_DATABASE_URL`", "the database of `hostler serve`, `backup` and `restore`"),
        ("`SCHEDULING_STRATEGY`", "the strategy of VMs that name none, for `hostler serve`"),
        (f"`{TRACEBACK_VARIABLE}`", "any value: show the traceback of an error"),
        ("`NO_COLOR`", "any value: no colours on a terminal"),
        ("`NUMBA_CACHE_DIR`", "where compiled kernels are kept; without it a folder in `~/.cache/hostler`"),
        (
            "`XDG_CONFIG_HOME`, `XDG_CACHE_HOME`, `XDG_STATE_HOME`, `XDG_DATA_HOME`",
            "where the folders `hostler` are; without them `~/.config`, `~/.cache`, `~/.local/state`, `~/.local/share`",
        ),
    ]


def _definition(name: str, definition: Schema) -> str:
    properties = definition.get("properties", {})
    required = definition.get("required", [])
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    rows = [
        (f"`{key}`", _type(one), _default(one, key in required), _description(one)) for key, one in properties.items()
    ]
    return f"## {_title(name)}\n\n{definition.get('description', '')}\n\n{_table(('key', 'type', 'default', ''), rows)}"


def _title(name: str) -> str:
    """Return what a person calls a part of a file: ``DeviceRequestEntry`` is ``Device request``."""
    module, _, short = name.rpartition(".")
    words = re.findall("[A-Z][a-z]*", short.removesuffix("Entry"))
    if words[-1] == "File":
        return f"Files of kind {words[0]}"
    return " ".join([words[0], *map(str.lower, words[1:])]) + (f" (in {_OF[module]})" if module else "")


def _anchor(title: str) -> str:
    """Return what a heading is linked by."""
    return re.sub("[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def _type(schema: Schema) -> str:
    """Name a type of the schema in a few words."""
    if "$ref" in schema:
        title = _title(str(schema["$ref"]).rsplit("/", 1)[-1])
        return f"[{title}](#{_anchor(title)})"
    if "enum" in schema:
        values = schema["enum"]
        assert isinstance(values, list)
        return " or ".join(f"`{value}`" if value != "" else "empty" for value in values)
    if "anyOf" in schema:
        options = schema["anyOf"]
        assert isinstance(options, list)
        names = [_type(option) for option in options if option.get("type") != "null"]
        return "number or text" if set(names) == {"text", "number", "integer"} else " or ".join(dict.fromkeys(names))
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items", {})
        assert isinstance(items, dict)
        return f"list of {_type(items)}"
    if kind == "object":
        values = schema.get("additionalProperties", {})
        return f"mapping to {_type(values)}" if isinstance(values, dict) and values else "mapping"
    words = {"string": "text", "boolean": "true or false"}
    return words.get(str(kind), str(kind)) + _range(schema) if kind else "anything"


def _range(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None:
        return ""
    return f" from {low}" + (f" to {high}" if high is not None and abs(int(str(high))) < 2**31 - 1 else "")


def _default(schema: Schema, is_required: bool) -> str:
    if is_required:
        return "required"
    value = schema.get("default")
    if value is None or value in ("", [], {}):
        return ""
    return f"`{_written(value)}`"


def _written(value: object) -> str:
    """Write a value as it stands in a file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    return "''" if value == "" else str(value)


def _description(schema: Schema) -> str:
    options = schema.get("anyOf")
    nested = options if isinstance(options, list) else []
    found = schema.get("description") or next((one["description"] for one in nested if "description" in one), "")
    return str(found)


def error_codes() -> str:
    """Return the page of error codes."""
    rows = []
    for name in sorted(errors.__all__):
        kind = getattr(errors, name)
        if kind is errors.HostlerError or not issubclass(kind, errors.HostlerError):
            continue
        retry = "may help" if kind.retryable else "does not help"
        rows.append((f"`{kind.code}`", str(kind.exit_code), retry, _first_line(kind), f"`{name}`"))
    rows.sort()
    return (
        f"# Error codes\n\n{MADE_BY}\nCodes are never renamed or reused. A guest that is not placed is no error: it is "
        "a decision with reasons, and the exit code is 1.\n\n"
        + _table(("code", "exit code", "a retry", "meaning", "class in `hostler.errors`"), rows)
    )


def reasons() -> str:
    """Return the page of all reasons, notes and wake events."""
    rows = [
        (
            f"`{kind.plugin}`",
            f"`{kind.code}`",
            kind.subject,
            kind.meaning,
            "yes" if kind.is_resolvable else "no",
            ", ".join(f"`{wake}`" for wake in Wake if wake in kind.cures) or "no event of a host",
        )
        for kind in REASONS.values()
    ]
    wakes = [(f"`{code}`", ENGINE_WORDS.render(text, "NAME")) for code, text in WAKE_TEXTS.items()]
    notes = [(f"`{code}`", _declared(text)) for code, text in NOTE_TEXTS.items()]
    obstacles = [(f"`{code}`", _declared(text)) for code, text in OBSTACLE_TEXTS.items()]
    return "\n".join(
        (
            f"# Reasons\n\n{MADE_BY}",
            "A decision counts hosts by the reason that excludes them, so the counts add up to the number of hosts. A "
            "reason is shown as its code, with spaces, and its subject: `insufficient cpu`. Codes are never renamed. "
            "The control plane says VM for guest and project for tenant.\n",
            "## Reasons\n\n"
            + _table(("plugin", "code", "subject", "meaning", "an eviction can help", "what can cure it"), rows),
            "Plugins of others [declare their reasons](../guides/write-a-plugin.md#filters) in the same way.\n",
            "## Notes\n\nWhat a decision says beside its reasons.\n\n" + _table(("code", "text"), notes),
            "## Obstacles to evictions\n\nWhy `explain` says that no eviction helps.\n\n"
            + _table(("code", "text"), obstacles),
            "## Wake events\n\nWhat lets a waiting guest be tried again, beside a periodic retry.\n\n"
            + _table(("code", "text"), wakes),
        )
    )


def _declared(text: str) -> str:
    """Show a declared text with names for its arguments."""
    shown = {"count": "N", "total": "M", "hosts": "N hosts", "said": "DETAIL"}
    return ENGINE_WORDS.render(text, "NAME", **shown)


def metrics() -> str:
    """List all metrics of the processes that run for long."""
    parts = [
        "# Metrics",
        MADE_BY,
        "Both pages are `GET /metrics`, as text for Prometheus. A histogram `NAME` is shown as `NAME_bucket`, "
        "`NAME_sum` and `NAME_count`.\n",
        "## `hostler kube schedule`\n",
        "With shared metrics, those that kube-scheduler has too are also shown with its prefix `scheduler_`.\n",
        _metric_rows(SCHEDULER_METRICS),
        "## `hostler serve`\n",
        _metric_rows(CONTROL_METRICS),
    ]
    return "\n".join(parts)


def _metric_rows(table: MetricTable) -> str:
    rows = sorted(
        (f"`{table.shown_name(one)}`", one.kind, ", ".join(f"`{label}`" for label in one.labels), one.text)
        for one in table
    )
    return _table(("metric", "kind", "labels", "meaning"), rows)


def policies_and_plugins() -> str:
    """Return the page of built-in policies and plugins."""
    rows = []
    for policy in BUILT_IN.values():
        scorers = ", ".join(f"`{one.name}` {one.weight:+d}" for one in policy.scorers) or "none"
        name = f"`{policy.name}`" + (" (default)" if policy.name == DEFAULT_POLICY else "")
        rows.append((name, policy.summary, scorers, policy.soft_constraints, ", ".join(policy.ties), policy.devices))
    filters, scorers_ = Registry.names()
    registry = Registry()
    filter_rows = [
        (f"`{name}`", _first_line(KERNEL_FILTERS.get(name) or registry.filter_factory(name))) for name in filters
    ]
    scorer_rows = [(f"`{name}`", _first_line(registry.scorer_factory(name)), *SCORERS[name]) for name in scorers_]
    return "\n".join(
        (
            f"# Policies and plugins\n\n{MADE_BY}",
            "A policy is a list of filters, scorers with weights, keys that end ties, and a rule for devices. A file "
            "of kind `Config` or `Fleet` may declare more of them, and `extends` starts from one of these. A negative "
            "weight means that less is better.\n",
            "## Policies\n\n"
            + _table(("policy", "takes", "scorers and weights", "soft constraints", "ties by", "devices"), rows),
            "`fgd` measures by a typical mix of guests: the policy's own (`mix`), else that of the guests it knows.\n",
            "- `place`, `explain` and `capacity` from files, and the simulator: all guests of the input.",
            "- A live scheduler, the extender, `explain` on a live cluster and `hostler serve`: the placed guests.",
            "  A long-running one computes it again at most once a minute, before it decides. If the mix changed, it",
            "  sends the engine a fact `policy_changed`, which is in the journal. The fact wakes no waiting guest.",
            "- If most guests ask for no GPU, only those that ask for one count. Without any, the mix is a usual one:",
            "  halves, whole ones, pairs and eights of GPUs in equal parts.\n",
            "## Filters\n\n" + _table(("filter", ""), filter_rows),
            "## Scorers\n\nBefore the weight. `limit` is what a host may give; whole scores round down. A guest that "
            "asks for no cpu or memory counts with 100m and 200Mi in `least_allocated`, `most_allocated` and "
            "`capacity_ratio`.\n\n" + _table(("scorer", "", "range", "formula", "arguments"), scorer_rows),
            f"## Plugins of others\n\nA distribution offers plugins under the entry-point group `{ENTRY_POINT_GROUP}`; "
            "`hostler plugins` lists them. One is imported only when a policy names it.\n",
        )
    )


def _first_line(thing: object) -> str:
    return ((thing.__doc__ or "").strip().splitlines() or [""])[0]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


PAGES: Mapping[str, Callable[[], str]] = {
    "cli": command_line,
    "config": configuration,
    "errors": error_codes,
    "metrics": metrics,
    "policies": policies_and_plugins,
    "reasons": reasons,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
