"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from hostler.cli.completion import complete_policy

__all__ = ["FILE", "FilesOption", "NumberRange", "budgets_option", "config_option", "examples", "files_option"]
__all__ += ["output_option", "plugin_option", "policy_option", "preempt_option", "seed_annotations_option"]
__all__ += ["seed_option"]

F = TypeVar("F", bound=Callable[..., Any])

MAX_SEED = 2**32 - 1

# Only for the shell's completion: whether a file can be read is found out, and told, by those who read it.
FILE = click.Path(allow_dash=True, readable=False)


class FilesOption(click.Option):
    """``-f``, which takes a file, a folder, or several files, as shells write ``folder/*.yaml``.

    Further words count as files if they end as files do, so that an argument may follow: ``-f a.yaml b.yaml web-0``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (click's own)
        kwargs["help"] += (
            " Several files may follow one -f. A folder stands for its .yaml, .yml and .json files, in order of name, "
            "without subfolders."
        )
        super().__init__(*args, **{"multiple": True, "metavar": "FILE", "type": FILE, **kwargs})

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401 (click's own)
        """Let the parser take the files that follow the first one, too; click has no such option of its own."""
        super().add_to_parser(parser, ctx)
        for option in {id(one): one for one in _parts_of(parser, self.opts)}.values():
            option.process = partial(_take_files, option.process)


def _parts_of(parser: Any, names: Iterable[str]) -> Iterator[Any]:  # noqa: ANN401 (click's own)
    """Yield the parser's entries for the names of one option."""
    for table in (parser._short_opt, parser._long_opt):
        yield from (table[name] for name in names if name in table)


def _take_files(take: Callable[[str, Any], None], value: str, state: Any) -> None:  # noqa: ANN401 (click's own)
    from hostler.config import FILE_ENDINGS

    take(value, state)
    while state.rargs and state.rargs[0].endswith(FILE_ENDINGS) and not state.rargs[0].startswith("-"):
        take(state.rargs.pop(0), state)


class NumberRange(click.FloatRange):
    """A range that ``nan`` is not in: it compares as neither too small nor too large."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def examples(*lines: str) -> str:
    """Return the end of a help text: commands to copy, which click must not wrap."""
    return "\n".join(("\b", f"Example{'s' if len(lines) > 1 else ''}:", *(f"  {line}" for line in lines)))


def files_option(*, required: bool = True) -> Callable[[F], F]:
    """Add ``-f FILE…``, as often as wanted."""
    return click.option(
        "-f",
        "--file",
        "files",
        cls=FilesOption,
        required=required,
        help="Hosts and guests: a Fleet of ours, or Kubernetes manifests; YAML or JSON. '-' is standard input.",
    )


def output_option(*choices: str) -> Callable[[F], F]:
    """Add ``-o FORMAT``; the first choice is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="How the answer is written.",
    )


def policy_option() -> Callable[[F], F]:
    """Add ``--policy NAME``."""
    return click.option(
        "--policy",
        metavar="NAME",
        default="",
        shell_complete=complete_policy,
        help="The policy of guests that name none; see 'hostler policies'.",
    )


def config_option() -> Callable[[F], F]:
    """Add ``--config FILE``."""
    return click.option(
        "--config", metavar="FILE", type=FILE, default="", help="A configuration file; else HOSTLER_CONFIG."
    )


def plugin_option() -> Callable[[F], F]:
    """Add ``--plugin FILE``, as often as wanted."""
    return click.option(
        "--plugin",
        "plugins",
        metavar="FILE",
        type=click.Path(path_type=Path),
        multiple=True,
        help="A Python file with plugins or policies of your own; give it as often as you like.",
    )


def seed_option() -> Callable[[F], F]:
    """Add ``--seed N``."""
    return click.option(
        "--seed",
        metavar="N",
        type=click.IntRange(0, MAX_SEED),
        default=0,
        show_default=True,
        help="Where random choices come from; the same seed gives the same choices.",
    )


def preempt_option() -> Callable[[F], F]:
    """Add ``--preempt``."""
    return click.option(
        "--preempt", is_flag=True, help="Evict guests of lower priority for those that fit nowhere else."
    )


def budgets_option() -> Callable[[F], F]:
    """Add ``--budgets WORD``."""
    return click.option(
        "--budgets",
        type=click.Choice(["best_effort", "strict"]),
        default=None,
        help="Whether --preempt breaks disruption budgets when nothing else helps, or never; else the policy says.",
    )


def seed_annotations_option() -> Callable[[F], F]:
    """Add ``--seed-annotations``."""
    return click.option(
        "--seed-annotations",
        is_flag=True,
        help="Let the annotations 'priority' and 'pod-group' of pods count, as in the scheduler that this project grew "
        "from. Off unless given: anyone who may create a pod could give it precedence.",
    )
