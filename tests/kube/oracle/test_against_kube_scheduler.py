"""Random clusters for a real kube-scheduler and our engine: the same nodes, scores, choices, victims and messages.

A failure names its seed; ``python -m tests.kube.oracle --seed SEED --shrink -v`` repeats and reduces it. Intended
deviations are listed, with reasons, in ``docs/kubernetes-deviations.md``.
"""

import asyncio
import os
import random
from collections import Counter

import pytest

from hostler.kube.local import LocalCluster
from tests.kube.oracle.clusters import make_case
from tests.kube.oracle.examination import examine
from tests.kube.oracle.kube_scheduler_answers import asker

FEW = 50
MANY, AT_ONCE = 2000, 250
# Long runs look for new cases where that is asked for, as other random tests do.
FIRST = random.SystemRandom().randrange(10**8) if os.environ.get("HOSTLER_RANDOM_TESTS") == "1" else 10_000


@pytest.fixture(scope="module")
def bare_cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oracle")
    with LocalCluster.start("oracle", folder / "cluster", bare=True, dies_with_us=True) as cluster:
        yield cluster, folder


async def examined(cluster, folder, seeds):
    async with asker(cluster, folder) as real:
        return [await examine(real, make_case(seed)) for seed in seeds]


def check(bare_cluster, seeds):
    """Compare all cases of these seeds; return the outcomes of their pods."""
    cluster, folder = bare_cluster
    findings = asyncio.run(examined(cluster, folder, seeds))
    differing = [finding for finding in findings if finding.differences]
    assert not differing, "\n".join(finding.text() for finding in differing)
    assert not [line for finding in findings for line in finding.words]
    return sum((finding.counts() for finding in findings), Counter())


def test_kube_scheduler_and_our_engine_agree_on_decisions_and_messages(bare_cluster):
    counts = check(bare_cluster, range(FEW))
    # The cases are worth something only while all of this happens in them.
    assert min(counts["scored"], counts["refused"], counts["evictions"]) >= FEW / 10


@pytest.mark.long
@pytest.mark.parametrize("part", range(MANY // AT_ONCE))
def test_they_decide_alike_in_thousands_of_cases(bare_cluster, part):
    first = FIRST + part * AT_ONCE
    check(bare_cluster, range(first, first + AT_ONCE))
