"""Kubernetes objects of every kind, in any file and order, beside fleets of our own."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler, write

NODES = """\
apiVersion: v1
kind: NodeList
items:
- metadata: {name: a, labels: {zone: x, kubernetes.io/hostname: a}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
- metadata: {name: b, labels: {zone: y, kubernetes.io/hostname: b}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      priorityClassName: high
      containers: [{name: c, image: nginx, resources: {requests: {cpu: 500m}}}]
"""
CLASS = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""
DAEMON = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: agent}]}
"""


@pytest.fixture
def files(tmp_path):
    """Return a function that writes texts to files and returns the words that name them."""

    def make(*texts: str) -> list[str]:
        words: list[str] = []
        for number, text in enumerate(texts):
            path = tmp_path / f"{number}.yaml"
            path.write_text(text)
            words += ["-f", str(path)]
        return words

    return make


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=["forwards", "backwards"])
def test_objects_of_several_files_are_read_together(files, order):
    texts = [NODES, DEPLOYMENT, CLASS]
    data = hostler("place", *files(*(texts[at] for at in order)), "--policy", "kubernetes", "-o", "json").json
    assert len(data["guests"]) == 4
    assert {guest["priority"] for guest in data["guests"]} == {1000}
    assert sorted(guest["host"] for guest in data["guests"]) == ["a", "a", "b", "b"]


def test_a_daemon_goes_to_hosts_of_our_own_format_too(files):
    fleet = "apiVersion: hostler/v1\nkind: Fleet\nhosts: [{name: own, capacity: {cpu: 1, memory: 1Gi}}]\n"
    data = hostler("place", *files(DAEMON, NODES, fleet), "-o", "json").json
    assert sorted(guest["host"] for guest in data["guests"]) == ["a", "b", "own"]


def test_what_was_expanded_can_be_fed_back(files, tmp_path):
    first = hostler("place", *files(NODES, DEPLOYMENT, CLASS, DAEMON), "-o", "yaml")
    (tmp_path / "out.yaml").write_text(first.out)
    second = hostler("place", "-f", tmp_path / "out.yaml", "-o", "json")
    assert second.code == 0
    assert second.json["decisions"] == []
    assert second.json["summary"]["already_placed"] == 6


def test_an_object_that_stands_in_two_files_is_refused_with_its_file(files, tmp_path):
    result = hostler("place", *files(NODES, CLASS, CLASS))
    assert result.code == 2
    assert result.error.startswith(f"{tmp_path / '2.yaml'}: ")
    assert "given twice" in result.error


def test_an_error_names_the_file_that_it_is_in(files, tmp_path):
    result = hostler("place", *files(NODES, DEPLOYMENT.replace("cpu: 500m", "cpu: lots")))
    assert result.code == 2
    assert result.error.startswith(f"{tmp_path / '1.yaml'}: ")


GROUP = """\
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: crew}
spec: {schedulingPolicy: {gang: {minCount: 3}}}
"""


def member(number: int) -> str:
    return f"""\
---
apiVersion: v1
kind: Pod
metadata: {{name: m{number}}}
spec:
  schedulingGroup: {{podGroupName: crew}}
  containers: [{{name: c, image: x, resources: {{requests: {{cpu: "3"}}}}}}]
"""


@pytest.mark.parametrize(("nodes", "code"), [(2, 1), (3, 0)])
def test_a_pod_group_is_placed_as_a_whole_or_not_at_all(files, nodes, code):
    third = NODES + "- {metadata: {name: c}, status: {allocatable: {cpu: '4', pods: '9'}}}\n"
    result = hostler("place", *files(third if nodes == 3 else NODES, GROUP + "".join(map(member, range(3)))))
    assert result.code == code
    assert f"{3 if code == 0 else 0} placed" in result.out


NAMESPACED = """\
apiVersion: v1
kind: Namespace
metadata: {name: data, labels: {team: blue}}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: data, labels: {app: db}}
spec: {nodeName: a, containers: [{name: c, image: x}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: c, image: x}]
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: zone
        labelSelector: {matchLabels: {app: db}}
        namespaceSelector: {matchLabels: {team: blue}}
"""


def test_labels_of_namespaces_count(files):
    assert hostler("place", *files(NODES, NAMESPACED)).row("web")[1] == "b"
    explained = hostler("explain", *files(NODES, NAMESPACED), "web", "-o", "wide").out
    assert "anti affinity app=db by zone (in the way: data/db)" in explained


# ------------------------------------------------------------------------------------------ the seed's annotations


def annotated(name: str, **annotations: str) -> str:
    given = ", ".join(f'{key.replace("_", "-")}: "{value}"' for key, value in annotations.items())
    return f"""\
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {{{given}}}}}
spec: {{containers: [{{name: c, image: x, resources: {{requests: {{cpu: "3"}}}}}}]}}
"""


def test_annotations_of_the_seed_count_only_with_the_flag(files):
    words = files(NODES, annotated("low") + annotated("high", priority="100") + annotated("mid", priority="50"))
    assert [hostler("place", *words).row(name)[1] for name in ("low", "high", "mid")] == ["a", "b", "-"]
    found = hostler("place", *words, "--seed-annotations")
    assert [found.row(name)[1] for name in ("low", "high", "mid")] == ["-", "a", "b"]


def test_groups_of_the_seed_are_gangs_of_all_their_members(files):
    words = files(NODES, "".join(annotated(f"m{number}", pod_group="crew") for number in range(3)))
    assert hostler("place", *words, "-o", "json").json["summary"]["placed"] == 2
    assert hostler("place", *words, "--seed-annotations", "-o", "json").json["summary"]["placed"] == 0
    explained = hostler("explain", *words, "m0", "--seed-annotations").out
    assert "Its gang default/crew: 0 placed, of at least 3; 2 would fit now." in explained


def test_capacity_takes_the_flag_too(files):
    words = files(NODES, annotated("low") + annotated("high", priority="100"))
    result = hostler("capacity", *words, "--hosts-like", "a", "--seed-annotations")
    assert (result.code, result.out) == (0, "2 pending guests need 2 hosts like a.\n")


def test_a_journal_has_no_annotations_left_to_read(tmp_path):
    result = hostler("explain", "--journal", tmp_path / "x", "g", "--seed-annotations")
    assert result.code == 2


# ------------------------------------------------------------------------------------------ between guests


def test_a_guest_waits_for_the_one_it_must_be_near_to(tmp_path):
    body = """\
hosts:
- {name: a, capacity: {cpu: 4}, labels: {zone: x}}
- {name: b, capacity: {cpu: 4}, labels: {zone: y}}
guests:
- {name: far, labels: {app: far}, affinity: [{topology: zone, selector: {app: near}}], requests: {cpu: 1}}
- {name: near, labels: {app: near}, affinity: [{topology: zone, selector: {app: db}}], requests: {cpu: 1}}
- {name: db, labels: {app: db}, host_selector: {zone: y}, requests: {cpu: 1}}
"""
    path = write(tmp_path / "f.yaml", body)
    result = hostler("place", "-f", path)
    assert result.code == 0
    assert [result.row(name)[1] for name in ("far", "near", "db")] == ["b", "b", "b"]
    data = hostler("explain", "-f", path, "far", "-o", "json").json
    assert data["feasible"] == ["b"]


def test_too_large_a_skew_and_ports_are_told_with_what_stands_in_the_way(tmp_path):
    body = """\
hosts:
- {name: a, capacity: {cpu: 4}, labels: {zone: x}}
- {name: b, capacity: {cpu: 1}, labels: {zone: y}}
- {name: c, capacity: {cpu: 4}}
guests:
- {name: web, labels: {app: web}, host: a, ports: [80]}
- name: more
  labels: {app: web}
  requests: {cpu: 2}
  ports: [80]
  spread: [{topology: zone, selector: {app: web}}]
"""
    out = hostler("explain", "-f", write(tmp_path / "f.yaml", body), "more").out
    assert "port taken *:80/TCP (in the way: web); skew too large app=web by zone, skew 1: it would be 2" in out
    assert "no topology label zone" in out


def test_sizing_knows_host_domains_and_mutual_affinity(tmp_path):
    body = """\
hosts: [{name: a, capacity: {cpu: 8}}]
gangs: [{name: crew, min_count: 2}]
guests:
- {name: x, count: 3, labels: {app: x}, anti_affinity: [{topology: kubernetes.io/hostname, selector: {app: x}}]}
- {name: y, affinity: [{topology: kubernetes.io/hostname, selector: {app: x}}]}
- {name: m, count: 2, gang: crew, requests: {cpu: 8}}
"""
    result = hostler("capacity", "-f", write(tmp_path / "f.yaml", body), "--hosts-like", "a")
    assert (result.code, result.out) == (0, "6 pending guests need 3 hosts like a.\n")


@pytest.mark.parametrize(
    ("labels", "placed"), [("{}", 3), ("{kubernetes.io/hostname: same}", 1)], ids=["by-name", "by-its-own-label"]
)
def test_hosts_of_a_fleet_are_told_apart_by_name_unless_they_say_otherwise(tmp_path, labels, placed):
    body = f"""\
hosts: [{{name: a, count: 3, labels: {labels}}}]
guests:
- name: x
  count: 4
  labels: {{app: x}}
  anti_affinity: [{{topology: kubernetes.io/hostname, selector: {{app: x}}}}]
"""
    data = hostler("place", "-f", write(tmp_path / "f.yaml", body), "-o", "json").json
    assert data["summary"]["placed"] == placed


def test_hosts_get_no_label_that_nobody_asks_for(tmp_path):
    path = write(tmp_path / "f.yaml", "hosts: [{name: a}]\nguests: [{name: x}]\n")
    assert hostler("place", "-f", path, "-o", "json").json["hosts"] == [{"name": "a"}]


def test_a_node_without_the_label_gets_none(files):
    pod = """\
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: x}]
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}
"""
    nodes = NODES.replace(", kubernetes.io/hostname: a", "").replace(", kubernetes.io/hostname: b", "")
    data = hostler("explain", *files(nodes, pod), "p", "-o", "json").json
    assert data["message"] == (
        "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints (missing required label)."
    )


def test_capacity_counts_copies_that_keep_apart(tmp_path):
    body = "hosts: [{name: a, count: 3, capacity: {cpu: 8}, labels: {zone: x}}]\n"
    apart = "guests: [{name: g, labels: {app: g}, anti_affinity: [{topology: zone, selector: {app: g}}]}]\n"
    fleet, guest = write(tmp_path / "f.yaml", body), write(tmp_path / "g.yaml", apart)
    data = hostler("capacity", "-f", fleet, "--guest", guest, "-o", "json").json
    assert data["fits"] == 1


def test_one_guest_per_host_counts_for_guests_that_request_nothing(tmp_path):
    body = "policies: [{name: one, one_guest_per_host: true}]\npolicy: one\nhosts: [{name: a, count: 3}]\n"
    fleet, guest = write(tmp_path / "f.yaml", body), write(tmp_path / "g.yaml", "guests: [{name: g}]\n")
    assert hostler("capacity", "-f", fleet, "--guest", guest, "-o", "json").json["fits"] == 3
