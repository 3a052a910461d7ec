"""The log of a scheduler while the API server is away, and at the start and the end of a term."""

import asyncio

import pytest
from msgspec.structs import replace

from hostler.cli.main import main
from hostler.kube.configuration import default_settings
from hostler.kube.scheduler.notices import Complaints, TermReport, log_start
from hostler.telemetry.log import Log
from tests.kube.faults.scripted_transport import lost
from tests.kube.faults.simulated_cluster import SimulatedCluster, play


def _texts(lines: list[str]) -> list[str]:
    return [line.partition(" ")[2] for line in lines]


@pytest.mark.parametrize(
    ("election", "back"), [(True, "lists, watches and the lease work again"), (False, "lists and watches work again")]
)
def test_an_outage_says_what_cannot_be_done_and_what_works_again(election, back):
    lines: list[str] = []

    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1")
        actor = await cluster.lead()
        watching = asyncio.ensure_future(Complaints(actor.scheduler, Log(lines.append), cluster.clock).watch())
        cluster.outage.begin(6)
        await cluster.sleep(240)
        watching.cancel()

    play(story, election=election)
    said = _texts(lines)
    warnings = [line for line in said if line.startswith("WARN")]
    assert any(line.startswith("WARN  cannot list or watch pods and ") for line in warnings)
    assert all(line.endswith("; trying again") for line in warnings)
    assert any("the lease" in line for line in warnings) is election
    assert said[-1] == f"INFO  {back}"


def test_lost_lease_is_logged_with_its_reason_and_the_wait_for_it():
    lines: list[str] = []

    async def story(cluster: SimulatedCluster) -> None:
        actor = await cluster.lead()
        report = TermReport(actor.scheduler, Log(lines.append), cluster.clock)
        actor.script.next("lease", lost(), times=None)
        report.log_end(await actor.task)

    play(story)
    (line,) = _texts(lines)
    assert line.startswith("WARN  lost the lease kube-system/hostler-scheduler; waiting for it again why=")
    assert "bound=0" in line


def test_a_start_names_the_file_and_whether_a_node_takes_one_pod_only():
    lines: list[str] = []
    settings = default_settings()
    log_start(Log(lines.append), settings, "scheduler.yaml")
    (policy,) = settings.policies
    alone, other = replace(policy, one_guest_per_host=True), replace(policy, name="other")
    log_start(Log(lines.append), replace(settings, policies=(alone,)))
    log_start(Log(lines.append), replace(settings, policies=(alone, other)))
    assert " config=scheduler.yaml " in lines[0]
    assert " one_pod_per_node=no " in lines[0]
    assert " config=none " in lines[1]
    assert " one_pod_per_node=yes " in lines[1]
    assert " one_pod_per_node=kubernetes " in lines[2]


def test_pages_that_others_reach_without_tls_are_warned_of(tmp_path, capsys):
    path = tmp_path / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}"
    )
    assert main(["kube", "schedule", "--kubeconfig", str(path), "--listen", "0.0.0.0:0", "--insecure-listen"]) == 3
    said = capsys.readouterr().err
    assert "INFO  starting" in said
    assert "WARN  tokens can be read on the network" in said
    assert "connection refused" in said
