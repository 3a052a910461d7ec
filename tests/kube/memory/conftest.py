"""Failures of the contract show their values, as those of tests do."""

import pytest

pytest.register_assert_rewrite("tests.kube.memory.contract")
