/* Sliders with steppers for sizes, strides, offset and storage. */
import { h, uid } from "../shared/dom.js";

export const MAX_SIZE = 8, MAX_STRIDE = 32, MAX_CELLS = 64, MAX_DIMS = 4;

function stepper(text, spoken, min, max, change) {
  const id = uid("slider");
  const input = h("input", { type: "range", id, min, max, step: 1, "aria-label": spoken });
  const shown = h("output", { for: id, class: "mono" });
  const step = (by, sign, verb) => h("button", {
    type: "button", class: "step", "aria-label": `${verb} ${spoken}`,
    onclick: () => change(Math.max(min, Math.min(max, Number(input.value) + by))),
  }, sign);
  input.addEventListener("input", () => change(Number(input.value)));
  const node = h("div", { class: "stepper" }, h("span", { class: "name" }, text),
    step(-1, "−", "decrease"), input, step(1, "+", "increase"), shown);
  return { node, set(value) { input.value = value; shown.textContent = value; } };
}

function dimension(d, change) {
  const replace = (key) => (value) => change((state) => ({ [key]: state[key].with(d, value) }));
  const size = stepper("size", `size of dimension ${d}`, 0, MAX_SIZE, replace("size"));
  const stride = stepper("stride", `stride of dimension ${d}`, 0, MAX_STRIDE, replace("stride"));
  const node = h("div", { class: "dimension", role: "group", "aria-label": `dimension ${d}` },
    h("span", { class: "title" }, `dim ${d}`), size.node, stride.node);
  return { node, set(state) { size.set(state.size[d]); stride.set(state.stride[d]); } };
}

/* The stride of a contiguous outer dimension, as far as the slider goes. */
const outer = (size, stride) => Math.min(MAX_STRIDE, (size[0] ?? 1) * (stride[0] ?? 1));
const addDimension = ({ size, stride }) => ({ size: [1, ...size], stride: [outer(size, stride), ...stride] });
const dropDimension = ({ size, stride }) => ({ size: size.slice(1), stride: stride.slice(1) });

export function controls(change) {
  let shown = [];
  const list = h("div", { class: "dimensions" });
  const offset = stepper("offset", "storage offset", 0, MAX_CELLS - 1, (value) => change(() => ({ offset: value })));
  const cells = stepper("storage", "storage size", 1, MAX_CELLS, (value) => change(() => ({ cells: value })));
  const add = h("button", { type: "button", onclick: () => change(addDimension) }, "Add a dimension");
  const drop = h("button", { type: "button", onclick: () => change(dropDimension) }, "Drop dim 0");
  const node = h("div", { class: "controls" }, list,
    h("div", { class: "dimension" }, h("span", { class: "title" }, "base"), offset.node, cells.node),
    h("div", { class: "bar" }, add, drop));
  function draw(state) {
    if (shown.length !== state.size.length) {
      shown = state.size.map((_, d) => dimension(d, change));
      list.replaceChildren(...shown.map((s) => s.node));
    }
    shown.forEach((s) => s.set(state));
    offset.set(state.offset);
    cells.set(state.cells);
    add.disabled = state.size.length >= MAX_DIMS;
    drop.disabled = state.size.length === 0;
  }
  return { node, draw };
}
