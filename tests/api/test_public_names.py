"""The public Python API: small, complete, lazy, and its example runs."""

from __future__ import annotations

import doctest
import subprocess
import sys

import hostler


def test_every_public_name_can_be_had():
    for name in hostler.__all__:
        assert getattr(hostler, name) is not None, name
    for name in hostler.queries.__all__:
        assert getattr(hostler.queries, name) is not None, name


def test_public_names_and_their_homes_agree():
    names = {*hostler._HOME, *hostler._PACKAGES, *hostler._ALIASES, "__version__"}
    assert sorted(names) == sorted(hostler.__all__)


def test_former_names_are_aliases_of_the_present_ones():
    assert hostler.Hold is hostler.Defer


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(hostler, "Enginee")


def test_importing_the_package_loads_neither_numpy_nor_numba():
    code = "import hostler, sys; print([m for m in ('numpy', 'numba', 'yaml', 'rich') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_example_in_the_docstring_runs():
    results = doctest.testmod(hostler)
    assert results.attempted >= 5
    assert results.failed == 0
