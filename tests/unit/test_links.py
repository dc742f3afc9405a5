"""Learners' links lead to named hosts of the public internet, and say where."""

import pytest

from autograder.nbgrader.inert import InertExporter
from autograder.nbgrader.links import leads_outside
from autograder.nbgrader.sanitized import sanitized

OUTSIDE = (
    "https://pytorch.org/docs",
    "http://example.org",
    "HTTPS://Example.ORG:8443/a?b=c#d",
    "https://xn--bcher-kva.example.xn--p1ai/",
    "https://a-b.co.uk/x_(y)",
)


@pytest.mark.parametrize("address", OUTSIDE)
def test_a_public_host_stays_a_link_that_opens_apart(address):
    assert leads_outside(address)
    kept = sanitized(f'<a href="{address}" onclick=x class=full-credit>x</a>')
    assert 'target="_blank"' in kept and "noopener" in kept and "onclick" not in kept and "class" not in kept


def test_the_courses_own_hosts_are_not_outside():
    assert not leads_outside("https://Hub.Example.edu/user/prof/formgrader", ["hub.example.edu"])


def test_pygments_classes_alone_are_kept():
    kept = sanitized('<div class="highlight modal-backdrop"><span class="k full-credit">def</span></div><p class="k">x')
    assert kept == '<div class="highlight"><span class="k">def</span></div><p>x</p>'


def test_a_picture_that_lies_in_the_page_is_kept_and_no_other():
    own = "data:image/png;base64,AAAA"
    assert f'src="{own}"' in sanitized(f'<img src="{own}" alt="x">')
    for other in ("https://example.org/x.png", "data:image/svg+xml;base64,AAAA", "/x.png", "x.png"):
        assert "src" not in sanitized(f'<img src="{other}">')


def test_what_leads_nowhere_outside_is_text_and_its_address_once():
    exporter = InertExporter()
    exporter.begin_page()
    show = lambda source: exporter.markdown_of({"source": source}).strip()
    assert show("[x](http://localhost:8000/x)") == "<p>x (<code>http://localhost:8000/x</code>)</p>"
    assert show("<http://localhost:8000/x>") == "<p><code>http://localhost:8000/x</code></p>"
