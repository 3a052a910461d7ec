"""Counts agree with their nouns, in every command; and what is read from files speaks of no binds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from hostler.sim.traces.demand import too_large_text
from tests.cli.cli_in_process import hostler, write

COMMANDS = Path(__file__).parents[2] / "src" / "hostler" / "cli"
NOUNS = re.compile(
    r" (?:hosts|guests|nodes|pods|arrivals|events|VMs|members|cells|GPUs|requests|answers|retries|scores|"
    r"entries|steps|decisions|facts|lines|files|policies|seeds|usable answers|typical ones)\b"
)
# Sentences that are only written about more than one, and one with a verb.
ALWAYS_MANY = (
    "runs {} seeds",
    "with all {} seeds",
    "describe {} VMs",
    "{} guests that",
    "{} pods that",
    "{} answers at",
)


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of every f-string, with {} in place of values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(map(_part, node.values))


def _part(part: ast.expr) -> str:
    """Return a constant as it is, {} for a whole number, and {.} for a number with decimals."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    return "{.}" if part.format_spec is not None and ast.unparse(part.format_spec).endswith("f'") else "{}"


def _uncounted(path: Path) -> Iterator[str]:
    for line, text in _texts(ast.parse(path.read_text())):
        for known in ALWAYS_MANY:
            text = text.replace(known, "")
        for match in re.finditer(r"\{\}" + NOUNS.pattern, text):
            yield f"{path.relative_to(COMMANDS)}:{line}: {match[0]}"


def test_every_count_before_a_noun_is_made_by_plural():
    assert [found for path in sorted(COMMANDS.rglob("*.py")) for found in _uncounted(path)] == []


def test_one_guest_larger_than_every_host_is_singular():
    assert too_large_text(1, 1) == "1 of 1 guest is larger than every host"
    assert too_large_text(2, 3000) == "2 of 3,000 guests are larger than every host"


def test_explanation_from_files_speaks_of_no_binds(tmp_path):
    fleet = write(
        tmp_path / "f.yaml",
        "hosts: [{name: a, capacity: {cpu: 1}}]\ngangs: [{name: crew, min_count: 1}]\n"
        "guests: [{name: g, gang: crew, requests: {cpu: 2}}]\n",
    )
    for output in ("table", "json"):
        out = hostler("explain", "-f", fleet, "g", "-o", output).out
        assert "a guest leaves or shrinks" in out
        assert not re.search(r"\bbinds?\b", out)
