"""Compare one case, and reduce a case that differs."""

from __future__ import annotations

from collections import Counter

import msgspec

from tests.kube.oracle.answers import SchedulerAnswer
from tests.kube.oracle.clusters import Case, place_of
from tests.kube.oracle.differences import differences, differences_in_words
from tests.kube.oracle.engine_answers import EngineAnswer, answer_of_ours
from tests.kube.oracle.kube_scheduler_answers import ReferenceScheduler

__all__ = ["Finding", "examine", "shrink", "without"]

# kube-scheduler hears of nodes, pods and budgets by separate watches, and nothing tells when it has heard all. A
# difference counts only where it stays when there is time enough for that, also on a busy machine.
_PATIENT_S = (0.5, 5.0, 30.0)
_PARTS = ("pending", "running", "nodes", "budgets", "owners")


class Finding(msgspec.Struct):
    """The result of a case: the decisions about each of its pods, and their differences."""

    case: Case
    answers: list[tuple[SchedulerAnswer, EngineAnswer]] = []
    differences: list[str] = []
    words: list[str] = []

    def text(self, *, is_long: bool = False) -> str:
        """Describe the differences, and how to reproduce them."""
        lines = [f"seed {self.case.seed}: replay with python -m tests.kube.oracle --seed {self.case.seed} -v"]
        lines += [f"  {line}" for line in self.differences]
        if is_long:
            for theirs, ours in self.answers:
                lines.append(f"  theirs {msgspec.json.encode(theirs).decode()}")
                lines.append(f"  ours   {msgspec.json.encode(ours).decode()}")
            lines.append(msgspec.json.format(msgspec.json.encode(self.case)).decode())
        return "\n".join(lines)

    def counts(self) -> Counter[str]:
        """Count the pods by outcome, to see whether the cases are worthwhile."""
        kinds: Counter[str] = Counter()
        for theirs, _ in self.answers:
            kinds["pods"] += 1
            kinds["evictions"] += bool(theirs.victims)
            kinds["refused"] += bool(theirs.message) and not theirs.nominated
            kinds["scored"] += len(theirs.scores) > 1
        return kinds


async def examine(real: ReferenceScheduler, case: Case) -> Finding:
    """Compare kube-scheduler and the engine; repeat before a difference counts."""
    try:
        finding = await _examine(real, case)
        for settle_s in _PATIENT_S:
            if finding.differences or finding.words:
                finding = await _examine(real, case, settle_s=settle_s)
    except Exception as error:
        error.add_note(f"while asking the case of seed {case.seed}")
        raise
    return finding


async def _examine(real: ReferenceScheduler, case: Case, **options: float) -> Finding:
    finding = Finding(case)
    for asked in await real.ask(case, **options):
        theirs, ours = asked.answer, answer_of_ours(asked)
        finding.answers.append((theirs, ours))
        finding.differences += differences(theirs, ours, asked.pod)
        finding.words += differences_in_words(theirs, ours)
        if ours.condition and ours.condition != ours.message:
            finding.words.append(f"our scheduler says {ours.condition!r}, the explanation {ours.message!r}")
    return finding


async def shrink(real: ReferenceScheduler, finding: Finding) -> Finding:
    """Remove pods, nodes and other objects while a difference remains."""
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
    """Remove one object and those that need it."""
    items = getattr(case, part)
    smaller = msgspec.structs.replace(case, **{part: items[:index] + items[index + 1 :]})
    if part == "nodes":
        smaller.running = [pod for pod in case.running if pod["spec"]["nodeName"] != items[index]["metadata"]["name"]]
    kept = {place_of(body) for body in (*smaller.running, *smaller.budgets)}
    smaller.statuses = {place: body for place, body in case.statuses.items() if place in kept}
    smaller.leaving = [place for place in case.leaving if place in kept]
    return smaller
