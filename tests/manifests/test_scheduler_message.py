"""What a live cluster's front says about a pod stands in kube-scheduler's line as it is; bare words get theirs."""

import msgspec
import pytest

from hostler.manifests.scheduler_message import gang_message, scheduler_message
from hostler.model import Decision, Explanation, Failure, GuestSpec, HostVerdict, Reason, ReasonCount

WAITS = Decision(guest="a", uid="a", seq=1, at=0, policy="p", state="waiting")
LINES = {
    'persistentvolumeclaim "c" not found': '0/2 nodes are available: persistentvolumeclaim "c" not found.',
    "resource claims": "0/2 nodes are available: 2 not supported: resource claims.",
}


@pytest.mark.parametrize(("need", "line"), LINES.items(), ids=["a reason", "a bare word"])
def test_what_stands_in_the_way_of_a_pod_reads_well(need, line):
    reason = Reason("unsupported", "not_supported", need)
    verdicts = tuple(HostVerdict(host=name, failures=(Failure(reason=reason),)) for name in ("n1", "n2"))
    explanation = Explanation(decision=WAITS, as_of="now", verdicts=verdicts)
    assert scheduler_message(explanation, GuestSpec(unsupported=(need,))) == line


def test_what_stands_in_the_way_of_a_gang_reads_well():
    reason = Reason("unsupported", "not_supported", "pod has unbound immediate PersistentVolumeClaims")
    decision = msgspec.structs.replace(WAITS, hosts=2, reasons=(ReasonCount(reason, 2),))
    line = "0/2 nodes are available: 2 pod has unbound immediate PersistentVolumeClaims."
    assert gang_message(decision) == line
