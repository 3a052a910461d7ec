"""Traces of others: every format is recognised, and its numbers mean what its authors say."""

from __future__ import annotations

import numpy as np
import pytest

from hostler.engine import Engine, find_policy
from hostler.model import Bind, GuestsArrived, HostsJoined, amount_of
from hostler.sim.traces.demand import peak_of
from hostler.sim.traces.formats import FORMATS, format_of
from hostler.sim.workload import FOREVER
from tests.sim.traces.samples import FOLDER, samples
from tests.sim.traces.workloads import GIB, SECOND, read, sample

DAY = 86_400 * SECOND
PACKING = "vmId,tenantId,cores,ram,vmTypeId,starttime,endtime\n"
EAST = "vmid,cpu,mem,at,lt\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
TOPOLOGY = "flavor_vcpus,flavor_ram,numa,strategy,group,domain\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("huawei-east-1-like.csv", "huawei-east-1"),
        ("azure-packing-like.csv", "azure-packing"),
        ("azure-vm-like/v1.tiny.txt", "azure-vm-v1"),
        ("azure-vm-like/v1.tiny.c14400.txt", "azure-vm-v1"),
        ("huawei-topology/VM_data_C1.csv", "huawei-topology"),
        ("jobs.csv", "table"),
        ("cluster.json", "kubernetes"),
    ],
)
def test_a_file_is_known_by_its_looks(path, name):
    assert format_of(FOLDER / path) == name
    assert len(read(FOLDER / path)) == len(read(FOLDER / path, name))


@pytest.mark.parametrize(("path", "text"), samples().items())
def test_a_sample_is_what_its_script_makes(path, text):
    assert (FOLDER / path).read_text() == text


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("journal", "fleet", "openb")])
def test_every_reader_gives_guests_in_order_of_arrival(name):
    path = next(FOLDER / path for path in [*samples(), "huawei-topology/VM_data_C1.csv"] if _is(FOLDER / path, name))
    workload = read(path, name)
    assert (np.diff(workload.arrives_ns) >= 0).all()
    assert workload.arrives_ns.dtype == workload.runs_ns.dtype == workload.spec_of.dtype == np.int64
    assert len(set(workload.names)) == len(workload)
    assert len(set(workload.specs)) == len(workload.specs)
    assert workload.hosts


def _is(path, name) -> bool:
    return path.suffix != ".md" and path.name != "jobs.hosts.csv" and FORMATS[name].recognises(path)


class TestAzurePacking:
    def read(self, tmp_path, rows, **options):
        (tmp_path / "p.csv").write_text(PACKING + rows)
        return read(tmp_path / "p.csv", **options)

    def test_times_are_days(self, tmp_path):
        workload = self.read(tmp_path, "1,7,42.0,7.5,0,0.5,1.75\n")
        assert (workload.arrives_ns[0], workload.runs_ns[0]) == (DAY // 2, DAY * 5 // 4)
        assert workload.spec(0).requests == (("cpu", 42_000), ("memory", int(7.5 * GIB)))

    def test_who_ran_before_the_trace_arrives_at_its_beginning_for_the_rest(self, tmp_path):
        workload = self.read(tmp_path, "1,7,42,7,0,-100,2\n")
        assert (workload.arrives_ns[0], workload.runs_ns[0]) == (0, 2 * DAY)

    def test_who_ended_before_the_trace_is_left_out(self, tmp_path):
        notes: list[str] = []
        workload = self.read(tmp_path, "1,7,42,7,0,-100,-2\n2,7,42,7,0,1,2\n", note=notes.append)
        assert workload.names == ["vm-2"]
        assert notes == ["left out: 1 VM that ended before the trace begins"]

    def test_inf_never_ends(self, tmp_path):
        assert self.read(tmp_path, "1,7,42,7,0,1,inf\n").runs_ns.tolist() == [FOREVER]

    def test_type_one_has_the_lower_priority(self, tmp_path):
        workload = self.read(tmp_path, "1,7,42,7,0,1,2\n2,7,42,7,1,1,2\n")
        assert [workload.spec(guest).priority for guest in (0, 1)] == [1, 0]

    def test_tenants_are_kept_unless_left_out(self, tmp_path):
        rows = "1,7,42,7,0,1,2\n2,8,42,7,0,1,2\n"
        assert {spec.tenant for spec in self.read(tmp_path, rows).specs} == {"tenant-7", "tenant-8"}
        assert len(self.read(tmp_path, rows, tenants=False).specs) == 1

    def test_hosts_are_the_smallest_server_that_holds_every_vm(self, tmp_path):
        servers = '[{"server_cores[1]": 50, "server_cores[2]": 100, "server_cores[3]": 900}, '
        servers += '{"server_ram[1]": 50, "server_ram[2]": 10, "server_ram[3]": 20}]'
        (tmp_path / "server_vm_cores_ram.json").write_text(servers)
        workload = self.read(tmp_path, "1,7,80,7,0,1,2\n2,7,40,16,0,1,2\n")
        assert workload.hosts[0].capacity == (("cpu", 900_000), ("memory", 20 * GIB))

    def test_a_vm_that_no_server_holds_is_reported(self, tmp_path):
        notes: list[str] = []
        self.read(tmp_path, "1,7,80,7,0,1,2\n", host_cpu="50", note=notes.append)
        assert notes == ["1 of 1 guest is larger than every host"]


class TestAzureVm:
    def test_batches_are_tenants_and_flavours_have_sizes(self):
        workload = sample("azure-vm-like/v1.tiny.txt")
        assert workload.arrives_ns[0] == 7200 * SECOND
        assert workload.spec(0).tenant == "batch-0"
        assert {amount_of(spec.requests, "memory") / GIB for spec in workload.specs} == {0.75, 1.75, 3.5}

    def test_either_file_will_do(self):
        one, other = (sample(f"azure-vm-like/v1.tiny{part}.txt") for part in ("", ".c14400"))
        assert one.runs_ns.tolist() == other.runs_ns.tolist()

    def test_a_lifetime_is_the_mean_of_its_bin(self):
        # The last bin of the sample is 2,400 to 3,600 s, the first one less than 300 s.
        lasts = set((sample("azure-vm-like/v1.tiny.txt", censored="forever").runs_ns // SECOND).tolist())
        assert {150, 300, 3000} <= lasts <= {-1, 150, 3000, *range(300, 2400, 300)}

    def test_who_is_still_there_runs_to_the_end_of_the_trace_or_for_good(self):
        endless = sample("azure-vm-like/v1.tiny.txt", censored="forever")
        ended = sample("azure-vm-like/v1.tiny.txt")
        is_censored = endless.runs_ns == FOREVER
        assert 0 < is_censored.sum() < len(endless)
        ends = ended.arrives_ns[is_censored] + ended.runs_ns[is_censored]
        assert set(ends.tolist()) == {14_400 * SECOND}


class TestHuaweiEast:
    def test_sizes_and_times(self, tmp_path):
        (tmp_path / "h.csv").write_text(EAST + "0,4,16,0.0,194.0\n1,1,2,2.5,498.0\n")
        workload = read(tmp_path / "h.csv")
        assert workload.arrives_ns.tolist() == [0, 2_500_000_000]
        assert workload.runs_ns.tolist() == [194 * SECOND, 498 * SECOND]
        assert workload.spec(0).requests == (("cpu", 4000), ("memory", 16 * GIB))
        assert workload.hosts[0].capacity == (("cpu", 40_000), ("memory", 90 * GIB))

    def test_hosts_are_as_many_as_the_peak_needs_unless_said_otherwise(self):
        workload = sample("huawei-east-1-like.csv")
        peak = peak_of(workload)
        assert 0.5 < peak.memory_bytes / (90 * GIB * len(workload.hosts)) <= 0.9
        told = sample("huawei-east-1-like.csv", hosts=50, host_cpu="80", host_memory="128Gi")
        assert len(told.hosts) == 50
        assert told.hosts[0].capacity == (("cpu", 80_000), ("memory", 128 * GIB))


class TestHuaweiTopology:
    def test_groups_become_constraints(self, tmp_path):
        rows = "1,2,1,,,\n1,2,2,affinity,0,\n1,2,1,anti-affinity,0,\n1,2,1,fault_domain,0,1\n"
        (tmp_path / "t.csv").write_text(TOPOLOGY + rows)
        notes: list[str] = []
        plain, near, apart, fault = (read(tmp_path / "t.csv", note=notes.append).spec(guest) for guest in range(4))
        assert (plain.affinity, plain.anti_affinity, plain.spread) == ((), (), ())
        assert [term.text() for term in near.affinity] == ["group=affinity-0 by rack"]
        assert [term.text() for term in apart.anti_affinity] == ["group=anti-affinity-0 by kubernetes.io/hostname"]
        assert [term.text() for term in fault.anti_affinity] == ["group=fault_domain-0, domain NotIn (1) by rack"]
        assert not fault.spread[0].is_hard
        assert any("NUMA is not modelled: 1 guest " in line for line in notes)

    def test_servers_and_racks_stand_beside_the_requests(self):
        workload = sample("huawei-topology/VM_data_C1.csv")
        assert len(workload.hosts) == 40
        assert workload.hosts[0].capacity == (("cpu", 48_000), ("memory", 96 * GIB))
        assert dict(workload.hosts[0].labels) == {"kubernetes.io/hostname": "host-0", "rack": "0"}

    def test_the_engine_keeps_to_the_constraints(self):
        workload = sample("huawei-topology/VM_data_C1.csv")
        engine = Engine([find_policy("first_fit")], 0, 1)
        engine.apply_many(HostsJoined(hosts=workload.hosts))
        numbers = tuple(workload.spec_of.tolist())
        engine.apply_many(GuestsArrived(specs=workload.specs, spec_of=numbers, names=tuple(workload.names)))
        host_of = {action.uid: action.host for action in engine.step(1) if isinstance(action, Bind)}
        assert len(host_of) > 60
        apart: dict[str, list[str]] = {}
        for guest, name in enumerate(workload.names):
            group = dict(workload.spec(guest).labels).get("group", "")
            if group.startswith("anti-") and name in host_of:
                apart.setdefault(group, []).append(host_of[name])
        assert apart
        assert all(len(set(hosts)) == len(hosts) for hosts in apart.values())


class TestOpenb:
    def test_by_name_it_has_its_own_times(self):
        workload = read("openb")
        assert (len(workload), len(workload.hosts)) == (8152, 1213)
        assert (workload.names[0], workload.runs_ns[0] // SECOND) == ("openb-pod-0000", 12_537_496)

    def test_a_workload_is_named_behind_a_slash(self):
        assert read("openb/gpuspec33").name == "openb/gpuspec33"

    def test_a_file_of_the_source_is_read_with_the_nodes_beside_it(self, tmp_path):
        rows = "b,1000,2048,1,500,A10|T4,LS,Running,5,9,5\na,2000,1024,0,0,,LS,Running,7,7,7\n"
        (tmp_path / "openb_pod_list_x.csv").write_text(PODS + rows)
        (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES + "n,8000,16384,2,T4\n")
        workload = read(tmp_path / "openb_pod_list_x.csv")
        assert list(workload.names) == ["b", "a"]
        assert workload.spec(0).devices[0].models == ("A10", "T4")
        assert workload.runs_ns.tolist() == [4 * SECOND, SECOND]  # a pod that ends at once runs for a second
        assert [host.name for host in workload.hosts] == ["n"]

    def test_without_nodes_beside_it_the_published_ones_are_the_hosts(self, tmp_path):
        (tmp_path / "p.csv").write_text(PODS + "b,1000,2048,1,500,,LS,Running,5,9,5\n")
        assert len(read(tmp_path / "p.csv").hosts) == 1213


@pytest.mark.parametrize("source", ["openb", *(FOLDER / name for name in ("cluster.json", "jobs.csv"))])
def test_hosts_of_the_options_beat_those_of_the_trace(source):
    assert [len(read(source, hosts=3).hosts), len(read(source).hosts) > 0] == [3, True]
    assert {dict(host.capacity)["cpu"] for host in read(source, host_cpu="24").hosts} == {24_000}
    assert len(read(source, hosts_file=FOLDER / "jobs.hosts.csv").hosts) == 6
