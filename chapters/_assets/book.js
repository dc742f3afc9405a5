/* Accessibility repairs to markup that MyST-NB, pandas and docutils write. */
document.addEventListener("DOMContentLoaded", () => {
  // A label that contradicts the visible words, which already say the same.
  for (const summary of document.querySelectorAll('summary[aria-label="Toggle hidden content"]'))
    summary.removeAttribute("aria-label");
  for (const corner of document.querySelectorAll("table.dataframe thead th:empty"))
    corner.innerHTML = '<span class="visually-hidden">row</span>';
  // A figure that scrolls is reached by keyboard, and says what it is.
  for (const figure of document.querySelectorAll("figure.gpulab-figure"))
    if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0;
  // docutils gives citations a deprecated role inside a list role that does not allow it.
  for (const part of document.querySelectorAll(".citation-list, .citation-list > .citation"))
    part.removeAttribute("role");
});

// Paper is white, whatever the screen: figures in the colours of the night are hardly seen on it.
{
  const root = document.documentElement;
  let shown = null;
  addEventListener("beforeprint", () => { shown = root.dataset.theme; root.dataset.theme = "light"; });
  addEventListener("afterprint", () => { root.dataset.theme = shown ?? root.dataset.theme; });
}
