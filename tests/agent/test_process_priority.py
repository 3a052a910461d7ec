"""What a watchdog asks of the machine for its own sake: it gets it, or says what it did not get."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import os, resource, sys
from hostler.agent.supervision import claim_priority
if sys.argv[1]:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (2**16, 2**16))
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
refusals = claim_priority()
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
print(int(status["VmLck"].split()[0]) > 0, any("memory is not locked" in one for one in refusals))
is_raised = os.sched_getscheduler(0) == os.SCHED_RR or os.getpriority(os.PRIO_PROCESS, 0) < 0
print(is_raised, any("priority is not raised" in one for one in refusals))
print(int(open("/proc/self/oom_score_adj").read()) == -1000, any("may be killed" in one for one in refusals))
print(len(bytearray(64 * 2**20)))
"""


@pytest.mark.parametrize("drops", ["", "drops"], ids=["as we are", "without rights"])
def test_each_request_is_granted_or_its_rejection_reported(drops):
    """Also in a container that grants nothing: the process goes on, and can still get memory."""
    if drops and os.getuid() != 0:
        pytest.skip("only root can become another user")
    found = subprocess.run([sys.executable, "-c", _PROGRAM, drops], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    *requests, memory = found.stdout.splitlines()
    assert {"True False", "False True"} >= set(requests)
    assert memory == str(64 * 2**20)
    if drops:
        assert requests[0] == "False True"
