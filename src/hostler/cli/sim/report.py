"""``hostler sim report``: results as one HTML file."""

from __future__ import annotations

import click

from hostler.cli.files import atomic_file, say_written
from hostler.cli.options import FILE, examples
from hostler.config import prepare_kernel_cache

__all__ = ["report"]


@click.command(
    epilog=examples(
        "hostler sim run openb --policy fgd -o json > fgd.json",
        "hostler sim report fgd.json first_fit.json -O report.html",
        "hostler sim sweep results --policies fgd,first_fit --runs 3",
        "hostler sim report results -O report.html",
    )
)
@click.argument("results", metavar="RESULTS...", nargs=-1, required=True, type=FILE)
@click.option(
    "-O",
    "--output-file",
    metavar="FILE",
    type=FILE,
    required=True,
    help="The page to write, which appears when it is complete; '-' is standard output.",
)
def report(results: tuple[str, ...], output_file: str) -> None:
    """Make a report of results: one HTML file with tables and charts, which needs no network.

    RESULTS are files of 'hostler sim run -o json', each with one result or a list, or folders of 'hostler sim sweep'.
    '-' is standard input. Policies keep the order of the files.
    """
    prepare_kernel_cache()
    from hostler.cli.output.decision_texts import plural
    from hostler.sim.report import read_results
    from hostler.sim.report import report_page as page_of

    found = read_results(results)
    content = page_of(found).encode()
    with atomic_file(output_file) as write:
        write(content)
    say_written(output_file, plural(len(found), "run"), len(content))
