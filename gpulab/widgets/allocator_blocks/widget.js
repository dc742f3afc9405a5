/* Segments and blocks of the caching allocator: a trace in steps, and actions of the reader's own. */
import { choice, factRows } from "../shared/controls.js";
import { h, uid, widgetRoot } from "../shared/dom.js";
import { player } from "../shared/player.js";
import { followed } from "../shared/svg.js";
import { counters, mostSegments, places, replay, sequence, withOwn } from "./model.js";
import { segmentsPicture } from "./picture.js";
import { about, exact, inBytes, sentence, UNITS } from "./words.js";

const TRAITS = ["trace", "step", "own"];
const MOST = 2 ** 40;
const KINDS = [["live", "asked for"], ["lost", "allocated beyond what was asked for"], ["free", "free inside a segment"], ["touched", "touched by the last action"]];

const both = (bytes) => (bytes < 1024 ? inBytes(bytes) : `${inBytes(bytes)} (${about(bytes)})`);
const newest = (blocks) => blocks.reduce((last, one) => (last && last.block.holds > one.block.holds ? last : one), null);
const live = (state) => places(state).filter(({ block }) => block.holds !== null);

/* A size and its unit, as a form. */
function sizeForm(put) {
  const id = uid("size");
  const number = h("input", { id, type: "number", min: 1, step: "any", required: true, inputmode: "decimal", value: 8 });
  const unit = h("select", { "aria-label": "unit" }, ...[...UNITS].reverse().map(([name, bytes]) => h("option", { value: bytes }, name)));
  unit.value = String(2 ** 20);
  const submit = (event) => {
    event.preventDefault();
    const bytes = Math.ceil(Number(number.value) * Number(unit.value));
    if (bytes >= 1 && bytes <= MOST) put(bytes);
  };
  return h("form", { class: "bar", onsubmit: submit }, h("label", { for: id }, "size"), number, unit, h("button", { type: "submit" }, "malloc"));
}

/* The live blocks, one of which is chosen, and a button that frees it. */
function freeForm({ choose, free }) {
  const id = uid("block"), select = h("select", { id, class: "which", onchange: () => choose(Number(select.value)) });
  const button = h("button", { type: "submit" }, "free");
  const submit = (event) => {
    event.preventDefault();
    if (button.getAttribute("aria-disabled") !== "true") free(Number(select.value));
  };
  const node = h("form", { class: "bar", onsubmit: submit }, h("label", { for: id }, "block"), select, button);
  function draw(blocks, actions, chosen) {
    const options = blocks.map(({ block }) => h("option", { value: block.holds }, `${actions[block.holds].name}, ${about(block.size)}`));
    select.replaceChildren(...(options.length ? options : [h("option", { value: "" }, "no live block")]));
    select.value = String(chosen ?? "");
    button.setAttribute("aria-disabled", String(!options.length));
  }
  return { node, draw };
}

function detail({ segment, block }, actions) {
  const at = block.offset ? `${exact(block.offset)} from the start` : "at the start";
  return `${actions[block.holds].name}: ${exact(block.requested)} asked for, a block of ${exact(block.size)}, ${at} of segment ${segment.number}.`;
}

function rows(now, capacity) {
  return [["requested", both(now.requested)], ["allocated", both(now.allocated)], ["reserved", both(now.reserved)],
    ["reserved and free", now.free ? `${about(now.free)} in ${now.parts} ${now.parts === 1 ? "block" : "blocks"}` : "0 B"],
    ["largest free block", both(now.largest)], ["left on the card", `${about(now.left)} of ${about(capacity)}`]];
}

function render({ model, el }) {
  const traces = model.get("traces"), given = () => traces[model.get("trace")] ?? Object.values(traces)[0];
  const actions = () => sequence(given().actions, model.get("own"));
  const at = () => Math.max(0, Math.min(actions().length, model.get("step")));
  let chosen = null;
  const put = (values) => {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
    draw();
  };
  const add = (action) => {
    controls.stop();
    chosen = null;
    put({ own: withOwn(model.get("own"), at(), action), step: at() + 1 });
  };
  const choose = (holds) => { chosen = holds; draw(); };
  const named = () => `yours ${actions().slice(0, at()).filter(({ own, kind }) => own && kind === "malloc").length + 1}`;
  const controls = player({ at, last: () => actions().length, go: (step) => put({ step }), words: (step) => `after ${step} of ${actions().length} actions`,
    name: "Action", toStart: true, tickMs: 1200 });
  const which = choice({ text: "trace", options: Object.keys(traces).map((name) => [name, name]),
    put: (trace) => { controls.stop(); chosen = null; put({ trace, own: {}, step: 0 }); } });
  const malloc = sizeForm((bytes) => add({ kind: "malloc", bytes, name: named(), own: true }));
  const freeing = freeForm({ choose, free: (of) => add({ kind: "free", of, own: true }) });
  const empty = h("button", { type: "button", onclick: () => add({ kind: "empty_cache", own: true }) }, "empty_cache()");
  const back = h("button", { type: "button", onclick: () => {
    controls.stop();
    if (model.get("own").after != null) put({ step: Math.min(at(), model.get("own").after), own: {} });
  } }, "Back to the trace");
  const purpose = h("p", { class: "about" }), told = h("p", { class: "status", role: "status" });
  const place = h("div", { class: "picture" }), shown = h("p", { class: "note detail" }), facts = h("dl");
  const view = followed(place, 760, () => draw());

  function draw() {
    const all = actions(), step = at(), { capacity, about: text } = given(), { state, event } = replay(capacity, all, step);
    const now = counters(state), blocks = live(state);
    const picked = blocks.find(({ block }) => block.holds === chosen) ?? newest(blocks), holds = picked?.block.holds ?? null;
    which.draw(model.get("trace"));
    purpose.textContent = text;
    told.textContent = sentence(all, step, event, now.left);
    told.setAttribute("class", event?.failed ? "status bad" : "status");
    place.replaceChildren(segmentsPicture(state.segments, mostSegments(capacity, all), view.width(), { actions: all, event, chosen: holds, choose }));
    shown.textContent = picked ? detail(picked, all) : "No block is live.";
    freeing.draw(blocks, all, holds);
    back.setAttribute("aria-disabled", String(model.get("own").after == null));
    facts.replaceChildren(...factRows(rows(now, capacity)));
    controls.draw();
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("blocks", "Segments and blocks of the caching allocator",
    which.node, purpose, controls.node, told, place,
    h("p", { class: "legend" }, ...KINDS.map(([kind, words]) => h("span", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), words))),
    facts,
    h("div", { class: "own", role: "group", "aria-label": "Actions of your own" }, h("p", { class: "head" }, "Actions of your own, from here on"),
      malloc, freeing.node, shown, h("div", { class: "bar" }, empty, back)),
    h("p", { class: "note" }, "One stream, PyTorch's default settings. Each bar has a scale of its own, and thin blocks are drawn wider than they are. A press on a block chooses it.")));
  draw();
  return () => { controls.stop(); view.stop(); for (const name of TRAITS) model.off(`change:${name}`, draw); };
}

export default { render };
