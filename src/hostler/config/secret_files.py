"""Files that hold secrets: reading and writing them, and what secrets of the control plane look like.

Used for the keys of clients and the tokens of agents, and by those who must not print one that stands in the wrong
place. No secret is read from a file that others may read, and none is written to a device, a pipe or a folder.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path

from hostler.errors import InputError, UnavailableError

__all__ = ["check_secret_file", "looks_secret", "read_private", "read_secret_lines", "write_secret"]

STANDARD_STREAM = "-"

_LONGEST_SECRETS = 16 * 2**20
_LONGEST_SECRET = 4096  # one line of them
# Also cut off, mistyped or in capitals: it may still be most of a secret.
_OURS = re.compile(r"(?<![a-z0-9])h[kja]_[\w-]{20,}", re.IGNORECASE)


def looks_secret(text: str) -> bool:
    """Say whether a text has an API key, a join token or an agent's credential in it."""
    return _OURS.search(text) is not None


def read_private(file: Path, most: int, *, option: str, shown: str) -> str:
    """Read at most so many letters of a file that only its owner may read, or of a pipe; OSError, ValueError."""
    mode = file.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise InputError(f"{option}: {shown} is no file", hint="name a file that only you may read")
    if stat.S_IMODE(mode) & 0o077:
        raise InputError(f"{option}: others than its owner may use {shown}", hint=f"chmod 600 {shown}")
    with file.open(encoding="ascii") as opened:
        return opened.read(most)


def read_secret_lines(option: str, path: str) -> list[str]:
    """Read secrets, one per line, from a file that only its owner may read, or from standard input by ``-``."""
    shown = "the file" if looks_secret(path) else path
    try:
        if path == STANDARD_STREAM:
            content = sys.stdin.read(_LONGEST_SECRETS)
        else:
            content = read_private(Path(path), _LONGEST_SECRETS, option=option, shown=shown)
    except (OSError, ValueError) as error:
        if looks_secret(path):
            hint = "put the secret into a file that only you may read, and name that; anyone who saw it here can use it"
            raise InputError(f"{option}: that looks like a secret, not a file", hint=hint) from None
        problem = (getattr(error, "strerror", None) or "not plain text").lower()
        raise InputError(f"{option}: {path} cannot be read: {problem}", hint="check the path and its owner") from None
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{option}: {shown} is empty", hint="it must hold what the control plane gave out")
    if any(len(line) > _LONGEST_SECRET or not line.isprintable() for line in lines):
        raise InputError(f"{option}: {shown} holds no secret", hint="it must hold what the control plane gave out")
    return lines


def write_secret(path: Path, secret: str) -> None:
    """Write a secret to a file that only its owner reads; InputError, UnavailableError."""
    check_secret_file(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    except OSError as error:
        raise UnavailableError(f"{path}: {error.strerror}", hint="name a file that can be written") from error
    with os.fdopen(descriptor, "w") as file:
        _check_regular(path, os.fstat(descriptor).st_mode)  # what was opened, whatever stood there a moment before
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        file.write(f"{secret}\n")


def check_secret_file(path: Path) -> None:
    """Reject a path where a secret cannot be kept, before one is created. A missing file is accepted."""
    with suppress(OSError):  # writing will say what is wrong with it
        _check_regular(path, path.stat().st_mode)


def _check_regular(path: Path, mode: int) -> None:
    """Reject a device, a pipe or a folder: its mode would be changed for everybody who uses it."""
    if not stat.S_ISREG(mode):
        hint = "name a file: it is made, and only its owner can read it"
        raise InputError(f"{path} is no regular file, so no secret is written there", hint=hint)
