/* A tensor as shape, strides and offset over one storage, in the reader's hand. */
import { numel } from "./layout.js";
import { h, prose } from "../shared/dom.js";
import { exploreOrQuiz } from "../shared/modes.js";
import { PRESETS } from "./presets.js";
import { MAX_ELEMENTS, picture } from "./picture.js";
import { MAX_SIZE, MAX_STRIDE, controls } from "./controls.js";
import { facts } from "./facts.js";
import { stridesQuiz } from "./quiz.js";

const TRAITS = { size: "shape", stride: "stride", offset: "offset", cells: "storage" };
const clamp = (low, value, high) => Math.max(low, Math.min(high, value));

function read(model) {
  return Object.fromEntries(Object.entries(TRAITS).map(([key, trait]) => [key, model.get(trait)]));
}

function explorer(model) {
  let state = read(model), writing = false;
  const note = h("p", { class: "note", role: "status" });
  const shown = picture({ drag, resize: (size) => change(() => ({ size: size.map((n) => clamp(1, n, MAX_SIZE)) })) });
  const panel = controls(change);
  const truth = facts();
  const presets = h("div", { class: "bar", role: "group", "aria-label": "Views to start from" },
    ...PRESETS.map(({ name, note: text, ...preset }) =>
      h("button", { type: "button", class: "mono", onclick: () => { change(() => preset); note.replaceChildren(...prose(text)); } }, name)));

  function draw() {
    for (const part of [truth, shown, panel]) part.draw(state);
  }
  function change(edit) {
    const next = { ...state, ...edit(state) };
    const full = numel(next.size) > MAX_ELEMENTS;
    note.textContent = full ? `The picture holds ${MAX_ELEMENTS} elements: make another dimension smaller first.` : "";
    if (!full) {
      state = next;
      writing = true;
      for (const [key, trait] of Object.entries(TRAITS)) model.set(trait, state[key]);
      model.save_changes();
      writing = false;
    }
    draw();
  }
  function drag(handle, at) {
    if (handle === "offset") change(() => ({ offset: at }));
    else change(({ stride, offset }) => ({ stride: stride.with(Number(handle), clamp(0, at - offset, MAX_STRIDE)) }));
  }
  function follow() {
    const next = read(model);
    if (writing || next.size.length !== next.stride.length) return;
    state = next;
    draw();
  }
  for (const trait of Object.values(TRAITS)) model.on(`change:${trait}`, follow);
  draw();
  const node = h("div", { class: "exploremode" }, presets, truth.call, note, shown.node, truth.node, panel.node);
  return { node, stop: () => { for (const trait of Object.values(TRAITS)) model.off(`change:${trait}`, follow); } };
}

function render({ model, el }) {
  return exploreOrQuiz(model, el, { kind: "strides", label: "Stride explorer", explore: explorer(model), quiz: stridesQuiz });
}

export default { render };
