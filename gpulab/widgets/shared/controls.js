/* What a reader moves, each as a node and a function that shows a value; and the facts that follow from it. */
import { h, uid } from "./dom.js";

/* Over a list of values, in order; the list may have changed when a value is shown. */
export function slider({ text, values, words = String, put }) {
  const shown = h("output", { class: "mono" });
  const moved = () => put(values[Number(input.value)]);
  const input = h("input", { type: "range", min: 0, max: values.length - 1, step: 1, "aria-label": text, oninput: moved });
  function draw(value) {
    input.max = values.length - 1;
    input.value = values.indexOf(value);
    input.setAttribute("aria-valuetext", words(value));
    shown.textContent = words(value);
  }
  return { node: h("label", { class: "slider" }, h("span", {}, text), input, shown), draw };
}

/* `options`: pairs of a value, which is a text, and what it is called. */
export function choice({ text, options, put }) {
  const id = uid("choice");
  const select = h("select", { id, onchange: () => put(select.value) }, ...options.map(([value, called]) => h("option", { value }, called)));
  const draw = (value) => { select.value = value; };
  return { node: h("div", { class: "choice" }, h("label", { for: id }, text), select), draw };
}

/* Of cards by their keys, for a choice. */
export const cardOptions = (cards) => Object.entries(cards).map(([key, { name }]) => [key, name.replace("NVIDIA ", "")]);

/* Pairs of a name and what is to be said of it, for a dl. */
export const factRows = (rows) => rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);

export const powersOfTwo = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => 2 ** (from + i));
