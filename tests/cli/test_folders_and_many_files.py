"""``-f`` takes a folder, and several files at once, as shells write ``folder/*.yaml``."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import HEAD, hostler, write

HOSTS = "hosts: [{name: a, capacity: {cpu: 4}}]\n"
GUESTS = "guests: [{name: g, requests: {cpu: 1}}]\n"


@pytest.fixture
def folder(tmp_path):
    """Return a folder with hosts and guests in different formats, and files that are not read."""
    folder = tmp_path / "fleet"
    (folder / "old").mkdir(parents=True)
    write(folder / "b.yaml", GUESTS)
    write(folder / "a.yml", HOSTS)
    (folder / "c.json").write_text('{"apiVersion": "hostler/v1", "kind": "Fleet", "guests": [{"name": "h"}]}')
    (folder / "notes.txt").write_text("no YAML: [")
    (folder / ".b.yaml.swp").write_text("no YAML: [")
    (folder / ".c.yaml").write_text("no YAML: [")
    write(folder / "old" / "d.yaml", GUESTS)
    return folder


def test_place_reads_the_files_of_a_folder_in_order(folder):
    found = hostler("place", "-f", folder)
    assert (found.code, found.err) == (0, "")
    assert [line.split()[:2] for line in found.lines[1:3]] == [["g", "a"], ["h", "a"]]


@pytest.mark.parametrize("name", ["explain", "capacity", "config"])
def test_other_commands_read_a_folder_too(folder, name):
    words = {
        "explain": ["explain", "-f", folder, "g"],
        "capacity": ["capacity", "-f", folder, "--guest", folder / "b.yaml"],
        "config": ["config", "validate", folder],
    }
    found = hostler(*words[name])
    assert (found.code, found.err) == (0, "")


def test_folder_without_files_is_an_error_that_names_its_subfolders(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    found = hostler("place", "-f", empty)
    assert found.code == 2
    assert found.error == f"{empty}: the folder has no .yaml, .yml or .json file"
    (empty / "prod").mkdir()
    write(empty / "prod" / "f.yaml", HOSTS)
    assert hostler("place", "-f", empty).hint == f"subfolders are not read: name one, for example -f {empty}/prod"


def test_several_files_after_one_option_are_all_read(folder):
    found = hostler("place", "-f", folder / "a.yml", folder / "b.yaml", folder / "c.json", "--policy", "pack")
    assert (found.code, found.err) == (0, "")
    assert "2 guests: 2 placed" in found.out
    explained = hostler("explain", "--file", folder / "a.yml", folder / "b.yaml", "g")
    assert "g (cpu 1) goes to a" in explained.out


def test_word_without_the_ending_of_a_file_is_no_further_file(folder):
    found = hostler("place", "-f", folder / "a.yml", "oops")
    assert (found.code, found.error) == (2, "got unexpected extra argument (oops)")


def test_folder_in_place_of_a_single_file_names_one_of_its_files(folder):
    write(folder / "a.yml", "policy: spread\n", head=HEAD.replace("Fleet", "Config"))
    found = hostler("place", "-f", folder / "b.yaml", "--config", folder)
    assert found.error == f"{folder}: this is a folder"
    assert found.hint == f"name a file, for example {folder}/a.yml"
