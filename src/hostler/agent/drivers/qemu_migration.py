"""Live migration: a VM runs on one side at any time, whatever dies in between. Here: what both sides share.

The target (``qemu_landing``) waits with a record and a secret. The source (``qemu_sending``) proves the secret on the
target's port (``qemu_handshake``) and both give the connection to their QEMU, which encrypts it with a key made from
the secret. When all is copied, the VM stands still on both sides. The source then notes that it has left, which is the
point of no return, and only then says the last word: let it run. It is repeated until it was answered, also by the next
agent. A try that fails before that note leaves the VM running at the source, and the target ready for the next try.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

from hostler.agent.drivers.driver import PermanentError
from hostler.agent.drivers.qemu_disks import is_shared
from hostler.agent.drivers.qemu_folder import VmFolder
from hostler.agent.drivers.qemu_handshake import stream_key
from hostler.agent.drivers.qemu_monitor import RefusedCommandError, Session
from hostler.agent.drivers.qemu_settings import Runner
from hostler.agent.messages import Order

__all__ = ["ENDED_BADLY", "check_disks", "encrypt"]

ENDED_BADLY = ("failed", "cancelled")  # QEMU's words for it
_KEY = "migration-key"
_BANDWIDTH = 2**33  # bytes a second: the network is the limit


async def encrypt(
    opened: Session, folder: VmFolder, runner: Runner, *, secret: str, side: Literal["client", "server"]
) -> None:
    """Tell QEMU to encrypt what it sends or receives with a key made from the secret of a landing."""
    _write_key(folder.keys, stream_key(secret), runner)
    with suppress(RefusedCommandError):  # there is none yet
        await opened.execute("object-del", {"id": _KEY})
    key = {"qom-type": "tls-creds-psk", "id": _KEY, "dir": str(folder.keys), "endpoint": side}
    await opened.execute("object-add", key)
    names = ("return-path", "auto-converge")
    await opened.execute(
        "migrate-set-capabilities", {"capabilities": [{"capability": name, "state": True} for name in names]}
    )
    # The name is not checked for keys of this kind, but has to be there.
    parameters = {"tls-creds": _KEY, "tls-hostname": "landing", "max-bandwidth": _BANDWIDTH}
    await opened.execute("migrate-set-parameters", parameters)


def check_disks(order: Order) -> None:
    """Refuse to move a VM away from disks that only one host has."""
    if not is_shared(order):
        raise PermanentError(
            f"{order.vm} has a disk on one host only", hint="live migration needs shared storage, or no disks"
        )


def _write_key(folder: Path, key: str, runner: Runner) -> None:
    path = folder / "keys.psk"
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400)
    with os.fdopen(descriptor, "w") as file:
        if runner.must_switch:
            os.fchown(file.fileno(), runner.uid, runner.gid)
        file.write(f"qemu:{key}\n")
