"""``fgd`` on a real cluster: the scheduler, ``hostler explain`` and the extender measure by the running pods."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from hostler.engine import BUILT_IN
from hostler.kube.api.http import client_for
from hostler.kube.extender.cluster_follower import ClusterFollower
from hostler.kube.extender.protocol import ExtenderArgs
from hostler.kube.extender.service import ExtenderService
from hostler.manifests.pods.gpus import GPU_COUNT, GPU_INDEX, GPU_MILLI
from hostler.runtime.clock import SteadyClock
from tests.cli.cli_in_process import hostler
from tests.wait import until

NODE = {"cpu": "32", "memory": "64Gi", "pods": "20", GPU_COUNT: "2", GPU_MILLI: "2000"}


def sharing(cluster, name, milli, **more):
    """Return a pod that asks for a share of a gpu, and names the gpu that it runs on."""
    annotations = {GPU_MILLI: str(milli), GPU_COUNT: "1"}
    if "device" in more:
        annotations[GPU_INDEX] = str(more.pop("device"))
    return cluster.pod(name, "1", metadata={"annotations": annotations}, **more)


async def kept_by_the_extender(cluster, nodes, pod):
    """Return the node that an extender by fgd keeps for a pod."""
    client = client_for(cluster.control_plane.kubeconfig())
    service = ExtenderService(SteadyClock(), bind=None, find_pod=None)
    follower = ClusterFollower(client, service, BUILT_IN["fgd"], clock=SteadyClock(), random=random.Random(1))
    following = asyncio.ensure_future(follower.run())
    await until(lambda: service.adviser is not None)
    answer = service.filter(msgspec.convert({"Pod": pod, "NodeNames": nodes}, ExtenderArgs))
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await client.close()
    return answer.NodeNames


@pytest.mark.parametrize("seed", [5, 7])
def test_scheduler_explain_and_extender_choose_the_same_node(cluster, seed):
    rng = random.Random(seed)
    sizes = rng.sample((150, 200, 350, 400, 600, 700), 2)
    cluster.policy = "fgd"
    nodes = [cluster.add_node(NODE) for _ in range(6)]
    cluster.create(
        *(
            sharing(cluster, f"runs-{number}-{device}", rng.choice(sizes), nodeName=node, device=device)
            for number, node in enumerate(nodes)
            for device in range(2)
            if rng.random() < 0.7
        )
    )
    pod = sharing(cluster, "new", rng.choice((100, 250, 300, 500)))
    cluster.create(pod)
    words = ("--config", cluster.config(), "--kubeconfig", cluster.control_plane.kubeconfig(), "-n", cluster.name)
    explained = hostler("explain", "new", *words, "-o", "json").json["decision"]["host"]
    extender = asyncio.run(kept_by_the_extender(cluster, nodes, cluster.pods()["new"]))
    cluster.start()
    bound = cluster.wait_for(1, "new")["new"]
    assert [explained] == extender == [bound]
