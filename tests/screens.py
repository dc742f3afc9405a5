"""How many pixels of a page of HTML lie beyond a screen of a given width."""


def px_beyond(browser, html: str, width: int) -> int:
    """How many pixels of a page with all its details open lie beyond a screen of ``width``."""
    context = browser.new_context(viewport={"width": width, "height": 844})
    shown = context.new_page()
    shown.set_content(html)
    shown.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    beyond = shown.evaluate("document.documentElement.scrollWidth - innerWidth")
    context.close()
    return beyond
