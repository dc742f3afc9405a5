/* Stride, offset and item size in the reader's hand: which 32-byte sectors a warp moves. */
import { factRows } from "../shared/controls.js";
import { h, uid } from "../shared/dom.js";
import { exploreOrQuiz } from "../shared/modes.js";
import { generator } from "../shared/random.js";
import { many } from "../shared/words.js";
import { LANES, SECTOR_BYTES, TYPES, itemsOf, question, reason, request } from "./model.js";

const SLIDERS = [["stride", "stride", 0, 40], ["offset", "offset", 0, 31]];
const TRAITS = ["stride", "offset", "item_bytes"];
const PRESETS = [
  ["neighbours", { stride: 1, offset: 0 }], ["misaligned", { stride: 1, offset: 3 }], ["every second", { stride: 2, offset: 0 }],
  ["x, y, z records", { stride: 3, offset: 0 }], ["a column of 32", { stride: 32, offset: 0 }], ["broadcast", { stride: 0, offset: 5 }],
];

function drawSectors(shape) {
  const found = request(shape), { item_bytes } = shape;
  const boxes = found.sectors.map((sector) => {
    const items = itemsOf(sector, found, item_bytes).map((lanes) => h("span", { class: `item${lanes.length ? " used" : ""}` },
      item_bytes >= 4 && lanes.length ? String(lanes[0]) + (lanes.length > 1 ? "+" : "") : ""));
    return h("div", { class: "sector" }, h("div", { class: "items", style: `--items: ${SECTOR_BYTES / item_bytes}` }, ...items),
      h("div", { class: "address mono" }, `${SECTOR_BYTES * sector}`));
  });
  const words = `${many(found.sectors.length, "sector")}, ${found.used} of ${found.moved} bytes used`;
  return h("div", {}, h("div", { class: "sectors", role: "img", "aria-label": words }, ...boxes),
    h("p", { class: "note" }, "A box is a sector of 32 bytes; below it, where it begins. ",
      item_bytes >= 4 ? "Numbers in it are lanes, + says that there are more." : "What is shaded is asked for."));
}

function facts(found) {
  const rows = [["sectors that move", String(found.sectors.length)], ["bytes that move", String(found.moved)],
    ["of them used", `${found.used}, ${Math.round((100 * found.used) / found.moved)} %`]];
  return h("dl", {}, ...factRows(rows));
}

const code = ({ stride, offset }) => `x[${offset ? `${offset} + ` : ""}${stride === 1 ? "" : `${stride} * `}lane]`;
const typeName = (item_bytes) => TYPES.find(([size]) => size === item_bytes)[1];

function explorer(model) {
  const shown = h("div"), why = h("p", { class: "verdict", role: "status" }), call = h("p", { class: "call mono" });
  const put = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  const sliders = SLIDERS.map(([name, text, min, max]) => {
    const value = h("output", { class: "mono" });
    const input = h("input", { type: "range", min, max, step: 1, "aria-label": `${text} in items`,
      oninput: () => put({ [name]: Number(input.value) }) });
    return { name, input, value, node: h("label", { class: "slider" }, h("span", {}, text), input, value) };
  });
  const id = uid("type");
  const type = h("select", { id, onchange: () => put({ item_bytes: Number(type.value) }) },
    ...TYPES.map(([size, name]) => h("option", { value: size }, name)));
  const presets = h("div", { class: "bar", role: "group", "aria-label": "Requests to start from" },
    ...PRESETS.map(([name, preset]) => h("button", { type: "button", onclick: () => put(preset) }, name)));
  function draw() {
    const shape = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)])), found = request(shape);
    for (const s of sliders) { s.input.value = shape[s.name]; s.value.textContent = String(shape[s.name]); }
    type.value = String(shape.item_bytes);
    call.textContent = `lane i of ${LANES} reads ${code(shape).replace("lane", "i")}`;
    shown.replaceChildren(drawSectors(shape), facts(found));
    why.textContent = reason(shape, found);
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  draw();
  const node = h("div", {}, presets, h("div", { class: "settings" }, ...sliders.map((s) => s.node),
    h("label", { class: "slider", for: id }, h("span", {}, "item"), type)), call, shown, why);
  return { node, stop: () => { for (const name of TRAITS) model.off(`change:${name}`, draw); } };
}

function quiz(seed) {
  const random = generator(seed || crypto.getRandomValues(new Uint32Array(1))[0]);
  const body = h("div"), shown = h("div"), score = h("p", { class: "note" }), feedback = h("p", { role: "status" });
  const next = h("button", { type: "button", onclick: () => { ask(); body.querySelector("input").focus(); } }, "Next question");
  let right = 0, asked = 0;
  function mark(shape, given) {
    const found = request(shape), ok = given === found.sectors.length;
    asked += 1;
    right += ok ? 1 : 0;
    feedback.replaceChildren(h("span", { class: ok ? "good" : "bad" }, ok ? "Right." : `Wrong: ${many(found.sectors.length, "sector")}.`), ` ${reason(shape, found)}`);
    score.textContent = `${right} of ${asked} right.`;
    shown.replaceChildren(drawSectors(shape));
    next.hidden = false;
    next.focus({ preventScroll: true });
  }
  function ask() {
    const shape = question(random), id = uid("sectors");
    const input = h("input", { type: "number", id, min: 0, max: 99, step: 1, inputmode: "numeric", required: true });
    const set = h("fieldset", { class: "bar" }, h("legend", {}, "How many 32-byte sectors move?"),
      h("label", { for: id }, "Sectors"), input, h("button", { type: "submit" }, "Answer"));
    const form = h("form", { onsubmit: (event) => {
      event.preventDefault();
      if (set.disabled || input.value === "") return;
      set.disabled = true;
      mark(shape, Number(input.value));
    } }, set);
    body.replaceChildren(h("p", { class: "call mono" }, `item: ${typeName(shape.item_bytes)}; each lane of a warp reads ${code(shape)}`), form);
    feedback.replaceChildren();
    shown.replaceChildren();
    next.hidden = true;
  }
  ask();
  return h("div", {}, body, feedback, h("div", { class: "bar" }, next), shown, score);
}

function render({ model, el }) {
  return exploreOrQuiz(model, el, { kind: "coalescing", label: "Coalescing explorer", explore: explorer(model), quiz });
}

export default { render };
