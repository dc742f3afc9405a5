"""System calls that no exercise needs, refused to a kernel and all that it starts.

They reach memory that belongs to no process (anonymous files, System V segments, shared mappings of
no file), look into other processes, make namespaces or mounts, lead to a hypervisor or another kind of
network, or are large surfaces of the operating system's kernel. A seccomp filter; on processors other than x86-64 and ARM64 there is none.
"""

import ctypes
import errno
import platform
import socket
import struct

_NAMES = (
    "shmget msgget semget memfd_create memfd_secret ptrace process_vm_readv process_vm_writev "
    "kcmp unshare setns mount umount2 pivot_root open_tree move_mount fsopen mount_setattr "
    "open_by_handle_at add_key request_key keyctl bpf perf_event_open userfaultfd io_uring_setup"
).split()
_NUMBERS = {
    "x86_64": (29, 68, 64, 319, 447, 101, 310, 311, 312, 272, 308, 165, 166, 155, 428, 429, 430, 442,
               304, 248, 249, 250, 321, 298, 323, 425),
    "aarch64": (194, 186, 190, 279, 447, 117, 270, 271, 272, 97, 268, 40, 39, 41, 428, 429, 430, 442,
                265, 217, 218, 219, 280, 241, 282, 425),
}  # fmt: skip
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_MMAP, _SOCKET = {"x86_64": 9, "aarch64": 222}, {"x86_64": 41, "aarch64": 198}
_SOCKETPAIR, _PRCTL, _SET_NAME = {"x86_64": 53, "aarch64": 199}, {"x86_64": 157, "aarch64": 167}, 15
_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16)  # 16: netlink, which the C library asks for addresses
_CLONE3, _X32, _NEW_USER = 435, 0x40000000, 0x10000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT, _FOURTH_ARGUMENT_AT = 0, 4, 16, 40
_PR_SET_SECCOMP, _FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38


def refuse() -> None:
    """Install the filter in the calling process, for good, with no_new_privs. Raises OSError."""
    if platform.machine() in _NUMBERS:
        _install(_program(platform.machine()))


def refuse_to_a_rank() -> None:
    """Beside it, in a process that has the one socket it needs: no other socket, and no name of its own, which others could read."""
    if platform.machine() in _NUMBERS:
        _install(_program_of_a_rank(platform.machine()))


def _install(program: bytes) -> None:
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.prctl(_PR_SET_SECCOMP, _FILTER, header, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the system call filter was not accepted")


def _program(machine: str) -> bytes:
    """Classic BPF: (code, jump if true, jump if false, operand) for each step."""
    steps = [(_LOAD, 0, 0, _ARCHITECTURE_AT), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), _returns(_KILL)]
    steps += [(_LOAD, 0, 0, _NUMBER_AT)]
    if machine == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32), _returns(_ERRNO | errno.EPERM)]
    for number in _NUMBERS[machine]:
        steps += [(_EQUAL, 0, 1, number), _returns(_ERRNO | errno.EPERM)]
    steps += _of_family(machine) + _of_mapping(machine)
    # The C library falls back to clone, whose flags can be looked at.
    steps += [(_EQUAL, 0, 1, _CLONE3), _returns(_ERRNO | errno.ENOSYS)]
    steps += [(_EQUAL, 0, 3, _CLONE[machine]), (_LOAD, 0, 0, _FIRST_ARGUMENT_AT)]
    steps += [(_ANY_BIT, 0, 1, _NEW_USER), _returns(_ERRNO | errno.EPERM), _returns(_ALLOW)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _program_of_a_rank(machine: str) -> bytes:
    refused = _returns(_ERRNO | errno.EPERM)
    steps = [(_LOAD, 0, 0, _NUMBER_AT)]
    for number in (_SOCKET[machine], _SOCKETPAIR[machine]):
        steps += [(_EQUAL, 0, 1, number), refused]
    steps += [(_EQUAL, 0, 3, _PRCTL[machine]), (_LOAD, 0, 0, _FIRST_ARGUMENT_AT), (_EQUAL, 0, 1, _SET_NAME), refused]
    return b"".join(struct.pack("HBBI", *step) for step in [*steps, _returns(_ALLOW)])


def _of_family(machine: str) -> list[tuple[int, int, int, int]]:
    """Sockets of the families that a program on one machine needs. Ends the filter for the call that it is about."""
    allowed = [(_EQUAL, len(_FAMILIES) - place, 0, family) for place, family in enumerate(_FAMILIES)]
    body = [(_LOAD, 0, 0, _FIRST_ARGUMENT_AT), *allowed, _returns(_ERRNO | errno.EAFNOSUPPORT), _returns(_ALLOW)]
    return [(_EQUAL, 0, len(body), _SOCKET[machine]), *body]


def _of_mapping(machine: str) -> list[tuple[int, int, int, int]]:
    """No mapping that is shared and has no file. Ends the filter for the call that it is about."""
    body = [(_LOAD, 0, 0, _FOURTH_ARGUMENT_AT), (_ANY_BIT, 0, 2, _MAP_ANONYMOUS), (_ANY_BIT, 0, 1, _MAP_SHARED)]
    body += [_returns(_ERRNO | errno.EPERM), _returns(_ALLOW)]
    return [(_EQUAL, 0, len(body), _MMAP[machine]), *body]


def _returns(what: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, what)


assert all(len(numbers) == len(_NAMES) for numbers in _NUMBERS.values())
