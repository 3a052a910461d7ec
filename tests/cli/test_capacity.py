"""``hostler capacity``: how many more fit, why no more, and how many hosts it would take."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import DEMO, DEMO_FILES, hostler, write

FLEET = """\
hosts:
- {name: a, capacity: {cpu: 4, memory: 8Gi}}
- {name: b, capacity: {cpu: 8, memory: 8Gi}}
- {name: c, capacity: {cpu: 8}, cordoned: true}
guests:
- {name: there, requests: {cpu: 1}, host: b}
- {name: pending, requests: {cpu: 2}}
"""


@pytest.fixture
def files(tmp_path):
    """Return the words that name a fleet, and a guest to count."""
    fleet = write(tmp_path / "fleet.yaml", FLEET)
    guest = write(tmp_path / "guest.yaml", "guests: [{name: small, requests: {cpu: 500m, memory: 1Gi}}]\n")
    return ["-f", str(fleet), "--guest", str(guest)]


def test_copies_are_counted_after_what_is_pending(files):
    result = hostler("capacity", *files)
    assert result.code == 0
    assert result.lines == [
        "16 more guests like small (cpu 500m, memory 1Gi) fit.",
        "Placed before them: 1 of 1 pending guest.",
        "The next one does not fit: 0 of 3 hosts: 1 cordoned, 1 insufficient cpu, 1 insufficient memory.",
    ]


def test_json_counts_per_host_and_says_why_the_next_does_not_fit(files):
    data = hostler("capacity", *files, "-o", "json").json
    assert data["fits"] == sum(data["per_host"].values())
    assert data["pending_placed"] == 1
    assert data["stopped_at_max"] is False
    assert data["next"]["host"] is None
    assert sum(reason["hosts"] for reason in data["next"]["reasons"]) == 3


def test_wide_shows_the_hosts(files):
    lines = hostler("capacity", *files, "-o", "wide").lines
    assert [line.split() for line in lines[-3:]] == [["HOST", "COPIES"], ["a", "8"], ["b", "8"]]


@pytest.mark.parametrize("most", [1, 3, 14])
def test_counting_stops_at_max(files, most):
    data = hostler("capacity", *files, "--max", str(most), "-o", "json").json
    assert (data["fits"], data["stopped_at_max"], data["next"]) == (most, True, None)
    assert hostler("capacity", *files, "--max", str(most)).lines[0].startswith("at least ")


def test_a_guest_that_does_not_fit_at_all_fits_zero_times():
    result = hostler("capacity", *DEMO_FILES, "--guest", DEMO / "warehouse.yaml")
    assert result.code == 0
    assert result.lines[0] == "0 more guests like warehouse (cpu 20, memory 96Gi) fit."


def test_many_copies_take_several_batches(tmp_path):
    fleet = write(tmp_path / "f.yaml", "hosts: [{name: h, count: 10, capacity: {cpu: 1000}}]\n")
    guest = write(tmp_path / "g.yaml", "guests: [{name: g, requests: {cpu: 500m}}]\n")
    data = hostler("capacity", "-f", fleet, "--guest", guest, "-o", "json").json
    assert data["fits"] == 20_000
    assert set(data["per_host"].values()) == {2_000}


def test_one_guest_of_several_is_chosen_by_name(tmp_path):
    guests = DEMO / "guests.yaml"
    ambiguous = hostler("capacity", *DEMO_FILES, "--guest", guests)
    assert ambiguous.code == 2
    assert "--guest-name" in ambiguous.hint
    chosen = hostler("capacity", *DEMO_FILES, "--guest", guests, "--guest-name", "web-0", "-o", "json")
    assert chosen.json["guest"] == "web-0"
    assert hostler("capacity", *DEMO_FILES, "--guest", guests, "--guest-name", "webb-0").hint == "did you mean 'web-0'?"


def test_equal_guests_need_no_name(tmp_path):
    guest = write(tmp_path / "g.yaml", "guests: [{name: g, count: 5, requests: {cpu: 1}}]\n")
    assert hostler("capacity", *DEMO_FILES, "--guest", guest).code == 0


def test_a_file_without_guests_is_refused(tmp_path):
    result = hostler("capacity", *DEMO_FILES, "--guest", DEMO / "fleet.yaml")
    assert result.code == 2
    assert "no guests" in result.error


class TestGuestThatRequestsNothing:
    """Only the hosts' limits of guests bound it, so nothing is counted: the answer is a sum, or there is none."""

    IDLE = "guests: [{name: idle}]\n"
    LIMITED = (
        "hosts:\n- {name: a, capacity: {guests: 3}}\n- {name: b, capacity: {guests: 10}, reserve: {guests: 4}}\n"
        "- {name: c, capacity: {guests: 5}, cordoned: true}\n"
        "guests: [{name: there, host: a}, {name: pending, requests: {guests: 2}, host_name: b}]\n"
    )
    ENORMOUS = "hosts: [{name: h, capacity: {guests: 4611686018427387904}}]\n"

    @pytest.fixture
    def ask(self, tmp_path):
        """Return a function that asks how many copies of a guest fit on a fleet."""

        def run(fleet: str, *words: str, guest: str = self.IDLE):
            files = write(tmp_path / "f.yaml", fleet), write(tmp_path / "g.yaml", guest)
            return hostler("capacity", "-f", files[0], "--guest", files[1], *words)

        return run

    def test_without_a_limit_of_guests_any_number_fits(self, ask):
        result = ask("hosts: [{name: a, capacity: {cpu: 1}}, {name: b, capacity: {guests: 3}}]\n")
        assert result.code == 0
        assert result.lines == [
            "unlimited: any number of guests like idle (no requests) fits.",
            "It requests nothing, so only hosts' limits of guests would bound it; 1 host that takes it has none.",
        ]

    def test_json_says_so_in_a_key_of_its_own(self, ask):
        data = ask("hosts: [{name: a}, {name: b, capacity: {guests: 3}}]\n", "-o", "json").json
        assert (data["unlimited"], data["fits"], data["stopped_at_max"], data["next"]) == (True, None, False, None)
        assert data["per_host"] == {"a": None, "b": 3}

    def test_wide_shows_the_hosts_without_a_limit_first(self, ask):
        lines = ask("hosts: [{name: a, capacity: {guests: 3}}, {name: b}]\n", "-o", "wide").lines
        assert [line.split() for line in lines[-2:]] == [["b", "unlimited"], ["a", "3"]]

    def test_limits_of_guests_are_summed_up(self, ask):
        result = ask(self.LIMITED)
        assert result.code == 0
        assert result.lines == [
            "6 more guests like idle (no requests) fit.",
            "It requests nothing, so only hosts' limits of guests count.",
            "Placed before them: 1 of 1 pending guest.",
            "The next one does not fit: 0 of 3 hosts: 2 too many guests, 1 cordoned.",
        ]

    @pytest.mark.parametrize("policy", ["spread", "pack", "round_robin", "random", "first_fit"])
    def test_the_sum_is_what_counting_would_find(self, ask, policy):
        summed = ask(self.LIMITED, "-o", "json", "--policy", policy).json
        # A plentiful amount is counted too, by placements.
        plenty = self.LIMITED.replace("capacity: {", "capacity: {air: 1000, ")
        guest = "guests: [{name: idle, requests: {air: 1}}]\n"
        counted = ask(plenty, "-o", "json", "--policy", policy, guest=guest).json
        for data in (summed, counted):
            data["next"] = {key: data["next"][key] for key in ("guest", "host", "reasons")}
        assert summed == counted

    def test_a_guest_may_count_for_several(self, ask):
        data = ask(self.LIMITED, "-o", "json", guest="guests: [{name: idle, requests: {guests: 2}}]\n").json
        assert (data["fits"], data["per_host"]) == (3, {"b": 2, "a": 1})

    def test_it_is_an_answer_at_once_however_high_the_limits_are(self, ask):
        data = ask(self.ENORMOUS, "-o", "json").json
        assert (data["fits"], data["stopped_at_max"]) == (2**62, False)

    def test_a_guest_that_no_host_takes_fits_zero_times(self, ask):
        result = ask("hosts: [{name: a, cordoned: true}, {name: b, capacity: {guests: 0}}]\n", "-o", "json")
        assert result.json["unlimited"] is False
        assert ask("hosts: [{name: a, cordoned: true}]\n").lines[0] == "0 more guests like idle (no requests) fit."

    def test_its_own_policy_decides_what_hosts_may_give(self, ask):
        fleet = "policies: [{name: careful, reserve: {guests: 2}}]\nhosts: [{name: a, capacity: {guests: 5}}]\n"
        guest = "guests: [{name: idle, policy: careful}]\n"
        assert ask(fleet, "-o", "json", guest=guest).json["fits"] == 3


class TestHostsLike:
    """How many hosts like one a set of guests needs."""

    def _hosts(self, tmp_path, body: str, *words: str) -> int:
        file = write(tmp_path / "f.yaml", body)
        hosts: int = hostler("capacity", "-f", file, "--hosts-like", "h", "-o", "json", *words).json["hosts"]
        return hosts

    def test_by_totals_when_they_divide(self, tmp_path):
        body = "hosts: [{name: h, capacity: {cpu: 4}}]\nguests: [{name: g, count: 100, requests: {cpu: 1}}]\n"
        assert self._hosts(tmp_path, body) == 25

    def test_more_than_by_totals_when_they_do_not(self, tmp_path):
        body = "hosts: [{name: h, capacity: {cpu: 5}}]\nguests: [{name: g, count: 100, requests: {cpu: 3}}]\n"
        assert self._hosts(tmp_path, body) == 100

    def test_devices_count(self, tmp_path):
        body = (
            "hosts: [{name: h, devices: [{kind: gpu, count: 4}]}]\n"
            "guests: [{name: g, count: 10, devices: [{kind: gpu, milli: 600}]}]\n"
        )
        assert self._hosts(tmp_path, body) == 3

    def test_the_limit_of_guests_counts(self, tmp_path):
        body = "hosts: [{name: h, capacity: {guests: 3}}]\nguests: [{name: g, count: 10}]\n"
        assert self._hosts(tmp_path, body) == 4

    def test_the_policy_counts(self, tmp_path):
        body = "hosts: [{name: h, capacity: {cpu: 10, memory: 10}}]\nguests:\n" + "".join(
            f"- {{name: g{i}, requests: {{cpu: {cpu}, memory: {10 - cpu}}}}}\n"
            for i, cpu in enumerate([2, 8, 3, 7, 5, 5])
        )
        assert 3 <= self._hosts(tmp_path, body, "--policy", "pack") <= 6

    def test_guests_that_run_already_and_a_cordon_do_not_count(self, tmp_path):
        body = (
            "hosts: [{name: h, cordoned: true, capacity: {guests: 1}}]\nguests: [{name: old, host: h}, {name: new}]\n"
        )
        assert self._hosts(tmp_path, body) == 1

    def test_without_pending_guests_no_host_is_needed(self, tmp_path):
        file = write(tmp_path / "f.yaml", "hosts: [{name: h}]\n")
        assert hostler("capacity", "-f", file, "--hosts-like", "h").lines == [
            "No guest is pending, so no host is needed."
        ]

    def test_guests_that_fit_no_such_host_are_named(self):
        result = hostler("capacity", *DEMO_FILES, "-f", DEMO / "warehouse.yaml", "--hosts-like", "north-0")
        assert result.code == 1
        assert result.lines == [
            "No number of hosts like north-0 is enough. Even an empty one does not hold:",
            "  train-0 and 1 more like it: no device gpu",
            "  notebook-0 and 2 more like it: no device gpu",
            "  infer-0 and 3 more like it: no device gpu",
            "  warehouse: insufficient cpu: 4 of 20 missing; insufficient memory: 32Gi of 96Gi missing",
        ]
        assert result.err.splitlines() == [
            "hint: choose a host with such a device, or leave these guests out",
            "hint: choose a larger host, or leave these guests out",
        ]

    def test_the_hint_is_about_the_reason_and_json_has_both(self, tmp_path):
        body = "hosts: [{name: h, taints: [{key: gpu}]}]\nguests: [{name: x}, {name: y, host_selector: {a: b}}]\n"
        file = write(tmp_path / "f.yaml", body)
        result = hostler("capacity", "-f", file, "--hosts-like", "h", "-o", "json")
        assert (result.code, result.json["hosts"]) == (1, None)
        assert result.json["misfits"][0] == {
            "guest": "x",
            "guests": 1,
            "reason": "untolerated taint gpu:NoSchedule",
            "hint": "add a toleration or choose another host",
        }
        assert len(result.json["misfits"]) == 2

    def test_an_unknown_host_suggests_the_nearest(self):
        result = hostler("capacity", *DEMO_FILES, "--hosts-like", "north0")
        assert result.code == 2
        assert result.hint == "did you mean 'north-0'?"

    def test_the_answer_is_a_sentence(self, tmp_path):
        file = write(
            tmp_path / "f.yaml", "hosts: [{name: h, capacity: {cpu: 1}}]\nguests: [{name: g, requests: {cpu: 1}}]\n"
        )
        assert hostler("capacity", "-f", file, "--hosts-like", "h").lines == ["1 pending guest needs 1 host like h."]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--guest", "x", "--hosts-like", "h"],
        ["--guest-name", "g", "--hosts-like", "h"],
        ["--guest", "x", "--max", "0"],
    ],
    ids=["neither", "both", "a name without a file", "a maximum of none"],
)
def test_words_that_make_no_sense_together_are_refused(words):
    result = hostler("capacity", *DEMO_FILES, *words)
    assert result.code == 2
    assert result.error
