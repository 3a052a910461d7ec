"""Plugins and policies of one's own in a live service: what they decide, and that they stop nobody when they fail."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hostler.control.books.books import Books
from hostler.control.books.follower import Follower, LogNotFollowedError
from hostler.control.own_plugins import OwnPluginSet, check_own_policies
from hostler.control.settings import ControlSettings
from hostler.control.store.history import log
from hostler.engine import BUILT_IN
from hostler.errors import PluginError, UnknownNameError
from hostler.model import Policy, PolicyChanged, ScorerUse
from tests.control.books.replica_setup import SETTINGS, BooksReplica, ReplicaSetup, all_placed, at_rest
from tests.wait import until

GOOD = """
import numpy as np
from pathlib import Path

class LastName:
    name = "last_name"
    normalizer = "none"

    def __init__(self, view, args):
        self.view = view

    def evaluate(self, spec, rows):
        {fault}
        return np.array([int(self.view.host(row).name.rsplit("-", 1)[1]) for row in rows], dtype=np.int64)
"""
IF_BROKEN = "if Path({flag!r}).exists():\n            "
FAULTS = {
    "raises": 'raise ValueError("no idea")',
    "hangs in Python": "while True: pass",
    "hangs in C": "import threading; threading.Event().wait()",
    "ends the program": "raise SystemExit(3)",
    "returns nonsense": 'return np.array(["a"] * len(rows))',
}
WHY = {
    "raises": "plugin 'last_name' failed: ValueError: no idea",
    "hangs in Python": "plugin 'last_name' took longer than 0.5 s",
    "hangs in C": "plugin 'last_name' took longer than 0.5 s",
    "ends the program": "plugin 'last_name' failed: SystemExit: 3",
    "returns nonsense": "plugin 'last_name' failed: TypeError: it returned",
}
OWN = Policy(name="own", scorers=(ScorerUse("last_name"),))


def settings_with(folder: Path, fault: str = "", *policies: Policy, flag: Path | None = None) -> ControlSettings:
    file = folder / "own.py"
    test = IF_BROKEN.format(flag=str(flag)) if flag is not None else ""
    file.write_text(GOOD.replace("{fault}", test + (fault or "pass")))
    return msgspec.structs.replace(
        SETTINGS, own_policies=(*policies, OWN), plugin_files=(str(file),), plugin_deadline_s=0.5
    )


async def in_force(books: Books) -> BooksReplica:
    """Return a replica that leads, and whose own strategies may be named."""
    leader = await BooksReplica(books).start()
    await until(lambda: "own" in books.strategies)
    return leader


async def test_own_strategy_of_a_plugin_file_places_vms_on_all_replicas(database, tmp_path):
    setup, settings = ReplicaSetup(database), settings_with(tmp_path)
    await setup.build(3)
    leader = await in_force(setup.books("a", settings))
    follower = await BooksReplica(setup.books("b", settings)).start()
    for name in ("one", "two"):
        await setup.create(name, strategy="own")
    await setup.create("usual")
    await all_placed(setup, "one", "two", "usual")
    assert await setup.where("one", "two", "usual") == {"one": "host-2", "two": "host-2", "usual": "host-0"}
    await at_rest(setup, leader.books, follower.books)
    assert not follower.books.trouble
    await leader.stop()
    await setup.create("three", strategy="own")
    await all_placed(setup, "three")
    assert (await setup.where("three"))["three"] == "host-2"
    await follower.stop()


@pytest.mark.parametrize("fault", FAULTS, ids=FAULTS)
async def test_failing_plugin_stops_only_the_vms_of_its_strategy(database, tmp_path, fault):
    flag = tmp_path / "broken"
    setup, settings = ReplicaSetup(database), settings_with(tmp_path, FAULTS[fault], flag=flag)
    await setup.build(3)
    leader = await in_force(setup.books("a", settings))
    await setup.create("before", strategy="own")
    await all_placed(setup, "before")
    flag.touch()
    await setup.create("own", strategy="own")
    await setup.create("usual")
    await all_placed(setup, "usual")

    async def has_reason() -> bool:
        return WHY[fault].replace(": ", " ") in (await setup.vm("own")).why

    await until(has_reason)
    await setup.create("later")
    await all_placed(setup, "later")
    assert (await setup.where("own"))["own"] == ""
    assert leader.books.rebuilds == 1, "the step was undone, nothing was read again"
    assert [line for line in setup.said if "out of service until a restart: strategy own" in line]
    flag.unlink()
    await at_rest(setup, leader.books)
    twin = Follower.begin(OwnPluginSet(settings).registry)
    twin.read(await setup.entries())
    assert twin.engine.checkpoint() == leader.books._follower.engine.checkpoint(), "the log does not give its engine"
    await leader.stop()
    # Another replica reads what happened, and tries the plugin again once it leads.
    second = await BooksReplica(setup.books("b", settings)).start()
    await all_placed(setup, "own")
    assert (await setup.where("own"))["own"] == "host-2"
    await second.stop()


async def test_replica_that_follows_need_not_fail_as_the_leader_did(database, tmp_path):
    """The failure is a fact in the log. A sound replica has decided alike after it."""
    flag = tmp_path / "broken"
    setup, settings = ReplicaSetup(database), settings_with(tmp_path, FAULTS["raises"], flag=flag)
    (tmp_path / "sound.py").write_text(GOOD.replace("{fault}", "pass"))
    sound = msgspec.structs.replace(settings, plugin_files=(str(tmp_path / "sound.py"),))
    await setup.build(3)
    leader = await in_force(setup.books("a", settings))
    follower = await BooksReplica(setup.books("b", sound)).start()
    flag.touch()
    for number in range(4):
        await setup.create(f"own-{number}", strategy="own")
        await setup.create(f"usual-{number}")
    await all_placed(setup, *(f"usual-{number}" for number in range(4)))
    await at_rest(setup, leader.books, follower.books)
    assert not follower.books.trouble
    assert not any((await setup.where(*(f"own-{number}" for number in range(4)))).values())
    await follower.stop()
    await leader.stop()


async def test_plugin_that_cannot_be_made_takes_only_its_strategy_out_of_service(database, tmp_path):
    settings = settings_with(tmp_path)
    file = Path(settings.plugin_files[0])
    file.write_text(file.read_text().replace("self.view = view", "raise RuntimeError('no license')"))
    setup = ReplicaSetup(database)
    await setup.build(2)
    books = await in_force(setup.books("a", settings))
    await setup.create("own", strategy="own")
    await setup.create("usual")
    await all_placed(setup, "usual")

    async def has_reason() -> bool:
        return "no license" in (await setup.vm("own")).why

    await until(has_reason)
    await books.stop()
    with pytest.raises(PluginError, match="no license"):
        check_own_policies(settings)


def test_replica_without_the_plugin_stands_aside_and_says_what_it_lacks():
    follower = Follower.begin()
    fact = PolicyChanged(policies=(*BUILT_IN.values(), OWN)[-2:])
    follower.read([log.StoredEntry(seq=1, at_ns=1, kind="fact", body=msgspec.json.encode(fact))])
    with pytest.raises(LogNotFollowedError, match="last_name") as caught:
        follower.catch_up(1)
    assert "--plugin" in caught.value.hint
    with pytest.raises(LogNotFollowedError, match="last_name"):
        follower.read([])


def test_unknown_plugin_of_a_strategy_ends_the_start():
    with pytest.raises(UnknownNameError, match="last_name"):
        OwnPluginSet(ControlSettings(own_policies=(OWN,)))


def test_settings_without_own_plugins_call_none():
    plugins = OwnPluginSet(ControlSettings())
    assert plugins.registry.extra == {}
    assert not plugins.concern(BUILT_IN.values())
