"""``hostler kube extender``: invalid options are reported before anything is served."""

from __future__ import annotations

import pytest

from hostler.cli.kube.extender import extender
from hostler.errors import HostlerError


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--listen", "10360"], "--listen '10360' is not an address", "127.0.0.1:10360"),
        (["--listen", "a:99999"], "is not an address", "127.0.0.1:10360"),
        (["--policy", "fgdd"], "fgdd", "fgd"),
        (["--kubeconfig", "/does/not/exist"], "/does/not/exist", ""),
    ],
)
def test_what_is_wrong_is_reported(words, message, hint):
    with pytest.raises(HostlerError) as caught:
        extender.main(words, standalone_mode=False)
    assert message in caught.value.message
    assert hint in caught.value.hint
