"""The dashboard and the command line say the same fact in the same sentence."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from hostler.agent.messages import Trouble
from hostler.control.fleet.hosts.silence import mark_silent
from hostler.control.store import Connection
from hostler.control.store.rows.hosts import get as get_host
from hostler.model.explanation_texts import NO_CURE, TRIED_AGAIN
from tests.cli.cli_in_process import hostler
from tests.wait import GIVE_UP_S, wait_until
from tests.web.service_in_thread import WebService, run_service_in_thread

_NO_IMAGE = Trouble(kind="blocked", code="no_image", message="there is no image debian here", hint="put it there")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebService]:
    """A service with a VM in each of the states that need words."""
    with run_service_in_thread(tmp_path_factory.mktemp("sentences")) as found:
        yield found


def is_placed(service: WebService, identity: str) -> bool:
    return service.vm(identity).vm.home is not None


@pytest.fixture(scope="module")
def vms(service: WebService) -> dict[str, str]:
    service.add_hosts(3, cpu=8)
    made = {
        "blocked": service.create("blocked", cpu="1", host_name="host-01"),
        "cut-off": service.create("cut-off", cpu="1", host_name="host-00"),
        "small": service.create("small", cpu="2", host_name="host-02"),
    }
    for identity in made.values():  # the engine may try them before it knows all hosts
        wait_until(partial(is_placed, service, identity))
    made["huge"] = service.create("huge", cpu="64", memory="23Gi", priority=5)
    service.until_decided([made["huge"]])
    service.report(made["blocked"], "absent", _NO_IMAGE)
    for name in ("cut-off", "small"):
        service.report(made[name])

    def fall_silent(connection: Connection) -> None:
        row = msgspec.structs.replace(get_host(connection, "h0000"), agent="1")  # it has registered
        mark_silent(connection, row, state="silent", actor="tests", text="not heard", now_ns=time.time_ns())

    service.write(fall_silent)
    return made


@pytest.fixture
def client(service: WebService, vms: dict[str, str]) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=service.url, timeout=GIVE_UP_S, headers={"Authorization": f"Bearer {service.key}"}
    ) as found:
        answer = found.post("/login", data={"key": service.key}, headers={"Origin": service.url})
        assert answer.status_code == 303
        yield found


@pytest.fixture
def run(service: WebService, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that runs a command against the service."""
    key = tmp_path / "admin.key"
    key.touch(mode=0o600)
    key.write_text(service.key)
    return lambda *words: hostler(*words, "--server", service.url, "--key-file", str(key))


def page_text(client: httpx.Client, path: str) -> str:
    """Return what a person reads on a page, without its marks."""
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return one_line(html.unescape(re.sub(r"<[^>]*>", " ", answer.text)))


def one_line(text: str) -> str:
    return re.sub(r" (?=[.,;:)])", "", " ".join(text.split()))


@pytest.mark.parametrize("name", ["blocked", "cut-off"])
def test_status_of_vm_is_the_same_sentence(
    client: httpx.Client, run: Callable[..., Any], vms: dict[str, str], name: str
) -> None:
    said = run("vm", "explain", name, "-p", "default")
    sentence = said.out.partition(") ")[2].partition(". 1 of 3")[0].partition(". 0 of 3")[0]
    assert sentence.startswith(("is on host-00, which is silent", "has its place on host-01")), said.out
    page = page_text(client, f"/vms/{vms[name]}")
    assert f"It {sentence}" in page


@pytest.mark.parametrize("name", ["huge", "blocked", "cut-off"])
def test_why_of_vm_is_the_same_in_lists_and_details(
    client: httpx.Client, run: Callable[..., Any], vms: dict[str, str], name: str
) -> None:
    [line] = [line for line in run("vm", "get", name, "-p", "default").lines if line.startswith("Why")]
    why = line.removeprefix("Why").strip()
    assert why
    assert why in run("vm", "list", "-p", "default", "-o", "wide").out
    for path in ("/vms", "/"):
        assert why in page_text(client, path), path
    if name == "huge":
        assert why in run("vm", "queue", "-p", "default").out
        assert why in page_text(client, "/queue")
        assert f"It waits for a place: {why}" in page_text(client, f"/vms/{vms[name]}")


def test_what_hosts_lack_and_what_helps_are_the_same_sentences(
    client: httpx.Client, run: Callable[..., Any], vms: dict[str, str]
) -> None:
    told = run("vm", "explain", "huge", "-p", "default", "-o", "wide").out
    page = page_text(client, f"/vms/{vms['huge']}")
    lacks = [line.split("  ")[-1].strip() for line in told.splitlines() if line.startswith("host-0")]
    assert len(lacks) == 3
    assert any("insufficient cpu: 58 of 64 missing" in one for one in lacks), lacks
    for one in lacks:
        assert one in page
    [cure] = [line for line in told.splitlines() if line.startswith("It would fit on ")] or [NO_CURE]
    [eviction] = [line for line in told.splitlines() if "viction by priority" in line or "Room could be" in line]
    assert told.count(TRIED_AGAIN) == 1
    for sentence in (cure, eviction, TRIED_AGAIN):
        assert sentence in page


def test_takers_are_counted_in_the_same_words(
    client: httpx.Client, run: Callable[..., Any], vms: dict[str, str]
) -> None:
    told = run("vm", "explain", "small", "-p", "default").out
    found = re.search(r"\d of 3 hosts would take it", told)
    assert found is not None, told
    assert found[0] in page_text(client, f"/vms/{vms['small']}")


def test_conditions_of_vm_are_the_same(client: httpx.Client, run: Callable[..., Any], vms: dict[str, str]) -> None:
    for name in ("huge", "cut-off", "blocked"):
        told = run("vm", "get", name, "-p", "default").out.partition("Conditions")[2]
        page = page_text(client, f"/vms/{vms[name]}").lower()
        for line in told.splitlines():
            kind, _, text = line.strip().partition(": ")
            assert f"{kind} {text}".lower() in page, line


@pytest.mark.parametrize("action", ["", "cordon", "drain"])
def test_conditions_of_host_are_the_same(client: httpx.Client, run: Callable[..., Any], action: str) -> None:
    if action:
        assert client.post(f"/v1/hosts/host-02/{action}").is_success
    try:
        lines = {line.split()[0]: line for line in run("host", "list").lines[1:]}
        states = {"": "ready", "cordon": "ready, cordoned", "drain": "ready, draining"}
        for name, state in (("host-00", "silent"), ("host-02", states[action])):
            assert re.search(rf"\b{state}  ", lines[name]), lines[name]
            words = state.replace(",", "")
            assert f"{name} {words}" in page_text(client, f"/hosts/{name}")
        for heading in ("Watchdog", "Trouble"):
            found = re.search(rf"^{heading}  +(.*)$", run("host", "get", "host-00").out, re.MULTILINE)
            if found is not None:
                assert found[1] in page_text(client, "/hosts/host-00")
    finally:
        for undo in ("undrain", "uncordon"):
            client.post(f"/v1/hosts/host-02/{undo}")


def test_reserved_room_names_its_keeper_in_the_same_words(client: httpx.Client, run: Callable[..., Any]) -> None:
    at = {"kubernetes.io/hostname": "host-02"}
    asked = {"name": "night", "amounts": {"cpu": 3}, "host_selector": at}  # a VM of the project uses 2
    assert client.post("/v1/reservations", json=asked).is_success
    try:
        keeper = "kept by reservation default/night"
        wait_until(lambda: re.search(f"Reserved +cpu 1 {keeper}", run("host", "get", "host-02").out))
        assert f"Reserved cpu 1 {keeper}" in page_text(client, "/hosts/host-02")
    finally:
        client.delete("/v1/reservations/default/night")


def test_empty_fleet_and_queue_are_the_same_sentences(tmp_path: Path) -> None:
    with run_service_in_thread(tmp_path) as other, httpx.Client(base_url=other.url, timeout=GIVE_UP_S) as visitor:
        visitor.post("/login", data={"key": other.key}, headers={"Origin": other.url})
        key = tmp_path / "other.key"
        key.touch(mode=0o600)
        key.write_text(other.key)
        said = hostler("vm", "queue", "--server", other.url, "--key-file", str(key)).err.strip()
        for path in ("/queue", "/"):
            assert said in page_text(visitor, path).replace("No VM", "no VM")
        said = hostler("host", "list", "--server", other.url, "--key-file", str(key)).err.strip()
        assert said in page_text(visitor, "/").replace("There are", "there are")
