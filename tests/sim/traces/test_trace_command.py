"""``hostler sim trace``, as a user runs it, and every command of the guide to traces."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hostler.sim.traces.formats import FORMATS
from hostler.sim.traces.tables.input import GUEST_COLUMNS, HOST_COLUMNS
from tests.cli.cli_in_process import hostler
from tests.docs.page_output import Page
from tests.sim.traces.samples import FOLDER
from tests.sim.traces.workloads import read, same, sample

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "guides" / "traces.md").read_text()


def test_formats_are_listed():
    done = hostler("sim", "trace", "formats")
    assert done.code == 0
    assert [line.split()[0] for line in done.lines[1:]] == list(FORMATS)
    assert [one["name"] for one in hostler("sim", "trace", "formats", "-o", "json").json] == list(FORMATS)


def test_a_trace_is_described():
    done = hostler("sim", "trace", "describe", FOLDER / "jobs.csv")
    assert done.code == 0
    assert done.lines[0] == "jobs: 60 guests of 6 sizes, 5 tenants"
    assert "5 gangs with 20 guests" in done.lines
    assert done.row("gpus") == ["gpus", "8.0", "37.5", "468.8%"]


def test_a_description_can_be_read_by_programs():
    data = hostler("sim", "trace", "describe", "openb", "-o", "json").json
    assert (data["guests"], data["sizes"], data["hosts"]) == (8152, 151, 1213)
    assert data["kinds"] == {
        "one_gpu": 3911, "share": 3078, "cpu_only": 1088, "eight_gpu": 44, "two_gpu": 16, "four_gpu": 15,
    }  # fmt: skip
    assert data["gpu"]["capacity"] == 6_212_000
    assert data["duration_median_s"] == pytest.approx(540, abs=60)


def test_a_peak_counts_who_is_there_at_once(tmp_path):
    # Two guests of 10 s: the second comes when the first ends. A third is there all the time.
    (tmp_path / "t.csv").write_text("arrival,duration,cpu\n0,10,2\n0,,1\n10,10,2\n")
    data = hostler("sim", "trace", "describe", tmp_path / "t.csv", "--hosts", "1", "--host-cpu", "8", "-o", "json").json
    assert (data["peak_guests"], data["cpu"]) == (2, {"capacity": 8000, "peak": 3000.0})


def test_hosts_are_as_the_options_say():
    words = ("--hosts", "7", "--host-cpu", "20", "--host-memory", "64Gi")
    done = hostler("sim", "trace", "describe", FOLDER / "huawei-east-1-like.csv", *words)
    assert done.lines[1] == "7 hosts of 1 size"


def test_made_hosts_have_the_gpus_that_guests_ask_for(tmp_path):
    (tmp_path / "t.csv").write_text("cpu,gpus,count\n1,1,20\n")
    words = ("sim", "trace", "describe", tmp_path / "t.csv", "-o", "json")
    data = hostler(*words).json
    assert (data["hosts"], data["gpu"], data["fit_nowhere"]) == (3, {"capacity": 24_000, "peak": 20_000}, 0)
    assert hostler(*words, "--host-gpus", "4").json["hosts"] == 6
    assert hostler(*words, "--host-gpus", "0").json["fit_nowhere"] == 20


def test_made_hosts_share_out_the_models_that_guests_ask_for(tmp_path):
    (tmp_path / "t.csv").write_text("cpu,gpus,gpu_models,count\n1,8,A10,6\n1,8,T4|A10,3\n1,8,,1\n")
    hosts = read(tmp_path / "t.csv", hosts=3).hosts
    assert [{device.model for device in host.devices} for host in hosts] == [{"A10"}, {"T4"}, {"A10"}]
    assert {len(host.devices) for host in hosts} == {8}


@pytest.mark.parametrize(("kind", "out"), [("table", "t.csv"), ("parquet", "t.parquet")])
def test_a_table_is_two_files_and_reads_again_as_the_same(tmp_path, kind, out):
    done = hostler("sim", "trace", "convert", FOLDER / "azure-packing-like.csv", "--to", kind, "-O", tmp_path / out)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert sorted(path.suffixes for path in tmp_path.glob("t.*")) == sorted(
        [[f".{out[2:]}"], [".hosts", f".{out[2:]}"]]
    )
    same(read(tmp_path / out), sample("azure-packing-like.csv"))


def test_a_table_whose_name_says_so_is_packed(tmp_path):
    hostler("sim", "trace", "convert", FOLDER / "jobs.csv", "--to", "table", "-O", tmp_path / "t.csv.gz")
    assert (tmp_path / "t.csv.gz").read_bytes()[:2] == b"\x1f\x8b"
    same(read(tmp_path / "t.csv.gz"), sample("jobs.csv"))


def test_hostler_place_reads_converted_pods_and_fleets(tmp_path):
    for kind in ("kubernetes", "fleet"):
        for suffix in ("yaml", "json"):
            path = tmp_path / f"{kind}.{suffix}"
            assert hostler("sim", "trace", "convert", FOLDER / "cluster.json", "--to", kind, "-O", path).code == 0
            placed = hostler("place", "-f", path, "-o", "json")
            assert placed.code == 0, placed.err


def test_openb_becomes_nodes_and_pods_with_annotations(tmp_path):
    path = tmp_path / "openb.yaml"
    assert hostler("sim", "trace", "convert", "openb", "--to", "kubernetes", "-O", path).code == 0
    text = path.read_text()
    assert text.count("kind: Node\n") == 1213
    assert text.count("kind: Pod\n") == 8152
    node = next(part for part in text.split("---\n") if "name: openb-node-0000\n" in part)
    for words in (
        "alibabacloud.com/gpu-card-model: P100",
        "alibabacloud.com/gpu-count: '2'",
        "gpu-milli: '2000'",
        "pods: '1001'",
    ):
        assert words in node
    pod = next(part for part in text.split("---\n") if "name: openb-pod-0001\n" in part)
    for words in (
        "alibabacloud.com/gpu-milli: '460'",
        "gpu-count: '1'",
        "creation-time:",
        "deletion-time:",
        "memory: 12Gi",
    ):
        assert words in pod


def test_what_a_format_cannot_say_is_reported(tmp_path):
    fleet = hostler("sim", "trace", "convert", FOLDER / "jobs.csv", "--to", "fleet", "-O", tmp_path / "f.yaml")
    assert "a fleet has no times" in fleet.err
    pods = hostler("sim", "trace", "convert", FOLDER / "jobs.csv", "--to", "kubernetes", "-O", tmp_path / "k.yaml")
    assert "tenants are left out" in pods.err


def test_bad_input_writes_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("name,cpu\na,1\nb\n")
    done = hostler("sim", "trace", "convert", tmp_path / "t.csv", "--to", "parquet", "-O", tmp_path / "out.parquet")
    assert done.code == 2
    assert done.error == f"{tmp_path}/t.csv:3: the row has 1 fields, but there are 2 columns"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["t.csv"]


def test_what_a_pod_cannot_say_leaves_no_file(tmp_path):
    (tmp_path / "t.csv").write_text('cpu,more\n1,"{""devices"": [{""kind"": ""nic""}]}"\n')
    words = ("--format", "table", "--to", "kubernetes", "-O", tmp_path / "k.yaml")
    done = hostler("sim", "trace", "convert", tmp_path / "t.csv", *words)
    assert done.code == 2
    assert not (tmp_path / "k.yaml").exists()


@pytest.mark.parametrize("text", ["cpu", "=cores", "cpu="])
def test_a_mapping_has_two_sides(text):
    done = hostler("sim", "trace", "describe", FOLDER / "foreign.csv", "--map", text)
    assert done.code == 2
    assert done.hint == "such as --map cpu=cores"


def test_help_has_examples():
    for words in ((), ("describe",), ("convert",), ("formats",)):
        assert "Example" in hostler("sim", "trace", *words, "--help").out


@pytest.mark.shown_output
def test_every_command_prints_what_the_guide_shows(monkeypatch, tmp_path):
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    hostler("sim", "trace", "convert", "data/samples/jobs.csv", "--to", "parquet", "-O", "jobs.parquet")
    page = Page("docs/guides/traces.md")
    for step in page.steps:
        words = shlex.split(step.command)
        assert words[0] == "hostler"
        done = hostler(*words[1:])
        page.compare(step, done.code, done.out + done.err)
    page.finish()


def test_the_guide_names_every_format_and_column():
    named = set(re.findall(r"`([a-z0-9_-]+)`", GUIDE))
    assert {*FORMATS, *GUEST_COLUMNS, *HOST_COLUMNS} <= named
