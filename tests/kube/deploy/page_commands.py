"""Run the commands of a page in one shell, and compare their output with what the page shows, loosely.

Shown lines must be printed in that order; blanks count as one, and `…` matches anything. Other lines may be printed
too. A command may be marked as failing: ``# exit 1``.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

__all__ = ["Shell", "play", "steps_of"]

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"\s+# exit ([0-9]+)$")


class Step(msgspec.Struct):
    """A command, its exit code, and the shown part of its output."""

    command: str
    code: int
    shown: list[str]


class Shell:
    """One bash for all commands of a page, so that variables and jobs stay."""

    def __init__(self, folder: Path, kubectl: str, **variables: str) -> None:
        path = f"{Path(sys.executable).parent}:{Path(kubectl).parent}:{os.environ['PATH']}"
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=folder, env={**os.environ, "PATH": path, **variables}, start_new_session=True,
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
    """Return the commands of a page's console blocks."""
    steps: list[Step] = []
    for block in _BLOCK.findall(text):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if line.startswith("$ "):
                code = _CODE.search(line)
                steps.append(Step(_CODE.sub("", line[2:]), int(code[1]) if code else 0, []))
            elif line.strip():
                steps[-1].shown.append(line)
    return steps


def play(text: str, shell: Shell) -> list[list[str]]:
    """Run all commands of a page, compare, and return the output of each."""
    printed = []
    for step in steps_of(text):
        code, lines = shell.type(step.command)
        said = "\n".join(lines)
        assert code == step.code, f"$ {step.command}\n{said}"
        at = 0
        for shown in step.shown:
            pattern = _pattern(shown)
            at = next((i + 1 for i in range(at, len(lines)) if pattern.fullmatch(" ".join(lines[i].split()))), -1)
            assert at >= 0, f"$ {step.command}\n{said}\n-- this line is not there, or not after the others:\n{shown}"
        printed.append(lines)
    return printed


def _pattern(shown: str) -> re.Pattern[str]:
    words = " ".join(shown.split())
    return re.compile(".*".join(re.escape(part) for part in words.split("…")))
