"""``hostler policies``, ``plugins``, ``completion`` and ``version``: what there is, and what it runs on."""

from __future__ import annotations

import platform

import click

from hostler._version import __version__
from hostler.cli.options import config_option, examples, output_option
from hostler.cli.output.terminal import print_data, print_table, say

__all__ = ["completion", "plugins", "policies", "version"]

COMPLETION_VARIABLE = "_HOSTLER_COMPLETE"


@click.command(
    epilog=examples("hostler policies", "hostler policies -o wide", "hostler policies -o yaml"),
    short_help="List the policies.",
)
@config_option()
@output_option("table", "wide", "json", "yaml")
def policies(config: str, output: str) -> None:
    """List the policies: the built-in ones, and those of the configuration."""
    from hostler.config import load_settings, prepare_kernel_cache, write_policy

    prepare_kernel_cache()
    from hostler.engine import BUILT_IN

    settings = load_settings(BUILT_IN, config=config)
    known = [*BUILT_IN.values(), *settings.policies]
    if output in ("json", "yaml"):
        print_data({"default": settings.default_policy, "policies": [write_policy(one) for one in known]}, output)
        return
    rows = []
    for policy in known:
        name = policy.name + (" (default)" if policy.name == settings.default_policy else "")
        row = [name, policy.summary]
        if output == "wide":
            scorers = ", ".join(f"{one.name} {one.weight}" for one in policy.scorers)
            row += [scorers or "-", ", ".join(policy.ties), policy.devices]
        rows.append(row)
    wide = [("SCORERS AND WEIGHTS", "left"), ("TIES", "left"), ("DEVICES", "left")] if output == "wide" else []
    print_table([("POLICY", "left"), ("TAKES", "left"), *wide], rows)


@click.command(
    epilog=examples("hostler plugins", "hostler plugins -o json"),
    short_help="List the plugins that policies are made of.",
)
@output_option("table", "json", "yaml")
def plugins(output: str) -> None:
    """List the plugins that policies are made of: the built-in ones, and those of installed distributions."""
    from hostler.config import prepare_kernel_cache

    prepare_kernel_cache()
    from hostler.engine import Registry
    from hostler.engine.policy.registry import KERNEL_FILTERS
    from hostler.runtime.plugins import distribution_of, offered_plugins

    registry = Registry()
    filters, scorers = Registry.names()
    rows = []
    for name in filters:
        factory = KERNEL_FILTERS.get(name) or registry.filter_factory(name)
        rows.append([name, "filter", "built in", _first_line(factory)])
    rows += [[name, "scorer", "built in", _first_line(registry.scorer_factory(name))] for name in scorers]
    taken = {*filters, *scorers}
    for point in offered_plugins():
        summary = "hidden by the built-in plugin of this name" if point.name in taken else point.value
        rows.append([point.name, "plugin", distribution_of(point), summary])
    if output != "table":
        keys = ("name", "kind", "from", "summary")
        print_data([dict(zip(keys, row, strict=True)) for row in rows], output)
        return
    print_table([("PLUGIN", "left"), ("KIND", "left"), ("FROM", "left"), ("WHAT IT DOES", "left")], rows)


@click.command(
    epilog=examples(
        'eval "$(hostler completion bash)"',
        "hostler completion zsh > ~/.zfunc/_hostler",
        "hostler completion fish > ~/.config/fish/completions/hostler.fish",
    ),
    short_help="Print the completion script of a shell.",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    say(kind(ctx.find_root().command, {}, "hostler", COMPLETION_VARIABLE).source())


@click.command(
    epilog=examples("hostler version", "hostler version -o json"),
    short_help="Print the versions of Hostler and what it runs on.",
)
@output_option("table", "json", "yaml")
def version(output: str) -> None:
    """Print the versions of Hostler and what it runs on."""
    from importlib.metadata import version as version_of

    versions = {
        "hostler": __version__,
        "python": platform.python_version(),
        "numpy": version_of("numpy"),
        "numba": version_of("numba"),
    }
    if output != "table":
        print_data(versions, output)
        return
    for name, value in versions.items():
        say(f"{name} {value}")


def _first_line(thing: object) -> str:
    return ((thing.__doc__ or "").strip().splitlines() or [""])[0]
