"""When a host that lost the control plane has stopped its VMs, and when the control plane may count on that.

Both sides take their times from here, so that no one can be changed without the other. All of them count from the
moment at which the lease of a host runs out: it was last heard ``stop_after_s`` ago, by the clock of the host, which
starts to count no later than the control plane does (a lease is dated when its report was *sent*)::

    0          lease runs out: its age is stop_after_s
    |            a look that began just before finds nothing (FIND_S), the watchdog rests (LOOK_S), the next look finds
    |            which processes to end (FIND_S)
    NOTICE_S   SIGTERM to all VMs at once
    |            QEMU closes its files (POLITE_S)
    KILL_S     SIGKILL to all that are left, at once, at the latest
    |            the kernel ends them (REAP_S)
    END_S      nothing runs; a process that is left is reported, and the watchdog keeps trying
    |            clocks that differ in speed, a machine that was busy (SLACK_S)
    PROOF_S    the control plane starts the VMs elsewhere

A VM that stops slowly costs nothing, because SIGKILL comes at a time and not after a wait. A host that was suspended
wakes up after KILL_S, so its VMs get SIGKILL without SIGTERM. Pure.
"""

from __future__ import annotations

__all__ = ["END_S", "FIND_S", "FRESH_S", "KILL_S", "LOOK_S", "NOTICE_S", "POLITE_S", "PROOF_S", "REAP_S", "SLACK_S"]

LOOK_S = 1.0  # between two looks of a watchdog
FIND_S = 1.0  # for one look: which VMs are here, and could all of them be ended?
POLITE_S = 1.0  # between SIGTERM and SIGKILL; QEMU needs milliseconds unless its storage hangs
REAP_S = 2.0  # until a killed process is gone: its memory is freed meanwhile
SLACK_S = 2.0

NOTICE_S = FIND_S + LOOK_S + FIND_S
KILL_S = NOTICE_S + POLITE_S
END_S = KILL_S + REAP_S
PROOF_S = END_S + SLACK_S

# How old the last look of a watchdog may be that counts as working: it may be late once, and it finds out within one
# more look that something is wrong.
FRESH_S = 2 * (FIND_S + LOOK_S) + 1.0
