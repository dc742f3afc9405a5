"""What an instrument says when it was blind."""


class InstrumentError(RuntimeError):
    """The instrument did not see what certainly happened."""
