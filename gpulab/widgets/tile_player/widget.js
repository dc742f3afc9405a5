/* A traced block of a tiled kernel, one step at a time: which elements it loads, shares and stores. */
import { h, prose, widgetRoot } from "../shared/dom.js";
import { player } from "../shared/player.js";
import { countsAt, marksAt } from "./frames.js";

const clamp = (low, value, high) => Math.max(low, Math.min(high, value));

function grid({ name, space, shape }) {
  const cells = Array.from({ length: shape[0] * shape[1] }, () => h("span", { class: "cell" }));
  const picture = h("div", { class: "cells", role: "img", style: `--columns: ${shape[1]}` }, ...cells);
  const node = h("div", { class: `array ${space}` }, h("div", { class: "name" }, h("code", {}, name), ` ${space}`), picture);
  function draw({ reads, writes, before } = { reads: new Set(), writes: new Set(), before: new Set() }) {
    cells.forEach((cell, at) => {
      cell.className = `cell${before.has(at) ? " before" : ""}${reads.has(at) ? " read" : ""}${writes.has(at) ? " write" : ""}`;
    });
    picture.setAttribute("aria-label", `${name}, ${space} memory, ${shape[0]} by ${shape[1]}: ${reads.size} read now, ${writes.size} written now, ${before.size} touched before`);
  }
  return { name, node, draw };
}

function sentence({ line, touches, barrier }, threads) {
  if (barrier) return [h("code", {}, line), `: all ${threads} threads of the block wait for each other.`];
  const parts = touches.map(({ array, space, store, cells }) =>
    `${threads === cells.length ? "each thread" : `${cells.length} threads`} ${store ? "writes" : "reads"} one element of ${array} (${space}${new Set(cells).size < cells.length ? `, ${new Set(cells).size} different ones` : ""})`);
  return [h("code", {}, line), `: ${parts.join("; ")}.`];
}

function render({ model, el }) {
  const { frames, arrays, threads } = model.get("trace");
  const grids = arrays.map(grid);
  const text = h("p", { class: "status", role: "status" });
  const facts = h("dl", {});
  const at = () => clamp(0, model.get("step") - 1, frames.length - 1);
  function go(to) {
    model.set("step", to + 1);
    model.save_changes();
    draw();
  }
  const words = (now) => `step ${now + 1} of ${frames.length}: ${frames[now].line}`;
  const controls = player({ at, last: () => frames.length - 1, go, words });
  function draw() {
    const now = at(), counts = countsAt(frames, now), marks = marksAt(frames, now);
    for (const one of grids) one.draw(marks[one.name]);
    controls.draw();
    text.replaceChildren(`Step ${now + 1} of ${frames.length}: `, ...sentence(frames[now], threads));
    const rows = [["loaded from global memory", counts.loads], ["read from shared memory", counts.shared_reads], ["stored to global memory", counts.stores]];
    facts.replaceChildren(...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]));
  }
  const follow = () => draw();
  model.on("change:step", follow);
  el.append(widgetRoot("tiles", model.get("label"),
    h("p", { class: "heading" }, ...prose(model.get("label"))),
    h("div", { class: "arrays" }, ...grids.map((one) => one.node)),
    h("p", { class: "note legend" }, h("span", { class: "cell read" }), " read now ", h("span", { class: "cell write" }), " written now ",
      h("span", { class: "cell before" }), " touched before"),
    controls.node, text, facts));
  draw();
  return () => { controls.stop(); model.off("change:step", follow); };
}

export default { render };
