"""Amounts, requests and reasons in words."""

from __future__ import annotations

import pytest

from hostler.cli.output.decision_texts import (
    amount_text,
    failure_text,
    number_text,
    plural,
    readable_amount,
    reason_line,
    request_text,
)
from hostler.model import Decision, DecisionNote, DeviceRequest, Failure, GuestSpec, Reason, ReasonCount, parse_amounts
from hostler.model.notes import FITS_WITHOUT_GANG, NO_EVICTION_HELPS
from hostler.model.vocabulary import with_notes


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 1, "1m"),
        ("cpu", 1500, "1500m"),
        ("cpu", 64_000, "64"),
        ("cpu", -2500, "-2500m"),
        ("memory", 512, "512"),
        ("memory", 2**30, "1Gi"),
        ("memory", 3 * 2**29, "1536Mi"),
        ("memory", 10**9, "1000000000"),
        ("memory", 2**62, "4Ei"),
        ("storage", 1025, "1025"),
        ("guests", 110, "110"),
        ("licences", 5000, "5000"),
    ],
)
def test_amounts_read_easily(resource, amount, text):
    assert amount_text(resource, amount) == text


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("memory", 0, "0"),
        ("memory", 16 * 2**30, "16Gi"),
        ("memory", 1536 * 2**20, "1536Mi"),
        ("memory", 24_684_100 * 2**10, "23.5Gi"),
        ("memory", 15_872 * 2**20, "15.5Gi"),
        ("memory", 700_000 * 2**10, "683.6Mi"),
        ("storage", 10**12, "931.3Gi"),
        ("storage", 2**40 + 2**20, "1024Gi"),
        ("storage", -24_684_100 * 2**10, "-23.5Gi"),
        ("cpu", 123_456, "123456m"),
        ("licences", 123_456, "123456"),
    ],
)
def test_an_amount_of_bytes_that_is_long_is_rounded_to_one_decimal(resource, amount, text):
    assert readable_amount(resource, amount) == text


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(0, "host", "0 hosts"), (1, "host", "1 host"), (1200, "host", "1,200 hosts"), (2, "entry", "2 entries")],
)
def test_counts_agree_with_their_nouns(count, noun, text):
    assert plural(count, noun) == text


def test_requests_name_devices_and_their_parts():
    spec = GuestSpec(
        requests=parse_amounts({"cpu": "250m", "memory": "2Gi"}),
        devices=(DeviceRequest("gpu", 2), DeviceRequest("gpu", 1, 500, ("A100", "L4")), DeviceRequest("fpga", 2, 250)),
    )
    assert request_text(spec) == "cpu 250m, memory 2Gi, 2 gpu, 0.5 gpu (A100 or L4), 2 x 0.25 fpga"
    assert request_text(GuestSpec()) == "no requests"


def test_a_failure_tells_what_is_missing():
    cpu = Failure(reason=Reason("resources", "insufficient", "cpu"), needed=4000, free=2500, missing=1500)
    gpu = Failure(reason=Reason("devices", "insufficient_devices", "gpu"), needed=2000, free=500, missing=1500)
    assert failure_text(cpu) == "insufficient cpu: 1500m of 4 missing"
    assert failure_text(gpu) == "insufficient gpu: 1.5 of 2 missing"
    assert failure_text(Failure(reason=Reason("cordon", "cordoned"))) == "cordoned"


def test_a_failure_about_an_odd_amount_can_be_read():
    lacking = Reason("resources", "insufficient", "memory")
    memory = Failure(reason=lacking, needed=2**36, free=2**36 - 24_684_100 * 2**10, missing=24_684_100 * 2**10)
    assert failure_text(memory) == "insufficient memory: 23.5Gi of 64Gi missing"


def test_a_failure_on_an_overfull_host_tells_how_much_is_booked_too_many():
    cpu = Failure(reason=Reason("resources", "insufficient", "cpu"), needed=1000, free=-5000, missing=6000)
    assert failure_text(cpu) == "insufficient cpu: asks 1, nothing free (5 too many booked)"


def test_a_device_that_is_not_there_at_all_has_no_amounts():
    gpu = Failure(reason=Reason("devices", "no_device", "gpu"), needed=1000, free=0, missing=1000)
    assert failure_text(gpu) == "no device gpu"


def _decision(*counts: tuple[str, int], **more) -> Decision:
    reasons = tuple(ReasonCount(Reason("p", code), hosts) for code, hosts in counts)
    hosts = sum(n for _, n in counts)
    return Decision(guest="g", uid="g", seq=1, at=0, policy="p", state="waiting", hosts=hosts, reasons=reasons, **more)


def test_a_refusal_counts_its_reasons():
    assert reason_line(_decision(("too_hot", 7), ("too_far", 1200))) == "0 of 1,207 hosts: 7 too hot, 1,200 too far"
    assert reason_line(_decision(("too_hot", 1))) == "0 of 1 host: 1 too hot"


def test_many_reasons_are_summed_up_and_still_add_up():
    line = reason_line(_decision(*((f"r{i}", 1) for i in range(10))))
    assert line == "0 of 10 hosts: 1 r0, 1 r1, 1 r2, 1 r3, 1 r4, 1 r5, 4 for other reasons"


def test_where_there_are_no_hosts_it_is_not_evictions_that_fail():
    assert reason_line(_decision()) == "there are no hosts"
    helpless = with_notes(_decision(), [DecisionNote(NO_EVICTION_HELPS)])
    assert reason_line(helpless) == "there are no hosts"


def test_what_happened_outside_is_reported():
    assert reason_line(_decision(note="nobody answered")) == "nobody answered"
    assert reason_line(_decision(("x", 1), note="a: no")) == "0 of 1 host: 1 x (a: no)"


def test_line_of_a_member_says_once_that_it_fits_alone():
    decision = _decision(("gang_incomplete", 2), ("x", 1))
    lacking = DecisionNote(FITS_WITHOUT_GANG, "default/crew", 3, place="rack=r1")
    line = "2 of 3 hosts fit, but gang default/crew needs 3 more of its members placed in rack=r1 (1 x)"
    assert reason_line(with_notes(decision, [lacking])) == line


@pytest.mark.parametrize(("value", "text"), [(None, "-"), (12, "12"), (0.25, "0.25"), (1 / 3, "0.333333"), (-0.0, "0")])
def test_scores_are_short(value, text):
    assert number_text(value) == text
