"""A real libvirtd for tests, as a program: ``python -m tests.agent.drivers.libvirt_daemon PYTEST-ARGUMENTS``.

It runs pytest beside a daemon that serves ``qemu:///system``. The caller must start it as root in mount, network and
process namespaces of its own (``IN_NAMESPACES``): its folders are in memory there, and the processes of the daemon end
with it. So nothing is left behind, and a libvirtd of this machine is not touched. Without systemd, and without KVM.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

IN_NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
START_S = 60.0
SOCKET = Path("/run/libvirt/libvirt-sock")
LOG = Path("/var/log/libvirtd.log")
USER = "libvirt-qemu"  # Debian's libvirtd does not start without this user, whatever user QEMU runs as

DAEMON_SETTINGS = 'auth_unix_rw = "none"\nauth_unix_ro = "none"\nunix_sock_group = "root"\nlog_outputs = "3:stderr"\n'
# VMs are not confined and no virtlogd runs: these tests are about the driver. With the user nobody, libvirtd was seen
# to probe QEMU again for every connection, for about 15 s; with root it does so once.
QEMU_SETTINGS = """
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"""


def mount_own_folders() -> None:
    """Replace the folders that libvirtd writes to, and add its user if this machine has none."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for folder in ("/etc/libvirt", "/run", "/var/cache", "/var/lib", "/var/log"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder], check=True)
    Path("/etc/libvirt/libvirtd.conf").write_text(DAEMON_SETTINGS)
    Path("/etc/libvirt/qemu.conf").write_text(QEMU_SETTINGS)
    add_line("/etc/passwd", f"{USER}:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin")
    for group, number in ((USER, 64055), ("kvm", 64056)):
        add_line("/etc/group", f"{group}:x:{number}:")


def add_line(path: str, line: str) -> None:
    """Add an account to a file of accounts, as it is seen in this namespace, if it is not there."""
    accounts = Path(path).read_text()
    name = line.partition(":")[0]
    if not any(known.startswith(f"{name}:") for known in accounts.splitlines()):
        changed = Path("/run", Path(path).name)
        changed.write_text(f"{accounts}{line}\n")
        subprocess.run(["mount", "--bind", changed, path], check=True)


def run_beside_daemon(command: list[str]) -> int:
    """Run a command while libvirtd runs; return its exit code."""
    with LOG.open("wb") as log:
        daemon = subprocess.Popen(["libvirtd"], stdout=log, stderr=log)
    deadline = time.monotonic() + START_S
    while not SOCKET.exists():
        if daemon.poll() is not None or time.monotonic() > deadline:
            print(f"libvirtd does not start:\n{LOG.read_text()}")
            return 1
        time.sleep(0.05)
    code = reap_until_exit(subprocess.Popen(command).pid)
    if code:
        print(LOG.read_text()[-5000:])
    return code  # libvirtd and all VMs end with this process, the first of its namespace


def reap_until_exit(process: int) -> int:
    """Wait for a process and return its exit code.

    Orphans are reaped meanwhile, as the first process of a namespace must: libvirt waits for QEMU to be gone.
    """
    while True:
        pid, status = os.wait()
        if pid == process:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    mount_own_folders()
    sys.exit(run_beside_daemon([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *sys.argv[1:]]))
