/* The picture: the tensor's elements, the storage's cells, and which element lives where. */
import { address, cellsNeeded, indices, numel, tuple } from "./layout.js";
import { h } from "../shared/dom.js";

export const MAX_ELEMENTS = 64;

const label = (index) => (index.length ? `x[${index.join(", ")}]` : "x");

function formula(index, { stride, offset, cells }) {
  const at = address(index, stride, offset);
  const terms = [offset, ...index.map((i, d) => `${i}·${stride[d]}`)].join(" + ");
  const where = at < cells ? `storage[${at}]` : `cell ${at}, outside the storage`;
  return [`${label(index)}: ${terms} = ${at}`, ` → ${where}`];
}

/* Elements nest as blocks: the last two dimensions are a block's rows and columns. */
function nest(nodes, size) {
  const columns = size.at(-1) ?? 1;
  const rows = size.at(-2) ?? 1;
  const block = (from) => h("div", { class: "block", style: `--columns: ${columns}` }, ...nodes.slice(from, from + rows * columns));
  const blocks = [];
  for (let from = 0; from < nodes.length; from += rows * columns) blocks.push(block(from));
  const across = size.length > 3 ? size.at(-3) : blocks.length;
  const bands = [];
  for (let from = 0; from < blocks.length; from += across) bands.push(h("div", { class: "band" }, ...blocks.slice(from, from + across)));
  return bands;
}

function tags(at, { size, stride, offset }) {
  const found = at === offset ? [h("span", { class: "tag", "data-handle": "offset" }, "offset")] : [];
  stride.forEach((s, d) => {
    if (size[d] > 1 && at === offset + s) found.push(h("span", { class: "tag", "data-handle": String(d) }, `s${d}`));
  });
  return found;
}

function storageCell(at, hits, state) {
  const kind = at >= state.cells ? "ghost" : hits ? "hit" : "";
  const many = hits > 1 ? [h("span", { class: "many" }, `×${hits}`)] : [];
  const cell = h("span", { class: `cell ${kind}` }, String(at), ...many);
  return h("span", { class: "slot", "data-at": String(at) }, cell, h("span", { class: "tags" }, ...tags(at, state)));
}

function storageText(counts, { cells }) {
  const outside = [...counts.keys()].filter((at) => at >= cells).length;
  const used = counts.size - outside;
  return `Storage of ${cells} cells; the view reaches ${used} of them` + (outside ? ` and ${outside} outside it` : "");
}

export function picture({ drag, resize }) {
  let state, nodes = [], chosen = 0;
  const elements = h("div", { class: "elements", role: "group", "aria-label": "Elements of x. Arrow keys move between them." });
  const corner = h("span", { class: "corner", "aria-hidden": "true", title: "Drag to change the last two sizes" });
  const line = h("p", { class: "formula mono" });
  const storage = h("div", { class: "storage", role: "img" });
  const node = h("div", { class: "picture" },
    h("div", {}, h("p", { class: "heading" }, "Elements of ", h("code", {}, "x"), ", each with its storage index"),
      h("div", { class: "frame" }, elements, corner)),
    h("div", {}, h("p", { class: "heading" }, "Storage"), storage), line);

  function choose(i, focus) {
    if (!nodes.length) return;
    chosen = Math.max(0, Math.min(i, nodes.length - 1));
    const index = indices(state.size)[chosen];
    const at = address(index, state.stride, state.offset);
    nodes.forEach((n, k) => {
      n.tabIndex = k === chosen ? 0 : -1;
      n.classList.toggle("chosen", k === chosen);
      n.classList.toggle("twin", k !== chosen && n.dataset.at === String(at));
    });
    for (const slot of storage.children) slot.classList.toggle("chosen", slot.dataset.at === String(at));
    line.replaceChildren(...formula(index, state).map((part) => h("span", {}, part)));
    if (focus) nodes[chosen].focus();
  }

  function elementButton(index, i) {
    const at = address(index, state.stride, state.offset);
    const outside = at >= state.cells;
    const name = `${label(index)}, storage index ${at}${outside ? ", outside the storage" : ""}`;
    return h("button", {
      type: "button", class: `cell ${outside ? "ghost" : "hit"}`, "aria-label": name, "data-at": String(at),
      onpointerenter: () => choose(i), onfocus: () => choose(i), onclick: () => choose(i),
    }, String(at));
  }

  elements.addEventListener("keydown", (event) => {
    const columns = state.size.at(-1) ?? 1;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -chosen, End: nodes.length }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    choose(chosen + step, true);
  });

  function draw(next) {
    state = next;
    const all = indices(state.size);
    const counts = new Map();
    for (const index of all) {
      const at = address(index, state.stride, state.offset);
      counts.set(at, (counts.get(at) ?? 0) + 1);
    }
    nodes = all.map(elementButton);
    elements.replaceChildren(...(nodes.length ? nest(nodes, state.size) : [h("p", { class: "note" }, `No elements: the shape is ${tuple(state.size)}.`)]));
    const shown = Math.min(Math.max(state.cells, cellsNeeded(state.size, state.stride, state.offset)), state.cells + 24);
    storage.replaceChildren(...Array.from({ length: shown }, (_, at) => storageCell(at, counts.get(at) ?? 0, state)));
    storage.setAttribute("aria-label", storageText(counts, state));
    corner.hidden = numel(state.size) === 0 || state.size.length === 0 || !resize;
    line.replaceChildren();
    choose(chosen);
  }

  if (drag) dragHandles(storage, drag);
  if (resize) dragCorner(corner, elements, () => state.size, resize);
  return { node, draw, choose: (index) => choose(indices(state.size).findIndex((i) => String(i) === String(index))) };
}

/* Drag the tag of the offset or of a stride to another cell. */
function dragHandles(storage, drag) {
  let handle = null;
  storage.addEventListener("pointerdown", (event) => {
    const tag = event.target.closest(".tag");
    if (!tag) return;
    event.preventDefault();
    handle = tag.dataset.handle;
    storage.setPointerCapture(event.pointerId);
  });
  storage.addEventListener("pointermove", (event) => {
    if (handle === null) return;
    const slot = storage.getRootNode().elementFromPoint(event.clientX, event.clientY)?.closest(".slot");
    if (slot && storage.contains(slot)) drag(handle, Number(slot.dataset.at));
  });
  const drop = () => { handle = null; };
  storage.addEventListener("pointerup", drop);
  storage.addEventListener("pointercancel", drop);
}

/* Drag the corner of the first block to change the last two sizes. */
function dragCorner(corner, elements, sizeNow, resize) {
  let from = null;
  corner.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    const { width, height } = elements.querySelector(".cell").getBoundingClientRect();
    from = { x: event.clientX, y: event.clientY, width: width + 4, height: height + 4, size: sizeNow() };
    corner.setPointerCapture(event.pointerId);
  });
  corner.addEventListener("pointermove", (event) => {
    if (!from) return;
    const size = [...from.size], last = size.length - 1;
    size[last] += Math.round((event.clientX - from.x) / from.width);
    if (last > 0) size[last - 1] += Math.round((event.clientY - from.y) / from.height);
    resize(size);
  });
  const drop = () => { from = null; };
  corner.addEventListener("pointerup", drop);
  corner.addEventListener("pointercancel", drop);
}
