"""The scoring service: what it answers, what it refuses, and that it stops when told."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys

import pytest

from hostler.errors import UnavailableError
from hostler.manifests import guest_to_pod, host_to_node
from hostler.model import Guest
from hostler.sim.scorer.network import shipped_network
from hostler.sim.scorer.service import ScoringService
from tests.cli.cli_in_process import hostler
from tests.sim.scorer.services import our_service, served, small_fleet
from tests.wait import GIVE_UP_S

FLEET = small_fleet()
POD = guest_to_pod(Guest(name="p", uid="p", spec=FLEET.specs[2]))
NODES = [host_to_node(host) for host in FLEET.hosts]


@pytest.fixture(scope="module")
def service():
    with our_service() as running:
        yield running


def ask(service, body, *, method="POST", path="/score", headers=None):
    """Return the status and the decoded answer of one request."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", service.server_port, timeout=120)
    try:
        connection.request(method, path, raw, headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_plain_kubernetes_objects_are_scored(service):
    status, answer = ask(service, {"pod": POD, "nodes": NODES})
    assert status == 200
    assert set(answer["scores"]) == {host.name for host in FLEET.hosts}
    assert all(isinstance(score, int) and 0 <= score <= 100 for score in answer["scores"].values())


def test_what_is_free_counts_and_not_what_there_is(service):
    node = json.loads(json.dumps(NODES[1]))
    _, empty = ask(service, {"pod": POD, "nodes": [node]})
    free = {"cpu_millis": 3000, "memory_bytes": 2**30, "gpu_millis": [810, 0]}
    node["metadata"]["annotations"] = {"hostler.dev/free": json.dumps(free)}
    _, used = ask(service, {"pod": POD, "nodes": [node]})
    assert used["scores"]["node-1"] != empty["scores"]["node-1"]


def test_numbers_by_resource_are_scored_one_node_at_a_time(service):
    node = {"cpu": 32.0, "memory": 2.0**36, "alibabacloud.com/gpu-count": 2.0}
    status, answer = ask(service, {"pod": {"cpu": 2.0, "alibabacloud.com/gpu-milli": 500.0}, "node": node})
    assert (status, list(answer)) == (200, ["score"])


def test_no_nodes_have_no_scores(service):
    assert ask(service, {"pod": POD, "nodes": []}) == (200, {"scores": {}})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"\xff\xff",
        b"[]",
        b'{"pod": ' + b"[" * 100_000,
        {"pod": POD},
        {"nodes": NODES},
        {"pod": POD, "nodes": {}},
        {"pod": POD, "nodes": [{}]},
        {"pod": {}, "nodes": NODES},
        {"pod": POD, "nodes": [NODES[0], NODES[0]]},
        {"pod": POD, "nodes": [{**NODES[0], "status": {"allocatable": {"cpu": "a lot"}}}]},
        {"pod": POD, "nodes": [{"metadata": {"name": "n", "annotations": {"hostler.dev/free": "{}"}}}]},
        {"pod": POD, "nodes": [{"metadata": {"name": "n", "annotations": {"hostler.dev/free": "nonsense"}}}]},
        {"pod": {"cpu": "one"}, "node": {"cpu": 1.0}},
        {"pod": {"cpu": 1.0}, "node": {"cpu": 1e300}},
        {"pod": {"cpu": 1.0}, "node": {"alibabacloud.com/gpu-count": 1e6}},
        {"pod": {"cpu": 1.0}, "node": {"alibabacloud.com/gpu-count": 1.0, "hostler.dev/free.gpu.0": -5.0}},
    ],
)
def test_a_bad_request_gets_400_and_says_why(service, body):
    status, answer = ask(service, body)
    assert status == 400
    assert answer["error"]


def test_other_paths_and_methods_are_told_apart(service):
    assert ask(service, {}, path="/elsewhere")[0] == 404
    assert ask(service, b"", method="GET")[0] == 405
    assert ask(service, b"", method="GET", path="/healthz") == (200, {"model": "fgd_like"})


def test_a_request_without_a_length_or_with_too_much_is_not_read():
    with served(ScoringService(shipped_network(), port=0, most_bytes=100)) as small:
        assert ask(small, b" " * 101)[0] == 413
        assert ask(small, b"0\r\n\r\n", headers={"Transfer-Encoding": "chunked"})[0] == 411
        assert ask(small, b"", headers={"Content-Length": "many"})[0] == 400, "that is no HTTP"


def test_a_port_in_use_is_reported(service):
    with pytest.raises(UnavailableError, match="cannot listen"):
        ScoringService(shipped_network(), port=service.server_port)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_asked_to_stop(number):
    command = [sys.executable, "-c", "import sys; from hostler.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    command += ["sim", "scorer", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("fgd_like answers at http://127.0.0.1:")
        process.send_signal(number)
        out, err = process.communicate(timeout=GIVE_UP_S)
    assert (process.returncode, out, err) == (0, "", "stopped\n")


def test_an_experiment_runs_against_the_service(service):
    words = ("sim", "scorer", "run", "--endpoint", service.endpoint, "--tune", "0.01", "-o", "json")
    asked = hostler(*words)
    assert asked.code == 0, asked.err
    assert asked.json["questions"]["answered"] == asked.json["result"]["events"] > 10
    shown = hostler(*words[:-2])
    assert "usable answers" in shown.out


def test_an_experiment_runs_in_process():
    done = hostler("sim", "scorer", "run", "--tune", "0.01")
    assert done.code == 0, done.err
    assert done.lines[0] == "default, policy mlp, seed 42"


def test_the_command_tells_of_failures_and_bad_input(service):
    words = ("sim", "scorer", "run", "--tune", "0.01", "--endpoint")
    done = hostler(*words, service.endpoint + "s", "--on-failure", "fail")
    assert done.code == 3, "the exit code tells that a service never answered"
    assert "gave no usable answer" in done.err
    assert "status" in done.out
    assert "refused for it" in done.out
    assert hostler(*words, "here").code == 2
    assert hostler(*words, service.endpoint, "--fall-back", "fgd").code == 2
    assert hostler(*words, service.endpoint, "--model", __file__).code == 2
    assert hostler("sim", "scorer", "run", "--model", __file__).code == 2
