"""A page that shows what a learner wrote is watched while everything on it is touched."""

WATCH = """
window.ran = undefined;
addEventListener('securitypolicyviolation', found => (window.violations ??= []).push(found.blockedURI));
"""
_CLICK_ALL = """
root => {
  const own = '.scoring-buttons, .tabbable, .panel-heading, nav, header';
  for (const element of document.querySelector(root).querySelectorAll('*')) {
    if (element.closest(own)) continue;
    for (const kind of ['pointerover', 'mouseover', 'pointerdown', 'mousedown', 'focusin', 'mouseup', 'click', 'wheel', 'keydown'])
      element.dispatchEvent(new MouseEvent(kind, {bubbles: true, cancelable: true}));
  }
}
"""


def touched(page, root: str) -> None:
    """Every element below ``root`` is clicked, pointed at and focused, and the screen is clicked in a grid."""
    at = page.url
    page.wait_for_timeout(300)
    page.evaluate(_CLICK_ALL, root)
    for y in range(120, 880, 80):
        page.mouse.click(20, y)
    page.wait_for_timeout(300)
    assert page.url.partition("#")[0] == at.partition("#")[0], "a click led away"
    assert page.evaluate("window.ran") is None and not page.dialogs, f"something ran: {page.dialogs[:3]}"
    assert not page.far, f"something was fetched: {page.far[:3]}"
    assert not page.popups, f"a click opened {page.popups[0].url}"


def links(page, root: str) -> list[str]:
    return page.eval_on_selector_all(f"{root} a[href]", "links => links.map(link => link.getAttribute('href'))")
