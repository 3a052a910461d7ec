"""Which amounts of bytes were probably meant, in hints."""

from __future__ import annotations

import pytest

from hostler.control.vms.spec import DiskSpec, VmSpec, check_vm_spec
from hostler.errors import QuantityError


@pytest.mark.parametrize(
    ("memory", "question"),
    [
        ("4", "did you mean 4Gi? "),
        (4, "did you mean 4Gi? "),
        ("127", "did you mean 127Gi? "),
        ("512", "did you mean 512Mi? "),
        ("4096", "did you mean 4096Mi? "),
        ("4GB", "did you mean 4Gi or 4G? "),
        ("1.5gb", "did you mean 1.5Gi or 1.5G? "),
        ("4GiB", "did you mean 4Gi or 4G? "),
        ("4 Gi", "did you mean 4Gi or 4G? "),
        ("512m", "did you mean 512Mi or 512M? "),
        ("900000K", "did you mean 900000Ki or 900000k? "),
    ],
)
def test_memory_as_others_write_it_is_asked_back(memory: str | int, question: str) -> None:
    with pytest.raises(QuantityError) as caught:
        check_vm_spec(VmSpec(cpu="1", memory=memory))
    assert caught.value.hint.startswith(question)
    assert caught.value.message.startswith("memory: ")


@pytest.mark.parametrize("memory", ["0", "1000000", "1Ki", "2Pi", "4X", "many", "2000000000000000"])
def test_where_nothing_can_be_guessed_nothing_is_asked(memory: str) -> None:
    with pytest.raises(QuantityError) as caught:
        check_vm_spec(VmSpec(cpu="1", memory=memory))
    assert "did you mean" not in caught.value.hint


@pytest.mark.parametrize(("size", "meant"), [("20", "20Gi"), ("512", "512Gi"), ("20GB", "20Gi or 20G")])
def test_disks_are_asked_back_in_gibibytes(size: str, meant: str) -> None:
    with pytest.raises(QuantityError) as caught:
        check_vm_spec(VmSpec(cpu="1", memory="1Gi", disks=[DiskSpec(size=size)]))
    assert caught.value.hint.startswith(f"did you mean {meant}? ")


def test_processors_have_no_such_units() -> None:
    with pytest.raises(QuantityError) as caught:
        check_vm_spec(VmSpec(cpu="4GB", memory="1Gi"))
    assert "did you mean" not in caught.value.hint
