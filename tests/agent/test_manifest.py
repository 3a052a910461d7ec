"""Records on disk: whole or not there, damaged ones set aside, and the agent then keeps its hands off."""

from __future__ import annotations

import asyncio

import pytest

from hostler.agent.core.state import Record
from hostler.agent.manifest import FileManifest, ManifestError, MemoryManifest
from hostler.agent.messages import Disk, Order

ORDER = Order(vm="a", generation=3, power="running", disks=(Disk(size_bytes=7),))
RECORD = Record(vm="a", generation=3, restarts=2, sent=1, made=ORDER, when_silent="stop")


def save(manifest, *records, forgotten=()):
    asyncio.run(manifest.save(records, forgotten))


def load(manifest):
    return asyncio.run(manifest.load())


@pytest.mark.parametrize("make", [FileManifest, lambda _: MemoryManifest()], ids=["file", "memory"])
def test_what_was_saved_is_loaded_and_what_was_forgotten_is_not(make, tmp_path):
    manifest = make(tmp_path / "records")
    assert load(manifest).records == ()
    save(manifest, RECORD, Record(vm="b"))
    save(manifest, Record(vm="b", generation=9), forgotten=["never-saved"])
    assert {record.vm: record for record in load(manifest).records} == {"a": RECORD, "b": Record(vm="b", generation=9)}
    save(manifest, forgotten=["a"])
    assert [record.vm for record in load(manifest).records] == ["b"]


@pytest.mark.parametrize("vm", ["../../etc/passwd", "..", ".", "a/b", "x" * 500, "name with spaces", "ä"])
def test_no_name_of_a_vm_leads_out_of_the_folder(vm, tmp_path):
    folder = tmp_path / "records"
    manifest = FileManifest(folder)
    load(manifest)
    save(manifest, Record(vm=vm, generation=1))
    assert [path.parent for path in tmp_path.rglob("*.record")] == [folder]
    assert load(manifest).records == (Record(vm=vm, generation=1),)


def test_records_are_for_their_owner_only(tmp_path):
    load(FileManifest(tmp_path / "records"))
    save(FileManifest(tmp_path / "records"), RECORD)
    assert (tmp_path / "records" / "a.record").stat().st_mode & 0o077 == 0
    assert (tmp_path / "records" / "unreadable").stat().st_mode & 0o077 == 0


def test_a_write_torn_before_its_rename_leaves_the_old_record(tmp_path):
    load(FileManifest(tmp_path))
    save(FileManifest(tmp_path), RECORD)
    (tmp_path / "a.record.new").write_bytes(b"hostler-rec")
    inventory = load(FileManifest(tmp_path))
    assert inventory.records == (RECORD,)
    assert inventory.set_aside == ()
    assert not list(tmp_path.glob("*.new"))


def damaged(content: bytes) -> list[bytes]:
    return [content[:length] for length in (0, 1, 20, len(content) // 2, len(content) - 2)] + [
        content.replace(b'"restarts":2', b'"restarts":3'),
        content.replace(b"hostler-record 1", b"hostler-record 9"),
        b"\0" * len(content),
    ]


@pytest.mark.parametrize("which", range(8))
def test_a_damaged_record_is_set_aside_and_stays_so_until_a_person_looked(which, tmp_path):
    load(FileManifest(tmp_path))
    save(FileManifest(tmp_path), RECORD, Record(vm="b"))
    path = tmp_path / "a.record"
    content = damaged(path.read_bytes())[which]
    path.write_bytes(content)
    for _ in range(2):
        inventory = load(FileManifest(tmp_path))
        assert [record.vm for record in inventory.records] == ["b"]
        assert inventory.set_aside == ("a.record.1",)
    aside = tmp_path / "unreadable" / "a.record.1"
    assert aside.read_bytes() == content
    aside.unlink()
    assert load(FileManifest(tmp_path)).set_aside == ()


def test_a_record_under_another_name_is_not_believed(tmp_path):
    load(FileManifest(tmp_path))
    save(FileManifest(tmp_path), RECORD)
    (tmp_path / "a.record").rename(tmp_path / "b.record")
    assert load(FileManifest(tmp_path)).set_aside == ("b.record.1",)


def test_those_who_look_in_from_outside_change_nothing(tmp_path):
    load(FileManifest(tmp_path))
    save(FileManifest(tmp_path), RECORD)
    (tmp_path / "bad.record").write_bytes(b"?")
    assert FileManifest(tmp_path).peek() == (RECORD,)
    assert (tmp_path / "bad.record").exists()


def test_a_folder_that_cannot_be_used_is_an_error_with_a_hint(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ManifestError) as caught:
        load(FileManifest(tmp_path / "file"))
    assert caught.value.hint
    with pytest.raises(ManifestError):
        save(FileManifest(tmp_path / "nowhere"), RECORD)
