/* What a reader's browser keeps under a key. Storage is refused on some pages; then it lasts as long as the page. */

function attempt(action) {
  try { return action(); } catch { return null; }
}

export function remember(key) {
  return {
    get: () => attempt(() => localStorage.getItem(key)),
    // True where it was kept: where a browser refuses, the book's own stand-in (storage.html) forgets with the page.
    set: (value) => attempt(() => { localStorage.setItem(key, value); return localStorage instanceof Storage; }) ?? false,
    drop: () => attempt(() => localStorage.removeItem(key)),
  };
}
