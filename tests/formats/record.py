"""Records what this version writes: journals, databases and their contents, for ``test_recorded_formats``.

    python -m tests.formats.record tests/formats/data/VERSION

Run it before a change of formats, and keep what older versions wrote: later versions must read all of it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.control.postgres import PostgresServer
from tests.control.storms.service import CALM, ServiceProcess
from tests.wait import GIVE_UP_S, until

ROOT = Path(__file__).resolve().parents[2]
HOSTLER = (sys.executable, "-m", "hostler")
FLEET = ("demo/fleet.yaml", "demo/guests.yaml")
CONFIGURATIONS = (*FLEET, "examples/gpu-sharing/scheduler.yaml", "examples/one-pod-per-node/scheduler.yaml")
PAGES = ("projects", "hosts", "vms", "gangs", "quotas", "reservations", "keys", "operations")
SEEDS = (16, 17, 18)  # of random runs: between them all kinds of facts and actions
TURNS = 40

Json = dict[str, Any]


# -- journals ---------------------------------------------------------------------------------------------------------


def record_journals(folder: Path) -> None:
    """Write a journal of a command, the same one redacted, and random runs with checkpoints in between."""
    place = folder / "place.journal"
    files = [word for name in FLEET for word in ("-f", name)]
    run("place", *files, "--policy", "spread", "--preempt", "--journal", str(place), codes=(0, 1))
    run("journal", "redact", str(place), "-o", str(folder / "redacted.journal"))
    for seed in SEEDS:
        record_random_run(folder, seed)
    for path in (*folder.glob("*.journal"),):
        pack(path)


def record_random_run(folder: Path, seed: int) -> None:
    """Write one run as two files: the second one begins with a checkpoint, and has another one inside."""
    from hostler.engine import Engine
    from hostler.engine.journals.journal import Recorder
    from tests.engine.engine_twins import apply_all
    from tests.engine.random_runs import RandomRun

    run_ = RandomRun(seed)
    with (
        (folder / f"run-{seed}.journal").open("wb") as first,
        (folder / f"run-{seed}-rotated.journal").open("wb") as second,
    ):
        recorder = Recorder(Engine(run_.policies, seed=seed, rules=run_.rules), first.write)
        for number in range(TURNS):
            if number == TURNS // 2:
                recorder.rotate(second.write)
            if number == 3 * TURNS // 4:
                recorder.checkpoint()
            turn = run_.turn()
            apply_all(recorder, turn.facts)
            run_.notice(recorder.step(turn.now, turn.limit))


# -- databases --------------------------------------------------------------------------------------------------------


def record_databases(folder: Path) -> None:
    """Write a SQLite file of a service that was killed, and a backup of one on PostgreSQL; with what both answered."""
    with tempfile.TemporaryDirectory(prefix="hostler-formats-") as name:
        home = Path(name)
        (home / "sqlite").mkdir()
        database = home / "control.db"
        contents = asyncio.run(fill(home / "sqlite", f"sqlite:///{database}", is_killed=True))
        # With the write-ahead log that a killed process leaves: VACUUM INTO would write another file than it wrote.
        for path in home.glob("control.db*"):
            if not path.name.endswith("lock"):
                shutil.copy(path, folder / path.name)
                pack(folder / path.name)
        write_json(folder / "sqlite.json", contents)
        (home / "postgresql").mkdir()
        server = PostgresServer()
        try:
            url = server.address(server.new_database())
            write_json(folder / "postgresql.json", asyncio.run(fill(home / "postgresql", url, is_killed=False)))
            run("backup", str(folder / "postgresql.backup"), "--database-url", url)
        finally:
            server.close()


async def fill(folder: Path, url: str, *, is_killed: bool) -> Json:
    """Serve a database, let people and hosts do what they do, and return its contents."""
    service = ServiceProcess(folder, url, options=CALM)
    await service.start()
    await service.ready(leads=True)
    with fake_hosts(folder, service):
        async with client_of(service, service.key) as client:
            await use(client)
            contents = await contents_of(client)
            if is_killed:
                service.kill()
    service.stop()
    return {"key": service.key, "contents": contents}


@contextmanager
def fake_hosts(folder: Path, service: ServiceProcess) -> Iterator[None]:
    words = ["dev", "fleet", "--server", service.address, "--key-file", str(service.key_file), "--hosts", "4"]
    words += ["--size", "cpu=8,memory=32Gi,disk=100Gi", "--storage", "shared", "--label", "zone=north"]
    with (folder / "fleet.log").open("wb") as output:
        process = subprocess.Popen([*HOSTLER, *words], stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait(GIVE_UP_S)


async def use(client: httpx.AsyncClient) -> None:
    """Do a little of everything that is kept."""

    async def ask(method: str, path: str, body: object = None) -> Json:
        answer = await client.request(method, path, json=body)
        assert answer.is_success, answer.text
        return dict(answer.json()) if answer.content else {}

    async def ready_hosts() -> bool:
        return len((await ask("GET", "/v1/hosts?state=ready"))["items"]) == 4

    await until(ready_hosts, "four hosts are ready")
    await ask("POST", "/v1/projects", {"name": "red", "max_priority": 100})
    await ask("POST", "/v1/keys", {"name": "editor", "role": "editor", "project": "red"})
    await ask("POST", "/v1/quotas", {"project": "red", "min": {"cpu": 32}, "max": {"cpu": 64}})
    await ask("POST", "/v1/gangs", {"project": "red", "name": "crew", "min_count": 2})
    await ask("POST", "/v1/reservations", {"project": "red", "name": "night", "amounts": {"cpu": 1}})
    apart = [{"topology": "kubernetes.io/hostname", "selector": {"app": "web"}}]
    plain = {"cpu": "2", "memory": "1Gi"}
    wanted = {
        "web-0": {**plain, "labels": {"app": "web"}, "anti_affinity": apart, "priority": 10},
        "web-1": {**plain, "labels": {"app": "web"}, "anti_affinity": apart, "when_lost": "restart"},
        "disk": {**plain, "disks": [{"size": "1Gi"}, {"size": "2Gi", "storage": "shared"}]},
        "crew-0": {**plain, "gang": "crew"},
        "crew-1": {**plain, "gang": "crew"},
        "large": {"cpu": "100", "memory": "1Gi"},
        "gone": plain,
        "resting": plain,
    }
    for name, spec in wanted.items():
        await ask("POST", "/v1/vms", {"project": "red", "name": name, "spec": spec})
    known = {vm["name"]: vm["id"] for vm in (await ask("GET", "/v1/vms?project=red"))["items"]}
    await ask("POST", f"/v1/vms/{known['resting']}/stop?wait=30")
    await ask("DELETE", f"/v1/vms/{known['gone']}?wait=30")

    states: dict[str, str] = {}

    async def is_settled() -> bool:
        states.clear()
        states.update({vm["name"]: vm["state"] for vm in (await ask("GET", "/v1/vms?project=red"))["items"]})
        return sorted(states.values()) == ["pending", *["running"] * 5, "stopped"]

    await until(is_settled, "all VMs are where they should be", saw=lambda: states)


def client_of(service: ServiceProcess, key: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=service.address, headers=headers, timeout=GIVE_UP_S)


async def contents_of(client: httpx.AsyncClient) -> Json:
    """Return what the service says about everything, without what changes by itself."""
    found: Json = {}
    for page in PAGES:
        answer = await client.get(f"/v1/{page}?limit=200")
        assert answer.is_success, answer.text
        found[page] = [_steady(item) for item in answer.json()["items"]]
    return found


_BY_TIME = {"seen_at", "tried_at", "used_at"}  # known by the process that was asked, not by its database


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _steady(one) for key, one in value.items() if key not in _BY_TIME}
    return [_steady(one) for one in value] if isinstance(value, list) else value


# -- files ------------------------------------------------------------------------------------------------------------


def run(*words: str, codes: tuple[int, ...] = (0,)) -> str:
    """Run a command of ours."""
    done = subprocess.run([*HOSTLER, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


def pack(path: Path) -> None:
    """Replace a file by a packed one; the time of packing is no part of it."""
    with path.open("rb") as content, gzip.GzipFile(f"{path}.gz", "wb", mtime=0) as packed:
        shutil.copyfileobj(content, packed)
    path.unlink()


def unpack(path: Path, target: Path) -> Path:
    """Write what a packed file holds."""
    target.write_bytes(gzip.decompress(path.read_bytes()))
    return target


def write_json(path: Path, value: Json) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True)
    record_journals(folder)
    record_databases(folder)
    for name in CONFIGURATIONS:
        target = folder / "configuration" / name.replace("/", "-")
        target.parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, target)


if __name__ == "__main__":
    main()
