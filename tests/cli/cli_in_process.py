"""Runs the command line inside this process, as a user would: words in, exit code and two streams out."""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.cli.kernels import COMPILING
from hostler.cli.main import main

HEAD = "apiVersion: hostler/v1\nkind: Fleet\n"
WAITED_FOR = re.compile(r"[^ :]+/[^ :]+ is [a-z]+: ")  # a VM, and why a command waited for it
DEMO = Path(__file__).resolve().parents[2] / "demo"
DEMO_FILES = ("-f", str(DEMO / "fleet.yaml"), "-f", str(DEMO / "guests.yaml"))


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def error(self) -> str:
        """Return the error line, after checking that a hint follows; before it only what was in the way of VMs."""
        lines = [line for line in self.err.splitlines() if not WAITED_FOR.match(line)]
        assert len(lines) == 2, self.err
        assert lines[0].startswith("error: "), self.err
        assert lines[1].startswith("hint: "), self.err
        return lines[0].removeprefix("error: ")

    @property
    def hint(self) -> str:
        return self.err.splitlines()[-1].removeprefix("hint: ")

    def row(self, name: str) -> list[str]:
        """Return the cells of the table row that begins with a name."""
        return next(line.split() for line in self.lines if line.split()[:1] == [name])


def hostler(*words: str | Path, stdin: str = "") -> Result:
    """Run ``hostler`` with these words."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(word) for word in words])
    finally:
        sys.stdin = before
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return Result(code, texts[0], "".join(line for line in texts[1].splitlines(True) if COMPILING not in line))


def write(path: Path, body: str, *, head: str = HEAD) -> Path:
    """Write a file of ours."""
    path.write_text(head + body)
    return path
