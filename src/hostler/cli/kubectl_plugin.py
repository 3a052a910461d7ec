"""``kubectl hostler …``: kubectl finds an executable ``kubectl-hostler`` on PATH and hands its words on.

``explain``, ``plan``, ``candidates``, ``queue`` and ``capacity`` are meant for the cluster at hand; any other word is a
command of ``hostler`` itself. KUBECONFIG counts as it does for kubectl.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

ON_A_CLUSTER = ("plan", "candidates", "queue", "capacity", "schedule")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that kubectl passes on."""
    from hostler.cli.main import main as hostler

    words = list(sys.argv[1:] if arguments is None else arguments)
    return hostler(["kube", *words] if words and words[0] in ON_A_CLUSTER else words)
