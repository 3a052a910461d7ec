"""Check names and wording: modules are nouns, test names fit on a line, and words of the old style are gone.

``python -m tools.plain_words [PATH…]`` prints every finding with its place. Without paths it checks the roots in
``CHECKED``. Module names and test names are checked in every Python file. Words are checked where readers meet them: in
documents, templates and settings, and in the docstrings, messages and comments of Python files outside ``tests/``.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

# Folders and files that are checked.
CHECKED: tuple[str, ...] = (
    "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "bench", "data", "demo", "deploy",
    "docs", "examples", "pyproject.toml", "src", "tests", "tools",
)  # fmt: skip

NOUNS_IN_ING = frozenset({"binding", "decoding", "encoding", "logging", "pricing", "routing", "scheduling"})
LONGEST_TEST_NAME = 80
OLD_WORDS = ("anew", "befalls", "is told", "nobody", "of which", "somebody", "whoever")
TEXT_SUFFIXES = frozenset({".css", ".html", ".js", ".md", ".toml", ".yaml"})
# This file lists the words. "nobody" is in recorded reasons, and a user of local clusters. Old names are listed. Other
# projects write as they like.
EXEMPT = (
    "tools/plain_words.py",
    "src/hostler/model/guests.py",
    "src/hostler/kube/local/credentials.py",
    "src/hostler/web/static/vendor/",
    "tools/kube/",
    "docs/renames.md",
)

_OLD_WORD = re.compile(r"\b(?:" + "|".join(word.replace(" ", r"\s+") for word in OLD_WORDS) + r")\b", re.IGNORECASE)


class Finding(NamedTuple):
    """A name or a word to change, and where it is."""

    path: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.problem}"


def check_module_name(path: str) -> Iterator[Finding]:
    """Iterate over the problem of a module's name, if it has one: it says what code does, not what it is about."""
    name = PurePosixPath(path)
    module = name.parent.name if name.name == "__init__.py" else name.stem
    last = module.rpartition("_")[2]
    if last.endswith("ing") and last not in NOUNS_IN_ING:
        yield Finding(path, 1, f"module {module}: name it by a noun, not by a word in -ing")


def check_test_names(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Iterate over the tests of a module with too long a name."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test_")
            and len(node.name) > LONGEST_TEST_NAME
        ):
            problem = f"{node.name} has {len(node.name)} letters; at most {LONGEST_TEST_NAME}"
            yield Finding(path, node.lineno, problem)


def check_python_words(path: str, source: str, tree: ast.Module) -> Iterator[Finding]:
    """Iterate over the old words in the docstrings, strings and comments of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            last = node.end_lineno or node.lineno
            for finding in check_text_words(path, node.value, node.lineno):
                # A string of several pieces has fewer line ends than lines.
                yield finding._replace(line=min(finding.line, last))
    if not _OLD_WORD.search(source):
        return  # no comment has one either; cutting a module into tokens takes longer than all the rest
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from check_text_words(path, token.string, token.start[0])


def check_text_words(path: str, text: str, first_line: int = 1) -> Iterator[Finding]:
    """Iterate over the old words in a text that begins at a line of a file."""
    for match in _OLD_WORD.finditer(text):
        line = first_line + text.count("\n", 0, match.start())
        yield Finding(path, line, f'"{" ".join(match.group().split())}" is a word of the old style')


def check_file(path: str, text: str) -> Iterator[Finding]:
    """Iterate over all findings in a file; its path is relative to the repository."""
    if path.startswith(EXEMPT):
        return
    if path.endswith(".py"):
        tree = ast.parse(text)
        yield from check_module_name(path)
        yield from check_test_names(path, tree)
        if not path.startswith("tests/"):
            yield from check_python_words(path, text, tree)
    elif PurePosixPath(path).suffix in TEXT_SUFFIXES:
        yield from check_text_words(path, text)


def check_roots(roots: Iterable[str], repository: Path = ROOT) -> list[Finding]:
    """Return the findings in files and folders of a repository, sorted by place."""
    findings: set[Finding] = set()
    for root in roots:
        top = repository / root
        if not top.exists():
            raise FileNotFoundError(f"{root} is not in the repository: correct CHECKED in tools/plain_words.py")
        for path in [top] if top.is_file() else top.rglob("*"):
            if path.suffix == ".py" or path.suffix in TEXT_SUFFIXES:
                name = path.relative_to(repository).as_posix()
                findings.update(check_file(name, path.read_text(encoding="utf-8")))
    return sorted(findings)


def main(paths: list[str]) -> int:
    """Print every finding; return the exit code."""
    findings = check_roots(paths or CHECKED)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
