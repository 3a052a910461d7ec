"""Notes about input that is valid and yet hardly meant so, ties in words, and lines that are broken."""

from __future__ import annotations

import pytest

from hostler.cli.output.explanations import tie_text
from hostler.cli.output.terminal import say_parts
from hostler.model import HostVerdict, Score
from tests.cli.cli_in_process import DEMO_FILES, hostler, write

HOST = "hosts: [{name: a, capacity: {cpu: 4, memory: 8Gi}, devices: [{kind: gpu}]}]\n"


@pytest.fixture
def notes(tmp_path):
    """Return a function that places guests and returns the notes."""

    def run(guests: str, *words: str, hosts: str = HOST) -> list[str]:
        return hostler(
            "place", "-f", write(tmp_path / "f.yaml", f"{hosts}guests: [{guests}]\n"), *words
        ).err.splitlines()

    return run


def test_a_resource_that_no_host_has_is_noted_once(notes):
    found = notes("{name: x, count: 3, requests: {memroy: 1}}, {name: y, requests: {memroy: 2, licences: 1}}")
    assert found == ["note: no host has 'memroy' (did you mean 'memory'?)", "note: no host has 'licences'"]


def test_a_device_asked_for_as_a_resource_is_noted(notes):
    assert notes("{name: x, requests: {gpu: 1}}") == ["note: 'gpu' is a device here: write devices: [{kind: gpu}]"]


def test_what_hosts_have_and_a_fleet_without_hosts_are_not_noted(notes):
    assert notes("{name: x, requests: {cpu: 1, guests: 1}, devices: [{kind: gpu}]}") == []
    assert notes("{name: x, requests: {cpu: 1}}", hosts="") == []


@pytest.mark.parametrize("policy", ["fgd", "gpu_best_fit", "dot_product", "gpu_clustering", "gpu_packing"])
def test_a_policy_for_gpus_without_gpus_is_noted(notes, policy):
    expected = f"note: policy '{policy}' scores by gpus, and no host has a device of kind gpu"
    assert notes("{name: x}", "--policy", policy, hosts="hosts: [{name: a}]\n") == [expected]
    assert notes("{name: x}", "--policy", policy) == []


VERDICTS = [HostVerdict(host=name, total=468, scores=(Score("s", 468, 468),)) for name in "ABCDE"]


@pytest.mark.parametrize(
    ("ties", "count", "text"),
    [
        (("fewer_guests", "name"), 4, "ties with B, C, D at 468, decided by fewer guests, then name"),
        (("name",), 5, "ties with B, C, D and 1 more at 468, decided by name"),
        (("rank", "random"), 2, "ties with B at 468, decided by rank, then a random draw"),
        (("random", "name"), 3, "drawn at random from 3 hosts"),
        (("after_last",), 3, "the next by name after the last turn"),
        (("name",), 1, ""),
    ],
)
def test_a_tie_is_reported(ties, count, text):
    lower = HostVerdict(host="Z", total=3)
    assert tie_text(ties, [*VERDICTS[:count], lower], "A") == text


@pytest.mark.parametrize("policy", ["random", "round_robin", "spread", "least_loaded"])
def test_the_chosen_host_stands_first_and_the_tie_is_reported(policy):
    result = hostler("explain", *DEMO_FILES, "web-7", "--policy", policy)
    table = next(at for at, line in enumerate(result.lines) if line.startswith("HOST THAT FITS"))
    assert result.lines[table + 1].split()[1] == "*"
    words = {"random": "drawn at random from 9 hosts;", "round_robin": "the next by name after the last turn;"}
    assert words.get(policy, "") in result.out


@pytest.mark.parametrize("output", ["wide", "json"])
def test_zero_has_no_sign(output):
    words = hostler("explain", *DEMO_FILES, "web-3", "--policy", "least_loaded", "-o", output).out.split()
    assert not {"-0", "-0.0", "-0,", "-0.0,"} & set(words)


def test_without_a_cure_it_is_said(tmp_path):
    body = "hosts: [{name: a, capacity: {cpu: 4}}]\nguests: [{name: g, requests: {licences: 1}}]\n"
    file = write(tmp_path / "f.yaml", body)
    assert "No change of up to three parts would help." in hostler("explain", "-f", file, "g").lines
    nowhere = write(tmp_path / "n.yaml", "guests: [{name: g}]\n")
    assert "No change" not in hostler("explain", "-f", nowhere, "g").out


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a" * 50 + "; " + "b" * 48, 1),
        ("a" * 50 + "; " + "b" * 49, 2),
        ("; ".join(["c" * 30] * 4), 2),
        ("d" * 200, 1),
    ],
)
def test_long_lines_are_broken_at_semicolons(capsys, text, lines):
    say_parts(text)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == lines
    assert " ".join(line.strip() for line in printed) == text


def test_a_terminal_sets_the_width(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    say_parts("one two three; four; five")
    assert capsys.readouterr().out == "one two three; four;\n  five\n"


ZONES = "hosts: [{name: a, labels: {zone: x}}]\n"


@pytest.mark.parametrize("word", ["anti_affinity", "spread"])
def test_a_constraint_that_selects_nobody_is_noted(notes, word):
    found = notes(f"{{name: x, {word}: [{{topology: zone}}]}}", hosts=ZONES)
    assert found == [f"note: {word} by 'zone' has no selector, so it counts no guest: write selector: {{}} for all"]
    assert notes(f"{{name: x, {word}: [{{topology: zone, selector: {{}}}}]}}", hosts=ZONES) == []


@pytest.mark.parametrize("word", ["affinity", "anti_affinity", "spread"])
def test_a_topology_that_no_host_has_is_noted_with_the_nearest_label(notes, word):
    found = notes(f"{{name: x, {word}: [{{topology: zon, selector: {{}}}}]}}", hosts=ZONES)
    assert found == [f"note: no host has the label 'zon', by which {word} goes (did you mean 'zone'?)"]


def test_a_gangs_topology_that_no_host_has_is_noted(notes):
    hosts = ZONES + "gangs: [{name: g, topology: rack}]\n"
    assert notes("{name: x, gang: g}", hosts=hosts) == [
        "note: no host has the label 'rack', by which a gang's topology goes"
    ]


def test_the_label_of_the_hosts_own_name_is_always_there(notes):
    apart = "{name: x, anti_affinity: [{topology: kubernetes.io/hostname, selector: {}}]}"
    assert notes(apart, hosts=ZONES) == []
