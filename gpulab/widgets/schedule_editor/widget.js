/* A pipeline's schedule in the reader's hand: an action is picked up and put into another slot of its row. */
import { choice } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { listed, many, percent } from "../shared/words.js";
import { homeOf, idleShare, inFlight, moved, pipelineOf, placedIn, slots, violations } from "./model.js";

const TRAITS = ["story", "table"];
const QUESTION = "The figure of the notes breaks five rules. Mend it in fourteen slots.";
const KIND = { F: "forward", B: "backward", I: "backward, input's half", W: "backward, weights' half" };
const LEGEND = [["F", "forward"], ["B", "backward, or its input's half (I)"], ["W", "its weights' half"], ["wrong", "breaks a rule"]];

function sentence({ kind, action, places, waits }) {
  if (kind === "missing") return `${action} never runs.`;
  if (kind === "early") return `${action} runs in slot ${places[0].slot}, not after ${listed(waits)}.`;
  if (kind === "twice") return `${action} is done ${places.length} times.`;
  if (kind === "split") return `Stage ${parseInt(action, 10)} runs on more than one GPU.`;
  return `${action} belongs to no stage or microbatch of this pipeline.`;
}

/* `story`: the pipeline is as large as its table names, whatever the reader has taken out. */
function summary(table, story) {
  const pipeline = pipelineOf(story), found = violations(table, pipeline), held = inFlight(table), last = slots(table);
  return { found, held, last, idle: idleShare(table), most: held.map((row) => Math.max(0, ...row)), wrong: new Set(found.flatMap(({ places }) => places.map(({ gpu, slot }) => `${gpu} ${slot}`))), several: pipeline.stages > table.length };
}

function render({ model, el }) {
  const stories = new Map(model.get("stories")), table = () => model.get("table"), story = () => stories.get(model.get("story"));
  let picked = null, focus = [0, 0], dragged = null;
  const set = (next) => { model.set("table", next); model.save_changes(); };
  const select = choice({ text: "schedule", options: [...stories.keys()].map((name) => [name, name]), put: (name) => begin(name) });
  const again = h("button", { type: "button", onclick: () => begin(model.get("story")) }, "Begin again");
  const out = h("button", { type: "button", onclick: () => takeOut() }, "Take it out");
  const hand = h("p", { class: "hand", role: "status" }), grid = h("div", { class: "slots" }), tray = h("div", { class: "tray" });
  const verdict = h("p", { class: "verdict" }), faults = h("ul", { class: "faults" }), numbers = h("div");

  function begin(name) {
    picked = null;
    focus = [0, 0];
    model.set("story", name);
    set(stories.get(name).map((row) => [...row]));
  }

  function takeOut() {
    if (picked?.slot === undefined) return;
    const { gpu, slot } = picked;
    picked = null;
    set(placedIn(table(), gpu, slot, null));
  }

  function put(gpu, slot) {
    focus = [gpu, slot];
    const from = picked;
    if (!from) {
      if (table()[gpu][slot]) picked = { gpu, slot, text: table()[gpu][slot] };
      return draw();
    }
    if (from.gpu !== gpu || (from.slot === undefined && table()[gpu][slot])) {
      hand.textContent = from.gpu !== gpu ? `${from.text} runs on GPU ${from.gpu}: its stage's weights are there. Choose a slot of that row.` : `Slot ${slot} is taken. Choose a free one.`;
      return null;
    }
    picked = null;
    return set(from.slot === undefined ? placedIn(table(), gpu, slot, from.text) : moved(table(), gpu, from.slot, slot));
  }

  function step(event) {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Escape" && picked) { picked = null; draw(); }
    if (event.key === "Delete") takeOut();
    if (!by) return;
    event.preventDefault();
    const rows = table();
    focus = [Math.max(0, Math.min(rows.length - 1, focus[0] + by[0])), Math.max(0, Math.min(rows[0].length - 1, focus[1] + by[1]))];
    draw();
    cellAt(...focus).focus();
  }
  grid.addEventListener("keydown", step);

  const cellAt = (gpu, slot) => grid.querySelector(`button[data-at="${gpu} ${slot}"]`);
  function drop(event) {
    const under = document.elementFromPoint(event.clientX, event.clientY)?.closest?.("button[data-at]"), from = dragged;
    dragged = null;
    if (!from || !under || !grid.contains(under)) return;
    const [gpu, slot] = under.getAttribute("data-at").split(" ").map(Number);
    if (gpu === from.gpu && slot === from.slot) return;
    picked = from;
    put(gpu, slot);
  }
  const lift = (gpu, slot) => () => { dragged = table()[gpu][slot] && !picked ? { gpu, slot, text: table()[gpu][slot] } : null; };
  grid.addEventListener("pointerup", drop);

  function cell(text, gpu, slot, facts) {
    const kind = text?.replace(/[0-9]/g, ""), wrong = facts.wrong.has(`${gpu} ${slot}`), held = picked?.gpu === gpu && picked.slot === slot;
    const name = text ? `${text}: ${KIND[kind]} of microbatch ${text.split(/[A-Z]/)[1]}` : "idle";
    const shown = text && !facts.several ? text.replace(/^[0-9]+/, "") : text ?? "";
    const button = h("button", { type: "button", "data-at": `${gpu} ${slot}`, class: `${kind ?? "idle"}${wrong ? " wrong" : ""}${held ? " held" : ""}`, "aria-label": `GPU ${gpu}, slot ${slot}, ${name}${wrong ? ", breaks a rule" : ""}${held ? ", picked up" : ""}`,
      tabindex: gpu === focus[0] && slot === focus[1] ? 0 : -1, onclick: () => put(gpu, slot), onpointerdown: lift(gpu, slot) }, shown);
    return h("td", {}, button);
  }

  /* The focus stays where it is while the table is drawn anew. */
  function drawTable(facts) {
    const rows = table(), had = document.activeElement?.closest?.(".slots") === grid;
    const body = rows.map((row, gpu) => h("tr", {}, h("th", { scope: "row" }, `GPU ${gpu}`), ...row.map((text, slot) => cell(text, gpu, slot, facts))));
    const head = h("tr", {}, h("td", {}), ...rows[0].map((_, slot) => h("th", { scope: "col" }, String(slot))));
    grid.replaceChildren(h("table", {}, h("thead", {}, head), h("tbody", {}, ...body)));
    if (had) cellAt(...focus)?.focus();
  }

  function drawTray(facts) {
    const lost = facts.found.filter(({ kind }) => kind === "missing").map(({ action }) => action);
    const take = (text) => { picked = { gpu: homeOf(story(), parseInt(text, 10)), text }; draw(); };
    tray.replaceChildren("Not in the table: ", ...(lost.length ? lost.map((text) => h("button", { type: "button", "aria-pressed": String(picked?.text === text), onclick: () => take(text) }, text)) : ["nothing"]));
  }

  function drawNumbers({ last, idle, most }) {
    const one = pipelineOf(story()), row = (name, ...cells) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((text) => h("td", {}, text)));
    const rows = most.map((count, gpu) => row(`GPU ${gpu}`, String(count), `${table()[gpu].filter((text, slot) => !text && slot < last).length} of ${last}`));
    const head = h("tr", {}, ...["of", "most activations in flight", "idle slots"].map((text) => h("th", { scope: "col" }, text)));
    numbers.replaceChildren(h("table", { class: "numbers" }, h("caption", {}, `${many(one.stages, "stage")}, ${one.microbatches} microbatches: ${last} slots, bubble ${percent(idle)}`), h("thead", {}, head), h("tbody", {}, ...rows)));
  }

  function draw() {
    const facts = summary(table(), story());
    focus = [Math.min(focus[0], table().length - 1), Math.min(focus[1], table()[0].length - 1)];
    select.draw(model.get("story"));
    out.setAttribute("aria-disabled", String(picked?.slot === undefined));
    hand.textContent = picked ? `${picked.text} is picked up: choose a slot of GPU ${picked.gpu}.` : "Drag an action, or pick one up and choose its slot. Arrow keys go from slot to slot, Enter picks up and puts down.";
    drawTable(facts);
    drawTray(facts);
    verdict.className = `verdict ${facts.found.length ? "bad" : "good"}`;
    verdict.textContent = facts.found.length ? `${many(facts.found.length, "rule")} broken:` : `No rule is broken. ${facts.last} slots, ${percent(facts.idle)} of them idle.`;
    faults.replaceChildren(...facts.found.map((one) => h("li", {}, sentence(one))));
    drawNumbers(facts);
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("editor", "A pipeline's schedule", h("p", { class: "question" }, QUESTION),
    h("div", { class: "bar" }, select.node, again, out), hand,
    h("p", { class: "legend" }, ...LEGEND.map(([kind, text]) => h("span", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text))),
    grid, tray, h("div", { class: "judged", role: "group", "aria-label": "Rules that are broken", tabindex: 0 }, verdict, faults), numbers,
    h("p", { class: "note" }, "Counted, as gpulab.parallel does: every action takes one slot and nothing is sent, also where a stage is half of a GPU's share (interleaved) or an action half a backward pass (zero-bubble); only bubbles of one kind of slot compare. 2F0 is stage 2's forward pass of microbatch 0; where stage and GPU have one number, F0. "
      + "In flight: from the slot of a forward pass to that of its backward pass.")));
  draw();
  return () => { for (const name of TRAITS) model.off(`change:${name}`, draw); };
}

/* Readers without a script cannot move an action: all stories with what is wrong with them. */
function withoutScript({ model }) {
  const rows = model.get("stories").map(([name, table]) => {
    const { stages, microbatches } = pipelineOf(table), { found, last, idle, most } = summary(table, table);
    return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, `${table.length} GPUs, ${stages} stages, ${microbatches} microbatches`), h("td", {}, found.map(sentence).join(" ") || "nothing"), h("td", {}, String(last)), h("td", {}, percent(idle)), h("td", {}, most.join(" ")));
  });
  const head = ["schedule", "of", "breaks", "slots", "bubble", "most in flight, by GPU"].map((text) => h("th", { scope: "col" }, text));
  return [h("div", { class: "gpulab editor" }, h("table", { class: "numbers told" }, h("caption", {}, "Every schedule. A slot is half as long where a GPU has two stages, or a backward pass is in halves."), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)))];
}

export default { render, withoutScript };
