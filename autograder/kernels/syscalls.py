"""System calls that no exercise needs, refused to a kernel and all that it starts.

They reach memory that belongs to no process (anonymous files, System V segments), look into
other processes, make namespaces or mounts, or are large surfaces of the operating system's
kernel. A seccomp filter; on processors other than x86-64 and ARM64 there is none.
"""

import ctypes
import errno
import platform
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
_CLONE3, _X32, _NEW_USER = 435, 0x40000000, 0x10000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_PR_SET_SECCOMP, _FILTER = 22, 2


def refuse() -> None:
    """Install the filter in the calling process, for good. Needs no_new_privs. Raises OSError."""
    machine = platform.machine()
    if machine not in _NUMBERS:
        return
    program = _program(machine)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, header, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the system call filter was not accepted")


def _program(machine: str) -> bytes:
    """Classic BPF: (code, jump if true, jump if false, operand) for each step."""
    steps = [(_LOAD, 0, 0, _ARCHITECTURE_AT), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), _returns(_KILL)]
    steps += [(_LOAD, 0, 0, _NUMBER_AT)]
    if machine == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32), _returns(_ERRNO | errno.EPERM)]
    for number in _NUMBERS[machine]:
        steps += [(_EQUAL, 0, 1, number), _returns(_ERRNO | errno.EPERM)]
    # The C library falls back to clone, whose flags can be looked at.
    steps += [(_EQUAL, 0, 1, _CLONE3), _returns(_ERRNO | errno.ENOSYS)]
    steps += [(_EQUAL, 0, 3, _CLONE[machine]), (_LOAD, 0, 0, _FIRST_ARGUMENT_AT)]
    steps += [(_ANY_BIT, 0, 1, _NEW_USER), _returns(_ERRNO | errno.EPERM), _returns(_ALLOW)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _returns(what: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, what)


assert all(len(numbers) == len(_NAMES) for numbers in _NUMBERS.values())
