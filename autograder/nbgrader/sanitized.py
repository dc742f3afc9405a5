"""HTML made of what learners wrote, through nh3 and its list of what may stay."""

import re
from collections.abc import Collection

import nh3
from pygments.token import STANDARD_TYPES

from autograder.core.printable import visible
from autograder.nbgrader.links import leads_outside

PICTURE = re.compile(r"data:image/(?:png|jpeg|gif);base64,[A-Za-z0-9+/=]*")
_TAGS = set(
    "a abbr b blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i img li ol p pre s span "
    "strong sub sup table tbody td th thead tr ul".split()
)
_ATTRIBUTES = {"a": {"href"}, "img": {"alt", "src"}}
_CLASSES = {"div": {"highlight"}, "span": set(filter(None, STANDARD_TYPES.values()))}
"""Pygments' own: a page acts on none of them."""


def sanitized(page: str, own_hosts: Collection[str] = ()) -> str:
    """The fragment with harmless elements only; the text of others stays.

    A link that leads outside opens apart, any other loses its target; a picture stays where it lies in the page itself.
    ``own_hosts``: hosts to which no link leads, see :func:`leads_outside`.
    """

    # nh3 keeps an attribute whose filter raises: this one cannot.
    def kept(tag: str, name: str, value: str) -> str | None:
        if name == "src":
            return value if PICTURE.fullmatch(value) else None
        if name == "href":
            return value if leads_outside(value, own_hosts) else None
        return value

    return visible(
        nh3.clean(
            page,
            tags=_TAGS,
            clean_content_tags=set(),
            attributes=_ATTRIBUTES,
            allowed_classes=_CLASSES,
            attribute_filter=kept,
            url_schemes={"http", "https", "data"},
            link_rel="noopener noreferrer nofollow",
            set_tag_attribute_values={"a": {"target": "_blank"}},
        )
    )
