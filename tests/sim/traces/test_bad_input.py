"""Files of others that are damaged or cannot be: refused with file and line, whatever the format."""

from __future__ import annotations

import gzip
import shutil

import pytest

from hostler.errors import HostlerError, InputError, UnknownNameError
from hostler.sim.traces.formats import read_trace
from tests.sim.traces.samples import FOLDER
from tests.sim.traces.test_foreign_formats import EAST, NODES, PACKING, PODS, TOPOLOGY
from tests.sim.traces.workloads import read

POD = "1000,2048,1,500,,LS,Running"
ROWS = {
    "azure-packing": (PACKING, "1,7,42,7,0,1,2\n"),
    "huawei-east-1": (EAST, "0,4,16,0.0,194.0\n"),
    "huawei-topology": (TOPOLOGY, "1,2,1,,,\n"),
    "openb": (PODS, f"a,{POD},5,9,5\n"),
}


@pytest.mark.parametrize("name", ROWS)
class TestAnyCsv:
    def refused(self, tmp_path, name, content) -> str:
        path = tmp_path / "t.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(InputError) as found:
            read(path, name)
        assert str(found.value).startswith(str(path))
        return str(found.value).removeprefix(str(path))

    def test_a_truncated_row_is_refused(self, tmp_path, name):
        header, row = ROWS[name]
        assert self.refused(tmp_path, name, header + row + row[:3]).startswith(":3: the row has ")

    def test_a_truncated_packed_file_is_refused(self, tmp_path, name):
        header, row = ROWS[name]
        packed = gzip.compress((header + row * 100).encode())[:-30]
        assert self.refused(tmp_path, name, packed) == ": it ends in the middle: the file is truncated"

    def test_a_damaged_packed_file_is_refused(self, tmp_path, name):
        header, row = ROWS[name]
        packed = bytearray(gzip.compress((header + row * 100).encode()))
        packed[20] ^= 0xFF
        assert self.refused(tmp_path, name, bytes(packed))

    def test_a_missing_column_is_refused(self, tmp_path, name):
        header, row = ROWS[name]
        first = header.split(",")[0]
        assert self.refused(tmp_path, name, "x" + header + row) == f":1: there is no column {first}"

    def test_a_column_that_stands_twice_is_refused(self, tmp_path, name):
        header, row = ROWS[name]
        first = header.split(",")[0]
        text = f"{first},{header}1,{row}"
        assert self.refused(tmp_path, name, text) == f":1: there are two columns '{first}'"

    def test_an_empty_file_is_refused(self, tmp_path, name):
        assert self.refused(tmp_path, name, "") == ": the file is empty"
        assert self.refused(tmp_path, name, ROWS[name][0]) == ": there are no rows"

    def test_another_encoding_is_refused(self, tmp_path, name):
        header, row = ROWS[name]
        content = (header + row).encode() + "é\n".encode("latin-1")
        assert self.refused(tmp_path, name, content) == ":3: the file is not UTF-8 text"

    def test_an_open_quote_is_refused(self, tmp_path, name):
        header, row = ROWS[name]
        assert "this is not CSV" in self.refused(tmp_path, name, header + '"' + row)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("azure-packing", "1,7,-42,7,0,1,2\n", ":2: cores '-42' is negative"),
        ("azure-packing", "1,7,42,1e30,0,1,2\n", r":2: ram '1e30' is larger than 2\^62 units"),
        ("azure-packing", "1,7,nan,7,0,1,2\n", ":2: cores is 'nan', not a number"),
        ("azure-packing", "1,7,many,7,0,1,2\n", ":2: cores is 'many', not a number"),
        ("azure-packing", "1,7,42,7,2,1,2\n", ":2: vmTypeId is '2', not a whole number from 0 to 1"),
        ("azure-packing", "1,7,42,7,0,1,2\n2,7,42,7,0,2,1\n", ":3: the VM ends before it starts"),
        ("azure-packing", "1,7,42,7,0,1e9,2e9\n", r":2: starttime '1e9' is larger than 2\^62"),
        ("azure-packing", "1,7,42,7,0,inf,inf\n", ":2: a time is infinite"),
        ("azure-packing", "1,7,42,7,0,1,2\n1,7,42,7,0,1,2\n", ":3: vmId '1' appears twice, first in line 2"),
        ("huawei-east-1", "0,4,16,5.0,1.0\n1,4,16,4.0,1.0\n", ":3: at is earlier than in the row before"),
        ("huawei-east-1", "0,4,16,5.0,-1.0\n", ":2: lt '-1.0' is negative"),
        ("huawei-east-1", "0,4,16,5.0,inf\n", r":2: lt 'inf' is larger than 2\^62"),
        ("huawei-east-1", "0,4,16,5,1\n0,4,16,5,1\n", ":3: vmid '0' appears twice"),
        ("huawei-topology", "1,2,3,,,\n", ":2: numa is '3', not a whole number from 0 to 2"),
        ("huawei-topology", "1,2,1,near,0,\n", ":2: strategy is 'near'"),
        ("huawei-topology", "1,2,1,affinity,,\n", ":2: a guest with a strategy has no group"),
        ("openb", f"a,{POD},9,5,5\n", ":2: the pod is deleted before it is created"),
        ("openb", f"a,{POD},5,9,5\na,{POD},5,9,5\n", ":3: name 'a' appears twice"),
        ("openb", f"a,{POD},x,9,5\n", ":2: creation_time is 'x', not a number"),
        ("openb", "a,-1,2048,1,500,,LS,Running,5,9,5\n", ":2: cpu_milli of 'a' is '-1'"),
        ("openb", "a,1,2048,1,1500,,LS,Running,5,9,5\n", ":2: gpu_milli of 'a' is '1500'"),
    ],
)  # fmt: skip
def test_an_impossible_row_is_refused_with_its_line(tmp_path, name, rows, message):
    (tmp_path / "t.csv").write_text(ROWS[name][0] + rows)
    with pytest.raises(InputError, match=rf"t\.csv{message}"):
        read(tmp_path / "t.csv", name)


def test_nodes_beside_openb_that_cannot_be_are_refused(tmp_path):
    (tmp_path / "p.csv").write_text(PODS + f"a,{POD},5,9,5\n")
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES + "n,8000,16384,65,T4\n")
    with pytest.raises(InputError, match=r"openb_node_list_gpu_node\.csv:2: gpu of 'n' is '65'"):
        read(tmp_path / "p.csv")


@pytest.mark.parametrize(
    ("file", "before", "after", "message"),
    [
        ("v1.tiny.txt", "7200 ", "7300 ", "its batches differ from those of v1.tiny.txt"),
        ("v1.tiny.txt", "7500 ", "7100 ", "v1.tiny.txt:2: the time is not later than in the line before"),
        ("v1.tiny.txt", "a,|", "z,|", "there is no flavour 'z'"),
        ("v1.tiny.txt", ",|\n", "\n", "v1.tiny.txt:1: the last batch has no end"),
        ("v1.tiny.c14400.txt", "U1", "V1", "is not a lifetime"),
        ("v1.tiny.c14400.txt", "U1", "U99", "there is no bin 99 of lifetimes"),
        ("flav_map.txt", "1,0.75 a", "1,-2 a", "flav_map.txt:1: amount '-2Gi' is negative"),
        ("flav_map.txt", "1,0.75 a", "1,0.75", "flav_map.txt:1: the line has not two words"),
        ("v1.interval_map.txt", "300 1", "-300 1", "v1.interval_map.txt:2: the lifetime is '-300'"),
    ],
)  # fmt: skip
def test_the_four_files_of_azure_vm_must_agree(tmp_path, file, before, after, message):
    shutil.copytree(FOLDER / "azure-vm-like", tmp_path / "vm")
    text = (tmp_path / "vm" / file).read_text()
    assert before in text
    (tmp_path / "vm" / file).write_text(text.replace(before, after, 1))
    with pytest.raises(InputError) as found:
        read(tmp_path / "vm" / "v1.tiny.txt")
    assert message in str(found.value)


@pytest.mark.parametrize("file", ["v1.tiny.c14400.txt", "flav_map.txt", "v1.interval_map.txt"])
def test_a_missing_file_of_azure_vm_is_named(tmp_path, file):
    shutil.copytree(FOLDER / "azure-vm-like", tmp_path / "vm")
    (tmp_path / "vm" / file).unlink()
    with pytest.raises(InputError, match="there is no"):
        read(tmp_path / "vm" / "v1.tiny.txt")


def test_lifetimes_that_end_early_are_refused(tmp_path):
    shutil.copytree(FOLDER / "azure-vm-like", tmp_path / "vm")
    path = tmp_path / "vm" / "v1.tiny.c14400.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
    with pytest.raises(InputError, match=r"has 122 guests, .* has 1"):
        read(tmp_path / "vm" / "v1.tiny.txt")


def test_servers_of_azure_packing_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("".join(ROWS["azure-packing"]))
    for content in ("[", "[{}]", '[{"server_cores[1]": 5}]'):
        (tmp_path / "server_vm_cores_ram.json").write_text(content)
        with pytest.raises(InputError, match=r"server_vm_cores_ram\.json: "):
            read(tmp_path / "t.csv")


def test_a_file_that_is_no_trace_is_refused(tmp_path):
    (tmp_path / "t.txt").write_text("hello\n")
    with pytest.raises(InputError, match="no trace that is known by its looks"):
        read(tmp_path / "t.txt")
    with pytest.raises(InputError, match="there is no such file"):
        read(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="this is a folder"):
        read(tmp_path)
    with pytest.raises(UnknownNameError, match="there is no format 'opnb'"):
        read("openb", "opnb")


@pytest.mark.parametrize("options", [{"host_cpu": "0"}, {"host_cpu": "many"}, {"host_memory": "8Ei"}, {"hosts": 0}])
def test_hosts_that_cannot_be_are_refused(options):
    with pytest.raises(InputError):
        read(FOLDER / "huawei-east-1-like.csv", **options)


def test_random_bytes_are_never_more_than_an_input_error(tmp_path):
    for name in ("azure-packing", "azure-vm-v1", "huawei-east-1", "huawei-topology", "openb", "table"):
        for content in (b"\x00\xff" * 50, b"\x1f\x8b\x08", b",,,\n,,,\n", b"PAR1PAR1", b"{", b"---\n"):
            (tmp_path / "t.csv").write_bytes(content)
            with pytest.raises(HostlerError):
                read(tmp_path / "t.csv", name)
    for name in ("journal", "kubernetes", "fleet"):
        for content in (
            b"\x00\xff" * 50,
            b"\x1f\x8b\x08",
            b"{",
            b"[]",
            b"a: b\n",
            b'{"apiVersion": "v1", "kind": "Pod"}',
        ):
            (tmp_path / "t.csv").write_bytes(content)
            with pytest.raises(HostlerError):
                read(tmp_path / "t.csv", name)


def test_columns_of_other_formats_cannot_be_mapped():
    with pytest.raises(InputError, match="the columns of format huawei-east-1 cannot be mapped"):
        read(FOLDER / "huawei-east-1-like.csv", "huawei-east-1", columns={"cpu": "mem"})


@pytest.mark.parametrize(
    ("content", "problem"),
    [(gzip.compress(b"a,b\n1,2\n")[:-6] + b"\0" * 6, "cannot be unpacked"), (b"a,b\n1,2\n", "not packed by gzip")],
    ids=["a wrong check sum", "no gzip at all"],
)
def test_a_packed_file_that_is_damaged_says_so(tmp_path, content, problem):
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        read_trace(path)
