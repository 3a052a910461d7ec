"""What an order may name of its host: files below the configured roots, wherever links lead, and bridges of a list.

Used by the drivers of real VMs, so that their owners cannot reach the host's own files.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from hostler.agent.driver import BlockedError, PermanentError, UnsupportedError
from hostler.agent.messages import VmNetwork

__all__ = ["check_bridge", "plain_path", "under_roots"]


def check_bridge(network: VmNetwork, bridges: Sequence[str]) -> None:
    """Refuse a bridge that the host's operator did not allow: hypervisors would take any, the management's too."""
    if network.kind != "bridge":
        return
    if not bridges:
        raise UnsupportedError("this host has no bridges for VMs", hint="order a user-mode network")
    if network.bridge not in bridges:
        raise PermanentError(
            f"VMs may not be put on the bridge {network.bridge!r}", hint=f"allowed: {', '.join(bridges)}"
        )


def under_roots(text: str, roots: Sequence[Path]) -> Path:
    """Return the real path of a file below one of the roots; where links lead out of them it is refused."""
    if not text or "\0" in text or ".." in PurePosixPath(text).parts:
        raise PermanentError(f"{text[:200]!r} is no path of an image", hint="write it without `..`")
    if not roots:
        hint = "its operator names one: hostler agent --image-root"
        raise PermanentError("no folder of images is configured on this host", hint=hint)
    candidates = [Path(text)] if text.startswith("/") else [root / text for root in roots]
    real_roots = [root.resolve() for root in roots]
    is_inside = False
    for candidate in candidates:
        if text.startswith("/") and not any(candidate.is_relative_to(root) for root in (*roots, *real_roots)):
            continue
        try:
            real = candidate.resolve(strict=True)
        except (OSError, RuntimeError):  # not there, not readable, or a ring of links
            is_inside = True
            continue
        if not any(real.is_relative_to(root) for root in real_roots):
            raise PermanentError(f"{text[:200]} leads out of the folders of images", hint="copy the file into one")
        if stat.S_ISREG(real.stat().st_mode):
            return Path(plain_path(real))
        is_inside = True
    if is_inside:
        raise BlockedError(f"there is no file {text[:200]} among the images", hint="put it there; it is tried again")
    raise PermanentError(
        f"{text[:200]} is not below a folder of images",
        hint="those of this host: " + ", ".join(str(root) for root in roots),
    )


def plain_path(path: Path) -> str:
    """Return a path as text; one that would end an option, or read as something else than a file, is refused."""
    text = str(path)
    if not text.startswith("/") or any(char == "," or ord(char) < 32 or ord(char) == 127 for char in text):
        raise PermanentError(
            f"{text[:200]!r} cannot be given to QEMU", hint="rename it: no commas, no control characters"
        )
    return text
