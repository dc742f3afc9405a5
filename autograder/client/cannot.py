"""Why a marking service could not be asked, as a learner reads it."""


class CannotAsk(Exception):
    """Nothing was marked; says why and what to do."""


class UnknownToken(CannotAsk):
    """The service does not know whose it is."""
