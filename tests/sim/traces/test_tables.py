"""Our own tables: units are explicit, other names can be mapped, and equal rows share one spec."""

from __future__ import annotations

import gzip

import polars as pl
import pytest

from hostler.errors import DuplicateNameError, InputError, QuantityError
from hostler.model import DeviceRequest, Gang
from hostler.sim.workload import FOREVER
from tests.sim.traces.samples import FOLDER
from tests.sim.traces.workloads import GIB, SECOND, gangs, read, sample, table


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0), ("90", 90 * SECOND), ("0.5", SECOND // 2), ("12537496.123456789", 12_537_496_123_456_789),
        ("5m", 300 * SECOND), ("1h30m", 5400 * SECOND), ("1e3", 1000 * SECOND), ("250ms", SECOND // 4),
        ("1970-01-02T00:00:00Z", 86_400 * SECOND),
    ],
)  # fmt: skip
def test_times_are_seconds_durations_or_dates(tmp_path, text, nanoseconds):
    assert table(tmp_path, f"arrival,cpu\n{text},1\n").arrives_ns.tolist() == [nanoseconds]


@pytest.mark.parametrize("text", ["", "inf", "forever"])
def test_a_guest_without_an_end_never_leaves(tmp_path, text):
    for column in ("duration", "end"):
        assert table(tmp_path, f"name,cpu,{column}\na,1,{text}\n").runs_ns.tolist() == [FOREVER]


def test_an_end_is_a_time_and_a_duration_is_not(tmp_path):
    assert table(tmp_path, "arrival,end,cpu\n60,90,1\n").runs_ns.tolist() == [30 * SECOND]
    assert table(tmp_path, "arrival,duration,cpu\n60,90,1\n").runs_ns.tolist() == [90 * SECOND]


@pytest.mark.parametrize(("cpu", "milli"), [("2", 2000), ("500m", 500), ("0.25", 250), ("", 0)])
def test_cpu_is_in_cores(tmp_path, cpu, milli):
    assert dict(table(tmp_path, f"name,cpu\na,{cpu}\n").spec(0).requests).get("cpu", 0) == milli


@pytest.mark.parametrize(("memory", "size"), [("2Gi", 2 * GIB), ("1G", 10**9), ("1024", 1024)])
def test_memory_has_a_suffix_or_is_in_bytes(tmp_path, memory, size):
    assert table(tmp_path, f"name,memory\na,{memory}\n").spec(0).requests == (("memory", size),)


@pytest.mark.parametrize(
    ("row", "devices"),
    [
        (",,", ()), ("0,,", ()), ("2,,", (DeviceRequest("gpu", 2),)), (",250,", (DeviceRequest("gpu", 1, 250),)),
        ("1,500,A10|T4", (DeviceRequest("gpu", 1, 500, ("A10", "T4")),)),
    ],
)  # fmt: skip
def test_gpus_are_whole_or_parts_of_one(tmp_path, row, devices):
    assert table(tmp_path, f"cpu,gpus,gpu_milli,gpu_models\n1,{row}\n").spec(0).devices == devices


def test_labels_are_json_or_pairs(tmp_path):
    text = 'cpu,labels\n1,"{""app"": ""web""}"\n1,app=web\n'
    workload = table(tmp_path, text)
    assert len(workload.specs) == 1
    assert workload.spec(0).labels == (("app", "web"),)


def test_more_holds_what_has_no_column(tmp_path):
    text = 'cpu,more\n1,"{""tolerations"": [{""key"": ""spot""}], ""requests"": [[""ports"", 3]]}"\n'
    spec = table(tmp_path, text).spec(0)
    assert spec.tolerations[0].key == "spot"
    assert spec.requests == (("cpu", 1000), ("ports", 3))


def test_count_repeats_a_row_as_in_a_fleet(tmp_path):
    workload = table(tmp_path, "name,cpu,count\nweb,1,3\nlone,2,1\nnone,2,0\n")
    assert workload.names == ["web-0", "web-1", "web-2", "lone"]
    assert len(workload.specs) == 2
    assert table(tmp_path, "cpu,count\n1,3\n").names == ["guest-0", "guest-1", "guest-2"]


def test_guests_are_sorted_by_arrival_and_keep_their_order_within_a_moment(tmp_path):
    assert table(tmp_path, "name,arrival,cpu\nc,9,1\na,5,1\nb,5,1\n").names == ["a", "b", "c"]


def test_a_gang_needs_all_its_members_unless_it_says_how_many(tmp_path):
    text = "name,cpu,namespace,gang,gang_min\na,1,,g,\nb,1,,g,\nc,1,x,g,1\nd,1,,,\n"
    assert gangs(table(tmp_path, text)) == [
        Gang(name="g", min_count=2), Gang(name="g", min_count=2), Gang(name="g", namespace="x"), None,
    ]  # fmt: skip


def test_equal_rows_share_one_spec():
    workload = sample("jobs.csv")
    assert len(workload) == 60
    assert len(workload.specs) < 60
    assert len(set(workload.specs)) == len(workload.specs)


def test_hosts_stand_in_the_table_beside_it():
    hosts = sample("jobs.csv").hosts
    assert [host.name for host in hosts] == ["big-0", "big-1", "small-0", "small-1", "small-2", "small-3"]
    assert [device.model for device in hosts[0].devices] == ["A10"] * 4
    assert hosts[0].labels == (("rack", "r1"),)
    assert hosts[2].labels == (("rack", "r2"),)


def test_hosts_may_come_from_another_table(tmp_path):
    (tmp_path / "h.csv").write_text("name,cpu,guests\nx,4,0\n")
    hosts = sample("jobs.csv", hosts_file=tmp_path / "h.csv").hosts
    assert [(host.name, host.capacity) for host in hosts] == [("x", (("cpu", 4000), ("guests", 0)))]


def test_columns_of_others_are_mapped():
    columns = {"name": "job", "arrival": "submit", "duration": "wall", "cpu": "cores", "memory": "ram"}
    workload = sample("foreign.csv", columns=columns)
    ours = sample("jobs.csv")
    assert workload.arrives_ns.tolist() == ours.arrives_ns.tolist()
    assert [workload.spec(guest).requests for guest in range(60)] == [ours.spec(guest).requests for guest in range(60)]


def test_parquet_may_have_numbers_durations_and_dates(tmp_path):
    seconds = pl.Series("arrival", [1.5, 2.0])
    frames = [
        pl.DataFrame({"arrival": seconds, "cpu": [1, 2], "gpus": [0, 1]}),
        pl.DataFrame({"arrival": (seconds * 1000).cast(pl.Int64).cast(pl.Duration("ms")), "cpu": [1.0, 2.0]}),
        pl.DataFrame({"arrival": (seconds * 1e6).cast(pl.Int64).cast(pl.Datetime("us")), "cpu": ["1", "2"]}),
    ]
    for frame in frames:
        frame.write_parquet(tmp_path / "t.parquet")
        workload = read(tmp_path / "t.parquet", hosts=1)
        assert workload.arrives_ns.tolist() == [1_500_000_000, 2_000_000_000]
        assert [dict(workload.spec(guest).requests)["cpu"] for guest in (0, 1)] == [1000, 2000]


def test_a_packed_table_is_read_as_any_other(tmp_path):
    (tmp_path / "jobs.csv.gz").write_bytes(gzip.compress((FOLDER / "jobs.csv").read_bytes()))
    assert len(read(tmp_path / "jobs.csv.gz")) == 60


def test_blank_lines_do_not_count_but_lines_are_counted(tmp_path):
    assert table(tmp_path, "name,cpu\r\na,1\r\n\r\nb,2\r\n\r\n").names == ["a", "b"]
    with pytest.raises(QuantityError, match=r"t\.csv:4: cpu: amount '-2' is negative"):
        table(tmp_path, "name,cpu\na,1\n\nb,-2\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,cpu\na,1\nb\n", r"t\.csv:3: the row has 1 fields, but there are 2 columns"),
        ("name,cpu\na,1\nb,1,2\n", r"t\.csv:3: the row has 3 fields"),
        ('name,cpu\na,"1\n', "a quoted field has no end"),
        ("name,cpus\na,1\n", r"t\.csv:1: column 'cpus' is not known"),
        ("name,cpu,cpu\na,1,1\n", r"t\.csv:1: there are two columns 'cpu'"),
        ("name\na\n", "there is no column of what guests ask for"),
        ("name,cpu\n", "there are no rows"),
        ("name,cpu\na,1\na,1\n", r"t\.csv:3: guest 'a' appears twice, first at .*t\.csv:2"),
        ("name,cpu\na,1\n,1\n", r"t\.csv:3: the guest has no name"),
        ("cpu\n-1\n", r"t\.csv:2: cpu: amount '-1' is negative"),
        ("memory\n8Ei\n", r"t\.csv:2: memory: amount '8Ei' is larger than 2\^62"),
        ("cpu\nmany\n", r"t\.csv:2: cpu: amount 'many' is not a quantity"),
        ("cpu,gpus\n1,65\n", r"t\.csv:2: gpus is '65', not a whole number from 0 to 64"),
        ("cpu,gpu_milli\n1,1001\n", r"gpu_milli is '1001'"),
        ("cpu,priority\n1,high\n", r"t\.csv:2: priority is 'high'"),
        ("cpu,arrival\n1,\n", r"t\.csv:2: arrival is empty"),
        ("cpu,arrival\n1,-5\n", r"t\.csv:2: arrival '-5' is negative"),
        ("cpu,arrival\n1,soon\n", r"t\.csv:2: arrival is 'soon', not a time"),
        ("cpu,arrival\n1,1e30\n", r"t\.csv:2: arrival '1e30' is no time of ours"),
        ("cpu,arrival\n1,inf\n", r"t\.csv:2: arrival 'inf' is no time of ours"),
        ("cpu,arrival,end\n1,5,6\n1,5,4\n", r"t\.csv:3: the guest ends before it arrives"),
        ("cpu,duration,end\n1,5,6\n", "there are both duration and end"),
        ("cpu,count\n1,-1\n", r"t\.csv:2: count is not a whole number"),
        ("cpu,count\n1,1.5\n", r"t\.csv:2: count is not a whole number"),
        ("cpu,count\n1,99999999999\n", "it has 99,999,999,999 guests"),
        ("cpu,labels\n1,web\n", r"t\.csv:2: labels: 'web' has a part without '='"),
        ('cpu,more\n1,"{""tolerated"": 1}"\n', r"t\.csv:2: more: there is no field 'tolerated'"),
        ("cpu,more\n1,{\n", r"t\.csv:2: more: "),
        ("cpu,gang,gang_min\n1,g,1\n1,g,2\n", r"t\.csv:3: gang 'g' differs"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        table(tmp_path, text)


def test_the_line_is_right_behind_quoted_line_breaks_and_counts(tmp_path):
    with pytest.raises(InputError, match=r"t\.csv:4: cpu"):
        table(tmp_path, 'labels,cpu,count\n"a=1,\nb=2",1,5\n,x,1\n')


def test_a_wrong_host_is_named_with_its_line(tmp_path):
    for text, message in [
        ("name,cpu\nx,1\nx,1\n", "h.csv:3: host 'x' appears twice, first at"),
        ("name,cpu\nx,1\n,1\n", "h.csv:3: the host has no name"),
        ("cpu\n1\n", "h.csv:1: there is no column name"),
        ("name,cpu\nx,-1\n", "h.csv:2: cpu: amount '-1' is negative"),
    ]:
        (tmp_path / "h.csv").write_text(text)
        with pytest.raises(InputError) as found:
            sample("jobs.csv", hosts_file=tmp_path / "h.csv")
        assert message in str(found.value)


def test_a_mapping_must_name_columns_that_exist():
    with pytest.raises(InputError, match="there is no column 'core'"):
        sample("foreign.csv", columns={"cpu": "core"})
    with pytest.raises(InputError, match="there is no column 'cpus' of ours"):
        sample("foreign.csv", columns={"cpus": "cores"})


def test_parquet_rows_are_named_by_number(tmp_path):
    pl.DataFrame({"name": ["a", "a"], "cpu": [1, 2]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DuplicateNameError, match=r"t\.parquet: row 2: guest 'a' appears twice"):
        read(tmp_path / "t.parquet")


def test_negative_and_absurd_numbers_in_parquet_are_refused(tmp_path):
    for column in (
        pl.Series("arrival", [-1.0]), pl.Series("arrival", [float("nan")]), pl.Series("arrival", [2**60]),
        pl.Series("arrival", [-1]).cast(pl.Duration("ns")), pl.Series("arrival", [2**62]).cast(pl.Duration("ms")),
    ):  # fmt: skip
        pl.DataFrame([column, pl.Series("cpu", [1])]).write_parquet(tmp_path / "t.parquet")
        with pytest.raises(InputError, match=r"t\.parquet: row 1: arrival"):
            read(tmp_path / "t.parquet")


def test_a_truncated_parquet_file_is_refused(tmp_path):
    pl.DataFrame({"cpu": list(range(1000))}).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-20])
    with pytest.raises(InputError, match="this is not a whole Parquet file"):
        read(tmp_path / "t.parquet")


def test_without_polars_the_extra_is_named(tmp_path, monkeypatch):
    import sys

    from hostler.errors import UnavailableError

    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UnavailableError) as found:
        table(tmp_path, "cpu\n1\n")
    assert found.value.hint == "pip install 'hostler[sim]'"
