"""Becomes a program, after having noted who that will be. Run as a script, by path, with the standard library alone.

The note is written by the process itself, so there is no moment in which whoever started it could die and leave a
process behind that nobody knows of; and the lock that is inherited as descriptor 3 is held until the note is there.
Arguments: the note's file, ``die`` or ``live`` (with whoever started it), the program and its arguments.
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
