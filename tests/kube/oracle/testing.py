"""One case from question to finding, and how a case that differs is made smaller."""

from __future__ import annotations

from collections import Counter

import msgspec

from tests.kube.oracle.answers import Answer
from tests.kube.oracle.asking import Asker
from tests.kube.oracle.clusters import Case, place_of
from tests.kube.oracle.comparing import differences, differences_in_words
from tests.kube.oracle.ours import Ours, answer_of_ours

__all__ = ["Finding", "examine", "shrink", "without"]

# kube-scheduler hears of nodes, pods and budgets by separate watches, and nothing tells when it has heard all. A
# difference counts only where it stays when there is time enough for that, also on a busy machine.
_PATIENT_S = (0.5, 5.0, 30.0)
_PARTS = ("pending", "running", "nodes", "budgets", "owners")


class Finding(msgspec.Struct):
    """What came of a case: the answers for each of its pods, and where they differ."""

    case: Case
    answers: list[tuple[Answer, Ours]] = []
    differences: list[str] = []
    words: list[str] = []

    def text(self, *, is_long: bool = False) -> str:
        """Write down what differs, and how to see it again."""
        lines = [f"seed {self.case.seed}: replay with python -m tests.kube.oracle --seed {self.case.seed} -v"]
        lines += [f"  {line}" for line in self.differences]
        if is_long:
            for theirs, ours in self.answers:
                lines.append(f"  theirs {msgspec.json.encode(theirs).decode()}")
                lines.append(f"  ours   {msgspec.json.encode(ours).decode()}")
            lines.append(msgspec.json.format(msgspec.json.encode(self.case)).decode())
        return "\n".join(lines)

    def counts(self) -> Counter[str]:
        """Count the pods by what became of them, so that one sees whether the cases are worth asking."""
        kinds: Counter[str] = Counter()
        for theirs, _ in self.answers:
            kinds["pods"] += 1
            kinds["evictions"] += bool(theirs.victims)
            kinds["refused"] += bool(theirs.message) and not theirs.nominated
            kinds["scored"] += len(theirs.scores) > 1
        return kinds


async def examine(real: Asker, case: Case) -> Finding:
    """Ask kube-scheduler and the engine, and compare; ask again before a difference is believed."""
    try:
        finding = await _examine(real, case)
        for settle_s in _PATIENT_S:
            if finding.differences or finding.words:
                finding = await _examine(real, case, settle_s=settle_s)
    except Exception as error:
        error.add_note(f"while asking the case of seed {case.seed}")
        raise
    return finding


async def _examine(real: Asker, case: Case, **options: float) -> Finding:
    finding = Finding(case)
    for asked in await real.ask(case, **options):
        theirs, ours = asked.answer, answer_of_ours(asked)
        finding.answers.append((theirs, ours))
        finding.differences += differences(theirs, ours, asked.pod)
        finding.words += differences_in_words(theirs, ours)
        if ours.condition and ours.condition != ours.message:
            finding.words.append(f"our scheduler says {ours.condition!r}, the explanation {ours.message!r}")
    return finding


async def shrink(real: Asker, finding: Finding) -> Finding:
    """Leave out pods, nodes and other objects as long as something still differs."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for part in _PARTS:
            for i in reversed(range(len(getattr(finding.case, part)))):
                tried = await examine(real, without(finding.case, part, i))
                if tried.differences:
                    finding, is_smaller = tried, True
    return finding


def without(case: Case, part: str, index: int) -> Case:
    """Leave one object out, and what cannot be without it."""
    items = getattr(case, part)
    smaller = msgspec.structs.replace(case, **{part: items[:index] + items[index + 1 :]})
    if part == "nodes":
        smaller.running = [pod for pod in case.running if pod["spec"]["nodeName"] != items[index]["metadata"]["name"]]
    kept = {place_of(body) for body in (*smaller.running, *smaller.budgets)}
    smaller.statuses = {place: body for place, body in case.statuses.items() if place in kept}
    smaller.leaving = [place for place in case.leaving if place in kept]
    return smaller
