"""The header of a qcow2 file: read in bounded pieces from an open descriptor, and compared with what we would write.

QEMU believes a header: it opens the files that one names. So the driver reads it first, from the very descriptor that
QEMU gets. Accepted are only headers that our own ``qemu-img create`` writes; anything else has a reason. Nothing here
follows a name or reads more than a few kilobytes, whatever the file says about itself.

Layout: docs/interop/qcow2.txt in QEMU's sources. All numbers are big-endian.
"""

from __future__ import annotations

import os
import struct

import msgspec

__all__ = ["MAGIC", "Qcow2Header", "read_header", "why_not_image", "why_not_overlay"]

MAGIC = b"QFI\xfb"
_OLD_QCOW = b"\0\0\0\1"  # another format of the same magic
_VERSION_3 = 3
# magic, version, backing offset and length, cluster bits, size, encryption, L1 entries and offset, refcount table
# offset and clusters, snapshots and their offset; then, from version 3: three feature masks, refcount order, length
_START = struct.Struct(">4sIQIIQIIQQIIQ")
_FEATURES = struct.Struct(">QQQII")
_EXTENSION = struct.Struct(">II")
_LONGEST_HEADER = 2**12
_LONGEST_NAME = 1023  # QEMU's own limit
_MOST_EXTENSIONS = 16
_CLUSTER_BITS = range(9, 22)

_DATA_FILE_BIT = 1 << 2
_CORRUPT_BIT = 1 << 1
_END, _BACKING_FORMAT, _FEATURE_NAMES = 0, 0xE2792ACA, 0x6803F857
_KNOWN_EXTENSIONS = {_BACKING_FORMAT, _FEATURE_NAMES}
_DATA_FILE, _ENCRYPTION, _BITMAPS = 0x44415441, 0x0537BE77, 0x23852875


class Qcow2Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a header says. ``problem`` tells why it could not be read to its end; empty if it could."""

    version: int = 0
    size_bytes: int = 0
    backing_name: str = ""
    incompatible: int = 0
    encryption: int = 0
    snapshots: int = 0
    extensions: tuple[int, ...] = ()
    problem: str = ""


def read_header(descriptor: int) -> Qcow2Header | None:
    """Return the header of an open file; None if it is not in the format qcow2."""
    start = os.pread(descriptor, _START.size, 0)
    if not start.startswith(MAGIC) or start[4:8] == _OLD_QCOW:
        return None
    if len(start) < _START.size:
        return Qcow2Header(problem="it ends within")
    (_, version, backing_at, backing_length, cluster_bits, size, encryption, *_, snapshots, _) = _START.unpack(start)
    header = Qcow2Header(version=version, size_bytes=size, encryption=encryption, snapshots=snapshots)
    # Version 2 has no masks of features: its extensions begin where those would.
    incompatible, length, least = 0, _START.size, _START.size
    if version >= _VERSION_3:
        more = os.pread(descriptor, _FEATURES.size, _START.size)
        if len(more) < _FEATURES.size:
            return msgspec.structs.replace(header, problem="it ends within")
        incompatible, _, _, _, length = _FEATURES.unpack(more)
        least = _START.size + _FEATURES.size
    header = msgspec.structs.replace(header, incompatible=incompatible)
    if cluster_bits not in _CLUSTER_BITS:
        return msgspec.structs.replace(header, problem=f"clusters of 2^{cluster_bits} bytes")
    if not least <= length <= _LONGEST_HEADER:
        return msgspec.structs.replace(header, problem=f"a header of {length} bytes")
    extensions, problem = _read_extensions(descriptor, length, 1 << cluster_bits)
    name = ""
    if backing_at:
        if backing_length > _LONGEST_NAME:
            problem = problem or f"a name of {backing_length} bytes"
        # QEMU's own limit: the name lies within the first cluster.
        if backing_at + min(backing_length, _LONGEST_NAME) > 1 << cluster_bits:
            problem = problem or f"a name at byte {backing_at}"
        else:
            name = os.pread(descriptor, min(backing_length, _LONGEST_NAME), backing_at).decode(errors="replace")
        name = name or "a file without a name"
    return msgspec.structs.replace(header, backing_name=name, extensions=extensions, problem=problem)


def why_not_image(header: Qcow2Header) -> str:
    """Return why a file is no image that stands for itself, as a text that continues its name; empty if it is one."""
    if header.incompatible & _DATA_FILE_BIT or _DATA_FILE in header.extensions:
        return "keeps its data in another file"
    if header.backing_name:
        return f"is laid over {_shown(header.backing_name)}"
    if header.encryption or _ENCRYPTION in header.extensions:
        return "is encrypted"
    return f"has a damaged header: {header.problem}" if header.problem else ""


def why_not_overlay(
    header: Qcow2Header | None, *, base: str, sizes: tuple[int, ...], versions: tuple[int, ...] = (_VERSION_3,)
) -> str:
    """Return why a file is not a disk as we make them, as a text that continues its name; empty if it is one.

    ``base`` is the file name of the image below, empty for none. Its folder may differ from host to host, so only the
    name counts; QEMU does not open what the header names there, since we spell out what lies below.
    """
    if header is None:
        return "is not in the format qcow2"
    if header.version not in versions and not header.problem:
        return f"is in version {header.version} of qcow2, not {' or '.join(map(str, versions))}"
    reason = why_not_image(msgspec.structs.replace(header, backing_name=""))
    if reason:
        return reason
    folder, _, name = header.backing_name.rpartition("/")
    if header.backing_name and (name != base or not header.backing_name.startswith("/")):
        return f"is laid over {_shown(header.backing_name)}, not over {base or 'nothing'}"
    if base and not folder:
        return f"is laid over nothing, not over {base}"
    if header.snapshots or _BITMAPS in header.extensions:
        return "has internal snapshots or bitmaps"
    if header.incompatible & _CORRUPT_BIT:
        return "is marked as damaged"
    unknown = set(header.extensions) - _KNOWN_EXTENSIONS
    if header.incompatible or unknown:
        words = [f"{header.incompatible:#x}", *(f"{kind:#x}" for kind in sorted(unknown))]
        return f"uses features ({', '.join(words)}) that this host does not know"
    if header.size_bytes not in sizes:
        return f"has {header.size_bytes} bytes, not {' or '.join(map(str, sizes))}"
    return ""


def _read_extensions(descriptor: int, at: int, end: int) -> tuple[tuple[int, ...], str]:
    """Return which extensions follow a header within its first cluster, and what is wrong with them."""
    kinds: list[int] = []
    for _ in range(_MOST_EXTENSIONS):
        piece = os.pread(descriptor, _EXTENSION.size, at)
        if len(piece) < _EXTENSION.size:
            return tuple(kinds), "it ends within"
        kind, length = _EXTENSION.unpack(piece)
        if kind == _END:
            return tuple(kinds), ""
        kinds.append(kind)
        at += _EXTENSION.size + (length + 7) // 8 * 8
        if at > end:
            return tuple(kinds), f"an extension of {length} bytes"
    return tuple(kinds), f"more than {_MOST_EXTENSIONS} extensions"


def _shown(name: str) -> str:
    """Return a name of a stranger without what could confuse a log."""
    return "".join(char if char.isprintable() else "?" for char in name)[:200]
