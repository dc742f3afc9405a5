"""By what the service knows a learner: a token that is made of the student's id and a secret of the course.

Nothing is kept of a token: whoever has the secret can write it again, and a new secret makes all of them void.
"""

import hashlib
import hmac
import os
import secrets
from base64 import b32encode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from pathlib import Path

from autograder.client.private import write_for_oneself

SECRET = "secret"
"""The file's name."""


def secret_of(folder: Path) -> bytes:
    """That of the service whose records lie in ``folder``; made the first time, for its owner's eyes alone."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
    path = folder / SECRET
    if not path.exists():
        draft = folder / f".secret.{os.getpid()}"
        write_for_oneself(draft, secrets.token_hex(32))
        os.replace(draft, path)
    return path.read_bytes()


def token_of(student: str, secret: bytes) -> str:
    return f"{urlsafe_b64encode(student.encode()).decode().rstrip('=')}.{_signature(student, secret)}"


def student_of(token: str, secret: bytes) -> str | None:
    """Whose token it is; None where it is nobody's."""
    name, _, signature = token.partition(".")
    try:
        student = urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
    except (Error, UnicodeError, ValueError):
        return None
    own = hmac.compare_digest(signature.encode(errors="replace"), _signature(student, secret).encode())
    return student if own and student else None


def _signature(student: str, secret: bytes) -> str:
    """160 bits, in letters that nobody confuses."""
    return b32encode(hmac.new(secret, student.encode(), hashlib.sha256).digest()[:20]).decode().lower()
