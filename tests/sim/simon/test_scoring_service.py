"""``hostler sim apply`` with ``RLSchedulerScore``: a service over HTTP scores the nodes of every pod."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.config import read_documents
from tests.cli.cli_in_process import hostler
from tests.ports import silent_port
from tests.sim.scorer.services import Part, our_service, playing
from tests.sim.simon.files import applied, cluster_config, node, pod, scheduler_config, warnings, write
from tests.wait import GIVE_UP_S

NAME = "RLSchedulerScore"
UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@pytest.fixture
def cluster(tmp_path):
    """Three nodes of a cluster of one's own, and six pods that fit on each of them."""
    write(tmp_path / "data/nodes.yaml", node("a", gpus=2), node("b", gpus=4, memory="128Gi"), node("c", cpu=64))
    write(tmp_path / "data/pods.yaml", *(pod(f"p{at}", cpu="1500m") for at in range(6)))
    return tmp_path


def config(folder: Path, **custom) -> Path:
    """Write a cluster configuration that also asks for snapshots, to see which pod is where."""
    export = {"podSnapshotYamlFilePrefix": str(folder / "out")}
    return cluster_config(folder, exportConfig=export, **custom)


def scheduler(folder: Path, endpoint: str | None = None, *others: tuple[str, int], weight: int = 1000) -> Path:
    """Write a scheduler configuration that enables the service with its preScore."""
    arguments = {NAME: {"endpoint": endpoint}} if endpoint is not None else {}
    return scheduler_config(folder, (NAME, weight), *others, pre_score=[NAME], arguments=arguments)


def pods_by_node(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for document in read_documents([str(folder / "out/InitSchedule/pod-snapshot.yaml")]):
        data: Any = document.data
        place = data["spec"].get("nodeSelector", {}).get("kubernetes.io/hostname")
        if place is not None:  # the pods that fit nowhere are in the file too
            found.setdefault(place, []).append(data["metadata"]["name"])
    return {name: sorted(pods) for name, pods in found.items()}


def prefer(name: str):
    def part(said: Part) -> None:
        said.send_json({"scores": {each: 90 if each == name else 10 for each in said.nodes}})

    return part


@contextmanager
def service(part):
    """Run a service that plays a part, and yield its address."""
    with playing(part) as client:
        yield client.options.endpoint


def test_pods_go_where_the_service_of_the_scheduler_file_says(cluster):
    with service(prefer("b")) as endpoint:
        result = applied(config(cluster), scheduler(cluster, endpoint))
    assert result.code == 0, result.err
    assert "6 events, 0 failed" in result.out
    assert "asked about 6 guests, 6 usable answers, 0 retries" in result.out
    assert list(pods_by_node(cluster)) == ["b"]
    assert warnings(result) == []


def test_service_that_reads_plain_kubernetes_objects_sees_their_amounts(cluster):
    """The reader of the seed's service: quantities as text, cpu with "m" and memory with "Ki" to "Ti"."""
    seen: dict[str, tuple[float, float, float, float]] = {}

    def cpu(text: str) -> float:
        return float(text[:-1]) / 1000 if text.endswith("m") else float(text)

    def memory(text: str) -> float:
        return next((float(text[:-2]) * size for unit, size in UNITS.items() if text.endswith(unit)), 0) or float(text)

    def read(said: Part) -> None:
        asked = [box["resources"]["requests"] for box in said.data["pod"]["spec"]["containers"]]
        for each in said.data["nodes"]:
            size = each["status"]["allocatable"]
            seen[each["metadata"]["name"]] = (
                cpu(size["cpu"]), memory(size["memory"]), sum(cpu(one["cpu"]) for one in asked),
                sum(memory(one["memory"]) for one in asked),
            )  # fmt: skip
        said.send_json({"scores": dict.fromkeys(said.nodes, 50)})

    with service(read) as endpoint:
        assert applied(config(cluster), scheduler(cluster, endpoint)).code == 0
    assert seen == {
        "a": (16, 64 * 2**30, 1.5, 2**30),
        "b": (16, 128 * 2**30, 1.5, 2**30),
        "c": (64, 64 * 2**30, 1.5, 2**30),
    }


def test_our_scoring_service_decides_as_its_network_does_in_process(cluster):
    write(cluster / "data/gpus.yaml", *(pod(f"g{at}", gpus=1 + at % 2) for at in range(3)))
    with our_service() as running:
        result = applied(config(cluster), scheduler(cluster, running.endpoint), "-o", "json")
    assert result.code == 0, result.err
    assert (result.json["events"], result.json["failed"]) == (9, 0)
    assert result.json["questions"]["answered"] > 0
    asked = pods_by_node(cluster)
    typical = {"typicalPodsConfig": {"isInvolvedCpuPods": True}}
    assert hostler("sim", "apply", "-f", config(cluster, **typical), "--policy", "mlp").code == 0
    assert pods_by_node(cluster) == asked


def test_command_of_the_service_and_the_run_work_together(cluster):
    command = [sys.executable, "-c", "import sys; from hostler.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    command += ["sim", "scorer", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        endpoint = process.stdout.readline().split()[-1]
        result = applied(config(cluster), scheduler(cluster), "--endpoint", endpoint)
        process.terminate()
        process.communicate(timeout=GIVE_UP_S)
    assert result.code == 0, result.err
    assert "6 usable answers" in result.out


def test_address_of_the_option_wins_then_the_file_then_the_variable(cluster, monkeypatch):
    with service(prefer("a")) as a, service(prefer("b")) as b, service(prefer("c")) as c:
        monkeypatch.setenv("RL_SCHEDULER_ENDPOINT", c)
        applied(config(cluster), scheduler(cluster, b), "--endpoint", a)
        assert list(pods_by_node(cluster)) == ["a"]
        applied(config(cluster), scheduler(cluster, b))
        assert list(pods_by_node(cluster)) == ["b"]
        applied(config(cluster), scheduler(cluster))
        assert list(pods_by_node(cluster)) == ["c"]


def test_scores_of_the_service_count_by_their_weight(cluster):
    """The service says c by 80 points; best fit says a (100) before c (0)."""
    with service(prefer("c")) as endpoint:
        applied(config(cluster), scheduler(cluster, endpoint, ("BestFitScore", 1), weight=1000))
        assert list(pods_by_node(cluster)) == ["c"]
        applied(config(cluster), scheduler(cluster, endpoint, ("BestFitScore", 1000), weight=1))
        assert "c" not in pods_by_node(cluster)


def test_pod_that_fits_on_one_node_only_is_not_asked_about(cluster):
    write(cluster / "data/large.yaml", pod("large", cpu="40"), pod("none", cpu="400"))
    asked: list[str] = []

    def note(said: Part) -> None:
        asked.append(said.data["pod"]["metadata"]["name"])
        prefer("c")(said)

    with service(note) as endpoint:
        found = applied(config(cluster), scheduler(cluster, endpoint), "-o", "json").json
    assert found["unscheduled"] == ["default/none"]
    assert sorted(asked) == [f"p{at}" for at in range(6)]
    assert "large" in pods_by_node(cluster)["c"]


def test_descheduled_pods_and_clones_are_asked_about_too(cluster):
    custom = {"workloadInflationConfig": {"ratio": 2}, "descheduleConfig": {"ratio": 1.0, "policy": "cosSim"}}
    with service(prefer("a")) as endpoint:
        found = applied(config(cluster, **custom), scheduler(cluster, endpoint), "-o", "json").json
    stages = {stage["tag"]: stage for stage in found["stages"]}
    assert found["questions"]["asked"] >= 6 + stages["ScheduleInflation"]["arrived"]


# -- failures ----------------------------------------------------------------------------------------------------------


def failing(said: Part) -> None:
    said.send(b"oops", status=500)


def nonsense(said: Part) -> None:
    said.send(b"<html>welcome</html>")


def too_high(said: Part) -> None:
    said.send_json({"scores": dict.fromkeys(said.nodes, 101)})


def unknown(said: Part) -> None:
    said.send_json({"scores": {"elsewhere": 1}})


@pytest.mark.parametrize(
    ("part", "problem", "hint"),
    [
        (failing, "the service says 500", "see the log of the service"),
        (nonsense, 'the answer is not {"scores": {...}}', "the answer to a question is"),
        (too_high, "the score of 'a' is 101, not a whole number from 0 to 100", "the answer to a question is"),
        (unknown, "the answer has a score for 'elsewhere', which was not asked about", "the answer to a question is"),
    ],
)
def test_bad_answer_ends_the_run_with_the_pod_and_the_address(cluster, part, problem, hint):
    with service(part) as endpoint:
        result = applied(config(cluster), scheduler(cluster, endpoint), "--retries", "0")
    assert result.code == 3
    assert result.error.startswith(f"no score for pod default/p0: {endpoint}: {problem}")
    assert result.hint.startswith(hint)
    assert not (cluster / "out").exists(), "nothing is written of a run that ended"


def test_service_that_is_not_there_ends_the_run_and_says_how_to_start_one(cluster):
    with silent_port() as port:
        result = applied(config(cluster), scheduler(cluster, f"http://127.0.0.1:{port}/score"), "--retries", "0")
    assert result.code == 3
    assert f"http://127.0.0.1:{port}/score: " in result.error
    assert "hostler sim scorer serve" in result.hint


def test_slow_service_ends_the_run_and_names_the_time(cluster):
    def slow(said: Part) -> None:
        said.handler.rfile.read(1)  # until the client turns away
        said.hang_up()

    with service(slow) as endpoint:
        result = applied(config(cluster), scheduler(cluster, endpoint), "--timeout", "0.2", "--retries", "1")
    assert result.code == 3
    assert "no answer within 0.2 s" in result.error
    assert "--timeout" in result.hint


def test_without_an_answer_pods_may_be_decided_or_dropped(cluster):
    answers = {1: failing, 2: nonsense}

    def at_first(said: Part) -> None:
        answers.get(said.number, prefer("b"))(said)

    with service(at_first) as endpoint:
        skip = applied(
            config(cluster), scheduler(cluster, endpoint), "--retries", "0", "--on-failure", "skip", "-o", "json"
        ).json
    assert (skip["failed"], skip["questions"]["answered"]) == (0, 4)
    with service(at_first) as endpoint:
        fail = applied(config(cluster), scheduler(cluster, endpoint), "--retries", "0", "--on-failure", "fail")
    assert fail.code == 0
    assert "6 events, 2 failed" in fail.out
    assert "2 guests refused for it" in fail.out
    assert fail.row("status")[:2] == ["status", "1"]


def test_service_that_never_answers_is_an_error_in_every_mode(cluster):
    with service(failing) as endpoint:
        words = ("--retries", "0", "--on-failure", "skip")
        result = applied(config(cluster), scheduler(cluster, endpoint), *words)
    assert result.code == 3
    assert f"error: {endpoint} gave no usable answer" in result.err


def test_address_that_is_none_or_not_used_is_refused(cluster):
    assert "is not an address" in applied(config(cluster), scheduler(cluster, "here")).error
    bad = scheduler_config(cluster, (NAME, 1), pre_score=[NAME], arguments={NAME: {"endpoint": 5}})
    assert "args.endpoint is '5', not an address" in applied(config(cluster), bad).error
    other = scheduler_config(cluster, ("BestFitScore", 1))
    result = applied(config(cluster), other, "--endpoint", "http://127.0.0.1:1/score")
    assert result.code == 2
    assert "RLSchedulerScore" in result.err
