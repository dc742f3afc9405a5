/* Block tables, event by event: the physical blocks with their owners, and the table of each sequence. */
import { choice, factRows } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { player } from "../shared/player.js";
import { many } from "../shared/words.js";
import { changed, frames, owners, sums } from "./model.js";

const TRAITS = ["story", "step"];
const QUESTION = "Before each step: which block will be taken, which one copied, and which ones become free?";

function stateOf(frame, block) {
  const count = frame.counts[block];
  return count > 1 ? "shared" : count ? "own" : frame.kept[block] ? "kept" : "free";
}

function said(frame, block, size) {
  const state = stateOf(frame, block), tokens = `${frame.filled[block]} of ${size} tokens`;
  return state === "free" ? "free" : state === "kept" ? `findable, no owner, ${tokens}` : `${many(frame.counts[block], "owner")}, ${tokens}`;
}

/* One physical block: number, count, tokens as squares, owners. */
function blockBox(frame, block, size, isNew) {
  const state = stateOf(frame, block), squares = Array.from({ length: size }, (_, i) => h("span", { class: i < frame.filled[block] ? "token on" : "token" }));
  const word = { free: "free", kept: "findable" }[state] ?? owners(frame, block).join(" ");
  return h("li", { class: `${state}${isNew ? " changed" : ""}` },
    h("span", { class: "top" }, h("span", { class: "mono" }, `block ${block}`), h("span", { class: "count" }, frame.counts[block] ? `× ${frame.counts[block]}` : "")),
    h("span", { class: "tokens", role: "img", "aria-label": said(frame, block, size) }, ...squares), h("span", { class: "owners" }, word));
}

function tables(story, now, before) {
  const row = (sequence) => {
    const table = now.tables[sequence], was = before?.tables[sequence], length = now.lengths[sequence];
    const cells = table ? [String(length), table.join(" "), String(table.length * story.size - length)] : ["–", "–", "–"];
    const moved = String(table) !== String(was) || length !== before?.lengths[sequence];
    return h("tr", { class: moved && before ? "changed" : "" }, h("th", { scope: "row" }, sequence), ...cells.map((cell) => h("td", {}, cell)));
  };
  const heads = ["sequence", "tokens", "its blocks, in order", "empty places"].map((text) => h("th", { scope: "col" }, text));
  return h("table", {}, h("caption", {}, "Block tables"), h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...story.sequences.map(row)));
}

function factsOf(story, now) {
  const { held, findable, free, places, empty, alone } = sums(now, story);
  return [
    ["blocks", `${held} held${story.keeps ? `, ${findable} findable` : ""}, ${free} free`],
    ["if nobody shared", `${alone} held`], ["empty places of those held", `${empty} of ${places}`],
    ["tokens computed so far", String(now.computed)], ["shared instead", String(now.shared)], ["copied", String(now.copied)],
  ];
}

const LEGEND = [["own", "one owner"], ["shared", "several owners"], ["kept", "findable, no owner"], ["free", "free"], ["changed", "changed in this step"]];

function render({ model, el }) {
  const known = model.get("known");
  const set = (name, value) => { model.set(name, value); model.save_changes(); draw(); };
  const story = () => known[model.get("story")];
  const last = () => story().events.length - 1, at = () => Math.max(0, Math.min(last(), model.get("step") - 1));
  const heading = (step) => `Step ${step + 1} of ${last() + 1}`;
  const controls = player({ at, last, go: (step) => set("step", step + 1), words: heading, toStart: true, tickMs: 2500 });
  const stories = choice({ text: "story", options: Object.entries(known).map(([key, { name }]) => [key, name]), put: (key) => {
    controls.stop();
    model.set("step", 1);
    set("story", key);
  } });
  const status = h("p", { class: "status", role: "status" }), facts = h("dl"), logical = h("div");
  const physical = h("ul", { class: "physical", "aria-label": "Physical blocks" });
  const legend = h("p", { class: "legend" });
  function draw() {
    const one = story(), all = frames(one), now = all[at()], before = all[at() - 1];
    const fresh = changed(now, before ?? now);
    stories.draw(model.get("story"));
    controls.draw();
    status.textContent = `${heading(at())}. ${one.events[at()].say}`;
    legend.replaceChildren(...LEGEND.filter(([kind]) => kind !== "kept" || one.keeps).map(([kind, text]) =>
      h("span", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text)));
    physical.replaceChildren(...now.counts.map((_, block) => blockBox(now, block, one.size, fresh[block])));
    logical.replaceChildren(tables(one, now, before));
    facts.replaceChildren(...factRows(factsOf(one, now)));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("blocktable", "Block tables of a paged KV cache", h("p", { class: "question" }, QUESTION), stories.node, controls.node, status,
    legend, physical, h("div", { class: "below" }, logical, facts),
    h("p", { class: "note" }, "A script, and no engine: the story says which block is taken, and the widget keeps the books. Four tokens a block, so that "
      + "the picture stays small. The number after × is the reference count: how many tables name the block.")));
  draw();
  return () => {
    controls.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

/* Readers without a script cannot step: all steps of both stories. */
function withoutScript({ model }) {
  const told = (story) => {
    const rows = frames(story).map((frame, i) => {
      const written = Object.entries(frame.tables).map(([sequence, table]) => `${sequence}: ${table.join(" ")}`).join("; ") || "–";
      return h("tr", {}, h("td", {}, String(i + 1)), h("td", {}, story.events[i].say), h("td", {}, written), h("td", {}, String(sums(frame, story).free)));
    });
    const heads = ["step", "what happens", "tables", "free"].map((text) => h("th", { scope: "col" }, text));
    return h("table", { class: "told" }, h("caption", {}, story.name), h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows));
  };
  return [h("div", { class: "gpulab blocktable" }, ...Object.values(model.get("known")).map(told))];
}

export default { render, withoutScript };
