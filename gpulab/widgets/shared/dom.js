/* The few DOM helpers that the widgets share. */

export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  // JupyterLab takes arrow keys for its own shortcuts unless the focused element refuses.
  if (["input", "button", "select"].includes(tag) || "tabindex" in props) node.setAttribute("data-lm-suppress-shortcuts", "true");
  node.append(...children);
  return node;
}

/* Text with `code` between backticks, as nodes. */
export function prose(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

export function widgetRoot(kind, label, ...children) {
  return h("div", { class: `gpulab ${kind}`, role: "group", "aria-label": label }, ...children);
}

let made = 0;
export const uid = (prefix) => `${prefix}-${++made}-${Math.random().toString(36).slice(2, 8)}`;
