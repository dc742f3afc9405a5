"""Which links of a learner's stay links: those that lead to a named host of the public internet."""

import re
from collections.abc import Collection

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_OUTSIDE = re.compile(rf"https?://((?:{_LABEL}\.)+(?:[a-z]{{2,63}}|xn--{_LABEL}))(?::\d+)?(?:[/?#][!-\[\]-~]*)?", re.I)
_NOT_PUBLIC = frozenset(
    "arpa corp home internal intranet invalid lan local localdomain localhost mail onion private test".split()
)
"""Top-level names that lead to the reader's own machine or network (RFC 2606, 6761, 6762, 8375, 9476)."""


def leads_outside(address: str, own_hosts: Collection[str] = ()) -> bool:
    """Whether an address is http(s), its host a name of the public DNS, and none of ``own_hosts``.

    Numbers, addresses without a scheme or a host, user names and whatever browsers repair on the way are refused.
    """
    found = _OUTSIDE.fullmatch(address)
    if found is None:
        return False
    host = found[1].lower()
    return host.rpartition(".")[2] not in _NOT_PUBLIC and host not in {own.lower() for own in own_hosts}
