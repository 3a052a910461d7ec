"""Journals, fleets and dumps of clusters as traces: who came when, and how long it stayed."""

from __future__ import annotations

import json

import pytest

from hostler.engine import Engine, find_policy
from hostler.engine.journals.journal import Recorder
from hostler.errors import InputError
from hostler.model import (
    Gang,
    GangChanged,
    Guest,
    GuestArrived,
    GuestLeft,
    GuestsArrived,
    GuestSpec,
    Host,
    HostsJoined,
    amounts,
)
from hostler.sim.workload import FOREVER
from tests.sim.traces.samples import FOLDER
from tests.sim.traces.workloads import SECOND, gangs, read, sample

SMALL, LARGE = (GuestSpec(requests=amounts({"cpu": cpu})) for cpu in (1000, 9000))
HOST = Host(name="h", uid="h", capacity=amounts({"cpu": 4000}))


class TestJournal:
    def recorded(self, tmp_path):
        """Record a run: one guest waits two seconds and runs for five, one never fits, one never leaves."""
        lines: list[bytes] = []
        run = Recorder(Engine([find_policy("first_fit")], 0, 1), lines.append)
        run.apply(GuestArrived(at=1 * SECOND, guest=Guest(name="waits", uid="u1", spec=SMALL)))
        run.step(1 * SECOND)
        run.apply_many(HostsJoined(at=3 * SECOND, hosts=(HOST,)))
        run.step(3 * SECOND)
        run.apply_many(GuestsArrived(at=4 * SECOND, specs=(SMALL, LARGE), spec_of=(0, 1), names=("stays", "large")))
        run.step(4 * SECOND)
        run.apply(GuestLeft(at=8 * SECOND, uid="u1"))
        run.apply(GuestLeft(at=9 * SECOND, uid="large"))
        return run, lines, tmp_path / "run.journal"

    def test_guests_arrive_run_and_leave_as_recorded(self, tmp_path):
        _, lines, path = self.recorded(tmp_path)
        path.write_bytes(b"".join(lines))
        workload = read(path)
        assert workload.names == ["waits", "stays", "large"]
        assert (workload.arrives_ns // SECOND).tolist() == [1, 4, 4]
        assert workload.runs_ns.tolist() == [5 * SECOND, FOREVER, 5 * SECOND]
        assert workload.hosts == (HOST,)

    def test_a_journal_that_begins_with_a_checkpoint_begins_with_its_guests(self, tmp_path):
        run, _, path = self.recorded(tmp_path)
        later: list[bytes] = []
        run.rotate(later.append)
        run.apply(GuestLeft(at=20 * SECOND, uid="stays"))
        path.write_bytes(b"".join(later))
        workload = read(path)
        assert workload.names == ["stays"]
        assert workload.hosts == (HOST,)
        assert workload.runs_ns[0] + workload.arrives_ns[0] == 20 * SECOND

    def test_gangs_are_kept_and_names_that_come_back_get_a_number(self, tmp_path):
        lines: list[bytes] = []
        run = Recorder(Engine([find_policy("first_fit")], 0, 1), lines.append)
        gang = Gang(name="g", min_count=2)
        run.apply(GangChanged(gang=gang))
        run.apply(GuestArrived(guest=Guest(name="a", uid="1", spec=SMALL, gang="default/g")))
        run.apply(GuestArrived(guest=Guest(name="a", uid="2", spec=SMALL)))
        (tmp_path / "run.journal").write_bytes(b"".join(lines))
        workload = read(tmp_path / "run.journal")
        assert workload.names == ["a", "a~2"]
        assert gangs(workload) == [gang, None]

    def test_a_torn_end_is_noted_and_other_damage_refused(self, tmp_path):
        _, lines, path = self.recorded(tmp_path)
        path.write_bytes(b"".join(lines)[:-5])
        notes: list[str] = []
        assert len(read(path, note=notes.append)) == 3
        assert "was lost" in notes[0]
        path.write_bytes(b"".join((lines[0], b"00000000 {}\n", *lines[2:])))
        with pytest.raises(InputError, match=r"run\.journal: journal entry 1 is damaged"):
            read(path)

    def test_a_journal_without_guests_is_refused(self, tmp_path):
        _, lines, path = self.recorded(tmp_path)
        path.write_bytes(lines[0])
        with pytest.raises(InputError, match="no guest arrived"):
            read(path)


class TestKubernetes:
    def changed(self, tmp_path, change):
        data = json.loads((FOLDER / "cluster.json").read_text())
        change({item["metadata"]["name"]: item for item in data["items"]}, data)
        (tmp_path / "c.json").write_text(json.dumps(data))
        return read(tmp_path / "c.json")

    def test_pods_arrive_when_created_and_run_for_their_recorded_time(self):
        workload = sample("cluster.json")
        assert workload.names == ["web", "report", "broken", "waits"]
        since = (workload.arrives_ns - workload.arrives_ns[0]) // (60 * SECOND)
        assert since.tolist() == [0, 10, 20, 30]
        assert workload.runs_ns.tolist() == [FOREVER, 900 * SECOND, 30 * SECOND, FOREVER]
        assert [host.name for host in workload.hosts] == ["node-a", "node-b"]

    def test_a_finished_pod_without_an_end_is_left_out_with_a_note(self, tmp_path):
        def change(items, data):
            del items["report"]["status"]["containerStatuses"]

        assert self.changed(tmp_path, change).names == ["web", "broken", "waits"]

    def test_a_pod_list_need_not_repeat_its_kind(self, tmp_path):
        def change(items, data):
            pods = [item for item in data["items"] if item["kind"] == "Pod"]
            for pod in pods:
                del pod["kind"], pod["apiVersion"]
            data.update(kind="PodList", items=pods)

        workload = self.changed(tmp_path, change)
        assert len(workload) == 4
        assert len(workload.hosts) == 1  # none in the dump: as many as the pods need

    def test_a_name_in_two_namespaces_gets_the_namespace(self, tmp_path):
        def change(items, data):
            items["waits"]["metadata"].update(name="web", namespace="other")

        assert self.changed(tmp_path, change).names == ["default.web", "report", "broken", "other.web"]

    def test_a_pod_that_is_there_twice_is_refused(self, tmp_path):
        def change(items, data):
            data["items"].append(items["web"])

        with pytest.raises(InputError, match="web"):
            self.changed(tmp_path, change)

    @pytest.mark.parametrize(
        ("times", "message"),
        [
            ({"startTime": "2026-01-05T09:00:00Z"}, "pod default/report: it ends before it starts"),
            ({"startTime": "yesterday"}, "pod default/report: 'yesterday' is not a time"),
        ],
    )
    def test_times_that_cannot_be_are_refused(self, tmp_path, times, message):
        with pytest.raises(InputError, match=message):
            self.changed(tmp_path, lambda items, data: items["report"]["status"].update(times))


class TestFleet:
    def test_guests_of_a_fleet_arrive_at_once(self, tmp_path):
        text = "apiVersion: hostler/v1\nkind: Fleet\nhosts: [{name: h, capacity: {cpu: 4}}]\n"
        (tmp_path / "f.yaml").write_text(text + "guests: [{name: g, count: 3, requests: {cpu: 1}}]\n")
        workload = read(tmp_path / "f.yaml")
        assert workload.names == ["g-0", "g-1", "g-2"]
        assert workload.arrives_ns.tolist() == [0, 0, 0]
        assert len(workload.hosts) == 1

    def test_a_wrong_entry_is_named_with_its_line(self, tmp_path):
        (tmp_path / "f.yaml").write_text("apiVersion: hostler/v1\nkind: Fleet\nguests: [{name: g, cpu: 3}]\n")
        with pytest.raises(InputError, match=r"f\.yaml:3"):
            read(tmp_path / "f.yaml")
