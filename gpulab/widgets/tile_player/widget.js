/* A traced block of a tiled kernel, one step at a time: which elements it loads, shares and stores. */
import { h, prose, uid, widgetRoot } from "../shared/dom.js";
import { countsAt, marksAt } from "./frames.js";

const TICK_MS = 900;
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
  const text = h("p", { class: "status", role: "status" }), id = uid("step");
  let timer = null;
  const slider = h("input", { id, type: "range", min: 1, max: frames.length, step: 1, oninput: () => jump(Number(slider.value) - 1) });
  const play = h("button", { type: "button", onclick: () => (timer ? stop() : start()) }, "Play");
  const previous = h("button", { type: "button", onclick: () => jump(at() - 1) }, "Previous");
  const next = h("button", { type: "button", onclick: () => jump(at() + 1) }, "Next");
  const facts = h("dl", {});
  const at = () => clamp(0, model.get("step") - 1, frames.length - 1);
  function jump(to) {
    stop();
    go(to);
  }
  function go(to) {
    model.set("step", clamp(0, to, frames.length - 1) + 1);
    model.save_changes();
    draw();
  }
  function start() {
    if (at() === frames.length - 1) go(0);
    play.textContent = "Pause";
    timer = setInterval(() => (at() < frames.length - 1 ? go(at() + 1) : stop()), TICK_MS);
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }
  function draw() {
    const now = at(), counts = countsAt(frames, now), marks = marksAt(frames, now);
    for (const one of grids) one.draw(marks[one.name]);
    slider.value = String(now + 1);
    slider.setAttribute("aria-valuetext", `step ${now + 1} of ${frames.length}: ${frames[now].line}`);
    text.replaceChildren(`Step ${now + 1} of ${frames.length}: `, ...sentence(frames[now], threads));
    const rows = [["loaded from global memory", counts.loads], ["read from shared memory", counts.shared_reads], ["stored to global memory", counts.stores]];
    facts.replaceChildren(...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]));
    previous.setAttribute("aria-disabled", String(now === 0));
    next.setAttribute("aria-disabled", String(now === frames.length - 1));
  }
  const follow = () => draw();
  model.on("change:step", follow);
  el.append(widgetRoot("tiles", model.get("label"),
    h("p", { class: "heading" }, ...prose(model.get("label"))),
    h("div", { class: "arrays" }, ...grids.map((one) => one.node)),
    h("p", { class: "note legend" }, h("span", { class: "cell read" }), " read now ", h("span", { class: "cell write" }), " written now ",
      h("span", { class: "cell before" }), " touched before"),
    h("div", { class: "bar" }, previous, next, play, h("label", { for: id }, "Step"), slider), text, facts));
  draw();
  return () => { stop(); model.off("change:step", follow); };
}

export default { render };
