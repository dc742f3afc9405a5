"""How large what crosses between the learner's process and the referee may be."""

MAX_MESSAGE_BYTES = 64 * 1024**2
MAX_BODY_BYTES = 4 * 1024**2
"""Of what is no tensor's. Decoded, a body of empty lists takes fifty times its size."""
