"""Failed assertions of the contract show their values, as in tests."""

import pytest

pytest.register_assert_rewrite("tests.kube.memory.contract")
