"""The commands of a page, with the output that it shows for them, and a shell that types them.

Commands stand in blocks marked ``console``, on lines that begin with ``$ ``. The lines below a command are its output.
A command must end with exit code 0, or with the one that a comment gives: ``$ hostler place … # exit 1``.

``play`` types a page on a live cluster and compares loosely: shown lines must be printed in that order, and other lines
may be printed too. ``tests.docs.page_output`` compares exactly.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Shell", "Step", "matches_line", "play", "steps_of"]

_CODE = re.compile(r"\s+#\s*exit\s+([0-9]+)\s*$")


class Step(NamedTuple):
    """A command of a page, its exit code, the output that the page shows, and where that is."""

    command: str
    code: int
    shown: tuple[str, ...]
    first: int  # the number of lines of the page above its output
    end: int  # the number of lines up to its end


class Shell:
    """One bash for all commands of a page, so that variables and jobs stay; without the settings of this user.

    Programs in the folder of ``program`` are found too.
    """

    def __init__(self, folder: Path, program: str, **variables: str) -> None:
        path = f"{Path(sys.executable).parent}:{Path(program).parent}:{os.environ['PATH']}"
        others = {name: value for name, value in os.environ.items() if not name.startswith("HOSTLER_")}
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=folder, env={**others, "PATH": path, **variables}, start_new_session=True,
        )  # fmt: skip
        self._number = 0

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.stdin.close()
        self._process.stdout.read()
        self._process.stdout.close()
        self._process.wait()

    def type(self, command: str) -> tuple[int, list[str]]:
        """Run a command and return its exit code and its lines."""
        self._number += 1
        mark = f"@@{self._number} "
        self._process.stdin.write(f"{{ {command}\n}} < /dev/null\necho $'\\n'\"{mark}$?\"\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.startswith(mark):
                return int(line[len(mark) :]), lines[:-1] if lines and not lines[-1] else lines
            lines.append(line.rstrip("\n"))
        raise AssertionError(f"the shell ended: {lines}")


def steps_of(text: str) -> list[Step]:
    """Return the commands of a page's console blocks, in order."""
    lines = text.splitlines()
    return [step for begin, end in _console_blocks(lines) for step in _steps_of_block(lines, begin, end)]


def _console_blocks(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Iterate over the ranges of lines inside of console blocks."""
    begin = None
    for at, line in enumerate(lines):
        if begin is not None and line == "```":
            yield begin, at
            begin = None
        elif line == "```console":
            begin = at + 1


def _steps_of_block(lines: list[str], begin: int, end: int) -> Iterator[Step]:
    at = begin
    while at < end:
        if not lines[at].startswith("$ "):
            at += 1
            continue
        command = lines[at].removeprefix("$ ")
        at += 1
        while command.endswith("\\"):
            command = command[:-1] + lines[at].lstrip().removeprefix("> ")
            at += 1
        first = at
        while at < end and not lines[at].startswith("$ "):
            at += 1
        shown = "\n".join(lines[first:at]).rstrip().splitlines()
        code = _CODE.search(command)
        yield Step(_CODE.sub("", command), int(code[1]) if code else 0, tuple(shown), first, first + len(shown))


def play(text: str, shell: Shell) -> list[list[str]]:
    """Run all commands of a page, compare, and return the output of each."""
    printed = []
    for step in steps_of(text):
        code, lines = shell.type(step.command)
        said = "\n".join(lines)
        assert code == step.code, f"$ {step.command}\n{said}"
        at = 0
        for shown in filter(str.strip, step.shown):
            at = next((i + 1 for i in range(at, len(lines)) if matches_line(shown, lines[i])), -1)
            assert at >= 0, f"$ {step.command}\n{said}\n-- this line is not there, or not after the others:\n{shown}"
        printed.append(lines)
    return printed


def matches_line(shown: str, printed: str) -> bool:
    """Return whether a line is as shown: any number of blanks counts as one, and `…` stands for anything."""
    parts = " ".join(shown.split()).split("…")
    return re.fullmatch(".*".join(map(re.escape, parts)), " ".join(printed.split())) is not None
