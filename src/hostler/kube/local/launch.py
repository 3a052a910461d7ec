"""Write a note about this process, then become another program. A script that needs only the standard library.

The process writes the note itself, so the parent cannot die between start and note and leave an unknown process behind.
The lock, inherited as descriptor 3, is held until the note is written. Arguments: the file of the note, ``die`` or
``live`` (with the parent), the program and its arguments.
"""

import ctypes
import json
import os
import signal
import sys

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_LOCK = 3


def _main() -> None:
    note, bond, *command = sys.argv[1:]
    if bond == "die":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - pathlib would take as long as all the rest
        start_ticks = int(file.read().rpartition(b")")[2].split()[19])
    with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
        boot = file.read().strip()
    facts = {"pid": os.getpid(), "start_ticks": start_ticks, "boot": boot, "command": command}
    with open(f"{note}.new", "w") as file:  # noqa: PTH123
        json.dump(facts, file)
    os.rename(f"{note}.new", note)  # noqa: PTH104
    os.close(_LOCK)
    os.execv(command[0], command)


if __name__ == "__main__":
    _main()
