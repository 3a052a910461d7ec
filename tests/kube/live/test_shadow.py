"""Journals of live clusters: of an active scheduler and of a shadow; both replay bit for bit."""

from __future__ import annotations

import asyncio
import random
import threading
import time

from hostler.cli.files import load_journal
from hostler.engine.journals.journal import replay
from hostler.kube.api.client import KubeClient
from hostler.kube.api.http import client_for
from hostler.kube.configuration import default_settings
from hostler.kube.live.shadow import Shadow
from hostler.kube.scheduler.journal_files import JournalFiles
from hostler.kube.scheduler.process import Scheduler
from hostler.runtime.clock import SteadyClock
from hostler.runtime.engine_thread import EngineThread
from tests.cli.cli_in_process import hostler
from tests.kube.live.objects import OURS, pod
from tests.kube.service.service_in_process import node, server_with
from tests.wait import until


def decisions_of(path):
    """Replay a journal and return how often it decided."""
    result = replay(load_journal(str(path)))
    assert result.difference is None, result.difference
    return result.decisions


async def test_a_journal_of_a_scheduler_on_a_real_cluster_replays_identically(cluster, create, tmp_path):
    files = JournalFiles(tmp_path / "run.journal")
    create("before", "1")
    create("huge", "100")

    client, executor = client_for(cluster.kubeconfig("hostler")), EngineThread()
    scheduler = Scheduler(
        client, default_settings(), clock=SteadyClock(), executor=executor, identity="me",
        random=random.Random(1), journal=files.write,
    )  # fmt: skip
    stop = asyncio.Event()
    running = asyncio.ensure_future(scheduler.run(stop))
    await until(lambda: scheduler.is_synced)
    for number in range(5):
        await asyncio.to_thread(create, f"web-{number}", "2")
    await until(lambda: scheduler.binder.counts.bound == 6)
    stop.set()
    assert await running == "stopped"
    executor.close()
    await client.close()
    files.close()
    assert decisions_of(tmp_path / "run.journal") >= 7
    assert hostler("journal", "replay", tmp_path / "run.journal").lines[0].endswith("identical")


def bind(cluster, name, to):
    target = {"apiVersion": "v1", "kind": "Node", "name": to}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    with cluster.api() as api:
        api.call("POST", f"/api/v1/namespaces/default/pods/{name}/binding", body)


def test_a_recorded_cluster_replays_and_was_not_touched(cluster, create, on, tmp_path):
    create("waits", "100")

    def record(name, span):
        path = tmp_path / f"cluster-{span}.journal"

        def come_late():
            while not path.exists() or path.stat().st_size == 0:  # until the recording has begun
                time.sleep(0.05)
            create(name)
            bind(cluster, name, "node-2")

        late = threading.Thread(target=come_late)
        late.start()
        found = hostler("journal", "record", "-o", path, "--for", span, *on)
        late.join()
        assert found.code == 0, found.err
        assert decisions_of(path) >= 1
        return name in hostler("journal", "show", path).out

    assert record("late", "4s") or record("latest", "2m"), "a busy machine may need longer to see it"
    with cluster.api() as api:
        waits = api.call("GET", "/api/v1/namespaces/default/pods/waits")
    assert "nodeName" not in waits["spec"]
    assert not [one for one in waits["status"].get("conditions", []) if one.get("reason") == "Unschedulable"]


def test_a_redacted_recording_has_no_names_and_replays(create, on, tmp_path):
    create("secret-project")
    path = tmp_path / "cluster.journal"
    found = hostler("journal", "record", "-o", path, "--for", "1s", "--redact", *on)
    assert found.code == 0, found.err
    assert [one.name for one in tmp_path.iterdir()] == ["cluster.journal"]
    assert b"secret-project" not in path.read_bytes()
    assert b"node-1" not in path.read_bytes()
    assert decisions_of(path) >= 1
    assert path.stat().st_mode & 0o077 == 0
    assert f"  {path}  {path.stat().st_size:,} bytes" in found.lines


def test_a_recording_in_several_files_names_them_and_what_was_there_before(create, on, tmp_path):
    create("waits", "100")
    path = tmp_path / "cluster.journal"
    path.write_text("of yesterday")
    found = hostler("journal", "record", "-o", path, "--for", "2s", "--rotate", "1Ki", *on)
    assert found.code == 0, found.err
    assert f"{path} existed already; it was renamed to cluster.journal.1 now" in found.err
    assert (tmp_path / "cluster.journal.1").read_text() == "of yesterday"
    ours = sorted(file for file in tmp_path.iterdir() if file.name != "cluster.journal.1")
    assert path in ours
    assert sorted(found.lines[1:]) == sorted(f"  {file}  {file.stat().st_size:,} bytes" for file in ours)
    total = sum(file.stat().st_size for file in ours)
    assert found.lines[0].endswith(f"{len(ours)} file{'s' * (len(ours) > 1)}, {total:,} bytes")
    assert [decisions_of(file) for file in ours]


async def test_a_shadow_compares_its_decisions_with_what_others_do(tmp_path):
    server = server_with(node("n"), pod("a"), pod("b"), pod("huge", cpu="100"))
    files = JournalFiles(tmp_path / "run.journal")

    client = KubeClient(server.transport("watcher"))
    shadow = Shadow(client, default_settings(), files, clock=server.clock, random=random.Random(1))
    stop = asyncio.Event()
    running = asyncio.ensure_future(shadow.run(stop))
    await until(lambda: shadow.counts.decisions == 2)
    server.put(node("m"))
    for name, to in (("a", "n"), ("b", "m"), ("huge", "m")):
        server.change("pods", name, lambda item, to=to: item | {"spec": item["spec"] | {"nodeName": to}})
    await until(lambda: shadow.counts.agreed + shadow.counts.differed + shadow.counts.unplaced == 3)
    stop.set()
    await running
    await client.close()
    counts = shadow.counts
    files.close()
    assert (counts.agreed, counts.differed, counts.unplaced, counts.refused) == (1, 1, 1, 0)
    assert not [entry for entry in server.log if entry.method != "GET"]
    assert decisions_of(tmp_path / "run.journal") >= 3  # one of them a refusal
    assert OURS in {profile.scheduler_name for profile in default_settings().profiles}
