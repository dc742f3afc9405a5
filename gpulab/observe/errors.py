"""InstrumentError: an instrument could not see what it was to record."""


class InstrumentError(RuntimeError):
    """The instrument did not see what certainly happened."""
