"""The log of kube-scheduler at verbosity 10: the score of every plugin for every node."""

from __future__ import annotations

import re
from collections import defaultdict

__all__ = ["Log"]

_SCORED = re.compile(r'"Plugin scored node for pod" pod="([^"]+)" plugin="([^"]+)" node="([^"]+)" score=(-?\d+)')
_TOTAL = re.compile(r'"Calculated node\'s final score for pod" pod="([^"]+)" node="([^"]+)" score=(-?\d+)')
_BOUND = re.compile(r'"Successfully bound pod to node" pod="([^"]+)"')
_KEPT_LINES = 200


class Log:
    """The log so far; pods are named ``namespace/name``, as in the log."""

    def __init__(self) -> None:
        self.scores: dict[str, dict[str, dict[str, int]]] = {}  # pod, node, plugin
        self.totals: dict[str, dict[str, int]] = defaultdict(dict)
        self.bound: set[str] = set()
        self.others: list[str] = []  # the last lines that say something else, to find the cause of a failure

    def take(self, line: str) -> None:
        """Read one line."""
        if found := _SCORED.search(line):
            pod, plugin, node, score = found.groups()
            self.scores.setdefault(pod, {}).setdefault(node, {})[plugin] = int(score)
        elif found := _TOTAL.search(line):
            self.totals[found[1]][found[2]] = int(found[3])
        else:
            if found := _BOUND.search(line):
                self.bound.add(found[1])
            self.others = [*self.others[-_KEPT_LINES:], line.rstrip()]

    def forget(self) -> None:
        """Forget the pods of an earlier case."""
        self.scores.clear()
        self.totals.clear()
        self.bound.clear()
