"""A Landlock domain for one rank: it looks into no other process, and writes no file that another could read.

Any process may enter one, without a privilege, and never leaves it. Ranks of one submission are forked from one
kernel, so they are of one user: without it the operating system lets each read the others' memory.
"""

import ctypes
import errno
import os
import struct
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_VERSION_WANTED = 1
_PR_SET_NO_NEW_PRIVS = 38
_WRITE_FILE, _REMOVE_DIR, _MAKE_SYM = 1, 4, 12
_FILES = (1 << _WRITE_FILE) | sum(1 << bit for bit in range(_REMOVE_DIR, _MAKE_SYM + 1))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)


def enter(folder: str | None = None) -> bool:
    """Whether there is one to enter: Linux has Landlock since 5.13, where it is switched on. Raises OSError.

    ``folder``: where alone files may be written; None: nowhere.

    Connections over TCP are refused since 6.7, abstract sockets and signals beyond the domain since 6.12.
    """
    version = _version()
    if version < 1:
        return False
    rules = struct.pack(
        "QQQ",
        _files(version),
        (_BIND_TCP | _CONNECT_TCP) * (version >= 4),
        (_ABSTRACT_SOCKETS | _SIGNALS) * (version >= 6),
    )
    rules = rules[: 8 if version < 4 else 16 if version < 6 else 24]
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    ruleset = _check(_libc.syscall(_CREATE_RULESET, rules, len(rules), 0))
    try:
        if folder is not None:
            _allow(ruleset, folder, _files(version))
        _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return True


def _allow(ruleset: int, folder: str, actions: int) -> None:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        rule = struct.pack("=Qi", actions, descriptor)
        _check(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    finally:
        os.close(descriptor)


def _files(version: int) -> int:
    return _FILES | _REFER * (version >= 2) | _TRUNCATE * (version >= 3)


def _version() -> int:
    if sys.platform != "linux":
        return 0
    version = _libc.syscall(_CREATE_RULESET, None, 0, _VERSION_WANTED)
    return 0 if version < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM) else _check(version)


def _check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
    return result
