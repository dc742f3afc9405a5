/* What a reader's browser keeps under a key. Storage is refused on some pages; then it lasts as long as the page. */

function attempt(action) {
  try { return action(); } catch { return null; }
}

export function remember(key) {
  return {
    get: () => attempt(() => localStorage.getItem(key)),
    // True where it was kept.
    set: (value) => attempt(() => { localStorage.setItem(key, value); return true; }) ?? false,
    drop: () => attempt(() => localStorage.removeItem(key)),
  };
}
