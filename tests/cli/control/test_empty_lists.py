"""What lists say beside the answer where there is nothing: that there is none yet, and how one is made."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler

ELSEWHERE = "; -p names another project, -A means all"
CREATE = "'hostler vm create NAME --cpu 2 --memory 4Gi' makes one"


def said(*words: str) -> str:
    """Return what a list says beside its answer, which is empty and no failure."""
    result = hostler(*words)
    assert (result.code, result.out) == (0, "")
    return result.err.removesuffix("\n")


def test_empty_list_says_how_to_create_a_vm(project):
    assert said("vm", "list") == f"there are no VMs in project {project} yet: {CREATE}{ELSEWHERE}"
    assert said("vm", "list", "--limit", "5") == said("vm", "list")
    assert hostler("vm", "list", "-o", "json").json == {"items": []}


@pytest.mark.parametrize(
    "some",
    [
        ("--state", "failed"), ("--power", "paused"), ("--host", "node-1"), ("--gang", "crew"), ("-l", "tier=web"),
        ("--name", "web-0"),
    ],
    ids=lambda some: some[0],
)  # fmt: skip
def test_where_only_some_were_asked_for_there_are_no_such_vms(project, some):
    assert said("vm", "list", *some) == f"there are no such VMs in project {project}{ELSEWHERE}"


def test_other_lists_of_a_project_say_how_one_comes_to_be(project):
    assert said("operation", "list") == (
        f"there are no operations in project {project} yet: each change of a VM is one{ELSEWHERE}"
    )
    assert said("operation", "list", "--state", "failed") == "there are no such operations"
    assert said("gang", "list") == (
        f"there are no gangs in project {project} yet: 'hostler gang create NAME --min-count 2' makes one{ELSEWHERE}"
    )


@pytest.mark.usefixtures("empty")
def test_a_new_control_plane_says_of_everything_how_it_begins():
    assert said("vm", "list", "-A") == f"there are no VMs yet in any project: {CREATE}"
    assert said("operation", "list", "-A") == "there are no operations yet in any project: each change of a VM is one"
    assert said("token", "list") == "there are no tokens: 'hostler token create' creates one, with which a host joins"
    assert said("quota", "list") == (
        "there are no quotas, so nothing is limited: 'hostler quota set PROJECT --max cpu=64' sets one"
    )
