"""Check that only the engine and its tests read an engine's state: fronts have ``engine.view``.

``python -m tools.engine_state`` prints every other place that reads it. It knows engines by the names of
variables for them, and the state by its attributes, so an engine under another name is found as well.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECKED = ("src", "tests", "bench", "tools")
EXEMPT = ("src/hostler/engine/", "tests/engine/")
AUDITORS = {  # tests that compare all that an engine has on its books with what another one has
    "tests/control/kills/story.py",
    "tests/kube/facts/test_increments.py",
    "tests/kube/oracle/engine_answers.py",
}
MODULE = "hostler.engine.state.state"
ENGINES = frozenset({"engine", "_engine", "twin", "trial", "fork"})
ATTRIBUTES = frozenset({"cache", "cluster", "gangs", "guests", "nominations", "profiles", "queue", "quotas", "tables"})


def reads_of_state(source: str) -> Iterator[int]:
    """Iterate over the lines of a module that read an engine's state or import its type."""
    for node in ast.walk(ast.parse(source)):
        if (isinstance(node, ast.ImportFrom) and node.module == MODULE) or (
            isinstance(node, ast.Attribute) and (_is_engine_state(node) or _is_attribute_of_state(node))
        ):
            yield node.lineno


def _is_engine_state(node: ast.Attribute) -> bool:
    return node.attr == "state" and _last_name(node.value) in ENGINES


def _is_attribute_of_state(node: ast.Attribute) -> bool:
    return node.attr in ATTRIBUTES and isinstance(node.value, ast.Attribute) and node.value.attr == "state"


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def main() -> int:
    """Print every place; return the exit code."""
    found = []
    for folder in CHECKED:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(EXEMPT) and name not in AUDITORS:
                found += [f"{name}:{line}" for line in sorted(set(reads_of_state(path.read_text(encoding="utf-8"))))]
    for place in found:
        print(f"{place}: reads the engine's state; use engine.view")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
