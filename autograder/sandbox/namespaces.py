"""Linux namespaces for one forked kernel, within the sandbox that holds the kernel server.

The sandbox (bubblewrap) keeps submissions from the machine; this keeps them from each other
and from the server they are forked from. System calls by way of ctypes: Python 3.11 has no
``os.unshare``, and no Python has ``mount``.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CAPABILITY_VERSION_3 = 0x20080522
_MNT_DETACH = 2
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
# Python names them on Linux alone, and elsewhere nothing here is called.
_ATIME_FLAGS = {
    getattr(os, name, 0): ms for name, ms in (("ST_NOATIME", 1024), ("ST_NODIRATIME", 2048), ("ST_RELATIME", 1 << 21))
}
_libc = ctypes.CDLL(None, use_errno=True)


def enter_own_namespaces() -> None:
    """Unshare user, mount, pid, ipc and network namespaces; ids stay what they are.

    The network is a loopback device that leads to this kernel's own processes. The pid namespace is that of the caller's next child. Raises OSError.
    """
    user, group = os.getuid(), os.getgid()
    set_dumpable(True)  # or /proc/self/uid_map belongs to root
    _check(_libc.unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWIPC | _NEWNET), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _raise_loopback()
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "make mounts private")


def _raise_loopback() -> None:
    """A new network namespace has its loopback device down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        fcntl.ioctl(anything, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP))


def keep_only(folder: str, scratch: str, scratch_bytes: int, also: list[str]) -> None:
    """An empty /tmp of ``scratch_bytes``; in it ``folder``, and below that ``scratch``.

    ``folder`` is a folder in /tmp that the host sees too; ``scratch`` (below it) becomes
    memory of this kernel's own, with the files that lay there. ``also``: what else is kept of
    /tmp, for a course or a Python that is installed there.
    """
    aside = "/mnt"
    bind("/tmp", aside)
    mount_tmpfs("/tmp", scratch_bytes)
    for path in [folder, *also]:
        _put_back(path, os.path.join(aside, os.path.relpath(path, "/tmp")))
    mount_tmpfs(scratch, scratch_bytes)
    copy_tree(os.path.join(aside, os.path.relpath(scratch, "/tmp")), scratch)
    mount_tmpfs("/dev/shm", scratch_bytes)
    _check(_libc.umount2(aside.encode(), _MNT_DETACH), "umount")


def _put_back(path: str, source: str) -> None:
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "a").close()
    bind(source, path)


def bind(source: str, target: str) -> None:
    _check(_libc.mount(source.encode(), target.encode(), None, _MS_BIND | _MS_REC, None), f"bind {target}")


def make_read_only(target: str) -> None:
    flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV
    # What the outer mount says of access times is locked in here: repeat it.
    flags |= sum(ms for st, ms in _ATIME_FLAGS.items() if os.statvfs(target).f_flag & st)
    _check(_libc.mount(None, target.encode(), None, flags, None), f"read-only {target}")


def mount_tmpfs(target: str, size_bytes: int) -> None:
    options = f"size={size_bytes},mode=0777".encode()
    _check(_libc.mount(b"tmpfs", target.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV, options), f"tmpfs {target}")


def mount_proc() -> None:
    """A /proc that shows this pid namespace alone. Call in its first process."""
    _check(_libc.mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV, None), "proc")


def drop_capabilities() -> None:
    """Give up every capability in the user namespace, for good."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, nothing), "capset")
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def set_dumpable(yes: bool) -> None:
    """Whether processes of the same user may look into this one's memory."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(yes), 0, 0, 0), "dumpable")


def die_with_parent(signal_number: int) -> None:
    """On Linux; elsewhere no system call does it."""
    if sys.platform == "linux":
        _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "pdeathsig")


def copy_tree(source: str, target: str) -> None:
    import shutil

    for name in os.listdir(source):
        path = os.path.join(source, name)
        copy = shutil.copytree if os.path.isdir(path) else shutil.copy
        copy(path, os.path.join(target, name))


def _check(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
