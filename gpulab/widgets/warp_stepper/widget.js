/* Steps through a kernel, a warp at a time: the line, the lanes that take part, the bill so far. */
import { h, prose, uid, widgetRoot } from "../shared/dom.js";
import { active, existing, interesting, lanes, thread, totals } from "./masks.js";

const TICK_MS = 900;
const MOST_BLOCKS = 64;
const clamp = (low, value, high) => Math.max(low, Math.min(high, value));
const triple = (numbers) => {
  const last = numbers[2] > 0 ? 3 : numbers[1] > 0 ? 2 : 1;
  return last === 1 ? String(numbers[0]) : `(${numbers.slice(0, last).join(", ")})`;
};
const extents = (numbers) => numbers.slice(0, numbers[2] > 1 ? 3 : numbers[1] > 1 ? 2 : 1).join(" × ");

function gridMap(data, jump) {
  const count = data.grid[0] * data.grid[1] * data.grid[2];
  const traced = data.runs.map((run) => run.block);
  const nodes = Array.from({ length: Math.min(count, MOST_BLOCKS) }, (_, number) => {
    const run = traced.indexOf(number);
    return run < 0
      ? h("span", { class: "block", "aria-hidden": "true" }, String(number))
      : h("button", { type: "button", class: "block", "aria-label": `Block ${number}`, onclick: () => jump(run) }, String(number));
  });
  if (count > MOST_BLOCKS) nodes.push(h("span", { class: "note" }, `and ${count - MOST_BLOCKS} more`));
  const node = h("div", { class: "blocks" }, h("span", { class: "name" }, `Grid of ${extents(data.grid)} blocks`), ...nodes);
  const draw = (run) => nodes.forEach((button, number) => {
    if (button.tagName === "BUTTON") button.setAttribute("aria-pressed", String(number === traced[run]));
  });
  return { node, draw };
}

function listing(data) {
  const rows = data.source.map((text, i) => h("div", { class: "codeline" },
    h("span", { class: "number", "aria-hidden": "true" }, String(data.first + i)), h("span", { class: "text" }, text || " ")));
  const node = h("div", { class: "source", role: "group", "aria-label": "The kernel's source", tabindex: "0" }, ...rows);
  function draw(line) {
    rows.forEach((row, i) => {
      if (i + data.first === line) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
    });
  }
  return { node, draw };
}

function warpRows(data, number) {
  const count = data.runs[number].steps[0][1].length;
  const block = data.runs[number].block;
  const cells = Array.from({ length: count }, (_, warp) => Array.from({ length: 32 }, (_, lane) => {
    const there = lane < existing(data.block, warp);
    const { inside, inGrid } = thread(data.grid, data.block, block, warp, lane);
    const title = there ? `lane ${lane}: threadIdx ${triple(inside)}, in the grid ${triple(inGrid)}` : "no thread";
    return h("span", { class: there ? "lane" : "lane none", title });
  }));
  const counts = cells.map(() => h("span", { class: "count" }));
  const node = h("div", { class: "warps", "aria-hidden": "true" }, ...cells.map((row, warp) => h("div", { class: "warp" },
    h("span", { class: "name" }, `warp ${warp}`), h("span", { class: "lanes" }, ...row), counts[warp])));
  function draw(masks) {
    masks.forEach((mask, warp) => {
      const on = mask === null ? [] : lanes(mask);
      cells[warp].forEach((cell, lane) => cell.classList.toggle("on", Boolean(on[lane])));
      counts[warp].textContent = mask === null ? "?" : String(active(mask));
    });
  }
  return { node, draw };
}

function sentence(data, run, at) {
  const [line, masks] = run.steps[at];
  const warps = masks.map((mask, warp) => mask && `warp ${warp}, ${active(mask)} of ${existing(data.block, warp)}`).filter(Boolean);
  const { issued, used, offered } = totals(run.steps, data.block, at);
  return [`Step ${at + 1} of ${run.steps.length}, line ${line}: `, h("code", {}, data.source[line - data.first].trim()),
    `. Lanes that take part: ${warps.join("; ")}. So far: ${issued} warp ${issued === 1 ? "step" : "steps"}, with ${Math.round((100 * used) / offered)} % of their lanes.`];
}

function question(data, run, at, answered) {
  const [line, masks] = run.steps[at];
  const warp = interesting(masks, data.block), id = uid("lanes");
  const input = h("input", { id, type: "number", min: 0, max: 32, step: 1, inputmode: "numeric" });
  const form = h("form", { class: "bar", onsubmit: (event) => {
    event.preventDefault();
    if (input.value === "") return;
    answered(warp, Number(input.value), active(masks[warp]));
  } }, h("label", { for: id }, ...prose(`Next is line ${line}, \`${data.source[line - data.first].trim()}\`. How many lanes of warp ${warp} take part?`)),
    input, h("button", { type: "submit" }, "Answer"));
  return { form, input };
}

function render({ model, el }) {
  const data = { grid: model.get("grid"), block: model.get("block"), source: model.get("source"), first: model.get("first"), runs: model.get("runs") };
  let timer = null, asking = false, tally = [0, 0];
  const id = uid("step");
  const text = h("p", { class: "status", role: "status" });
  const ask = h("div", { class: "ask" }), place = h("div", {});
  const slider = h("input", { id, type: "range", min: 1, step: 1, oninput: () => jump(Number(slider.value) - 1) });
  const play = h("button", { type: "button", onclick: () => (timer ? stop() : start()) }, "Play");
  const previous = h("button", { type: "button", onclick: () => jump(at() - 1) }, "Previous");
  const next = h("button", { type: "button", onclick: () => (asking ? pose() : jump(at() + 1)) }, "Next");
  const quiz = h("button", { type: "button", "aria-pressed": "false", onclick: toggle }, "Ask me first");
  const blocks = gridMap(data, (run) => { ask.replaceChildren(); model.set("run", run); model.set("step", 1); model.save_changes(); place.replaceChildren(); rows = null; draw(); });
  const source = listing(data);
  let rows = null;

  const run = () => data.runs[clamp(0, model.get("run"), data.runs.length - 1)];
  const at = () => clamp(0, model.get("step") - 1, run().steps.length - 1);
  function jump(to) { stop(); ask.replaceChildren(); go(to); }
  function go(to) {
    model.set("step", clamp(0, to, run().steps.length - 1) + 1);
    model.save_changes();
    draw();
  }
  function start() {
    ask.replaceChildren();
    go(at() === run().steps.length - 1 ? 0 : at());
    play.textContent = "Pause";
    timer = setInterval(() => (at() < run().steps.length - 1 ? go(at() + 1) : stop()), TICK_MS);
  }
  function stop() { clearInterval(timer); timer = null; play.textContent = "Play"; }
  function toggle() {
    asking = !asking;
    tally = [0, 0];
    quiz.setAttribute("aria-pressed", String(asking));
    ask.replaceChildren();
    if (asking) pose();
    else draw();
  }
  function pose() {
    stop();
    if (at() === run().steps.length - 1) return;
    const to = at() + 1;
    const { form, input } = question(data, run(), to, (warp, given, right) => {
      tally = [tally[0] + (given === right), tally[1] + 1];
      ask.replaceChildren(h("p", {}, h("span", { class: given === right ? "good" : "bad" }, given === right ? "Right." : "No."),
        ` ${right} of ${existing(data.block, warp)} lanes of warp ${warp} take part. ${tally[0]} of ${tally[1]} right.`));
      go(to);
      next.focus();
    });
    rows.draw(run().steps[to][1].map(() => null));
    source.draw(run().steps[to][0]);
    ask.replaceChildren(form);
    input.focus();
  }
  function draw() {
    const now = at();
    if (!rows) {
      rows = warpRows(data, data.runs.indexOf(run()));
      place.replaceChildren(rows.node);
    }
    blocks.draw(data.runs.indexOf(run()));
    source.draw(run().steps[now][0]);
    rows.draw(run().steps[now][1]);
    text.replaceChildren(...sentence(data, run(), now));
    slider.max = String(run().steps.length);
    slider.value = String(now + 1);
    slider.setAttribute("aria-valuetext", `step ${now + 1} of ${run().steps.length}`);
    previous.setAttribute("aria-disabled", String(now === 0));
    next.setAttribute("aria-disabled", String(now === run().steps.length - 1));
  }
  const follow = () => draw();
  model.on("change:step", follow);
  el.append(widgetRoot("stepper", model.get("label"),
    h("p", { class: "heading" }, ...prose(model.get("label")), h("span", { class: "note" }, ` · blocks of ${extents(data.block)} threads`)),
    blocks.node, source.node, place,
    h("div", { class: "bar" }, previous, next, play, h("label", { for: id }, "Step"), slider, quiz),
    ask, text));
  draw();
  return () => { stop(); model.off("change:step", follow); };
}

export default { render };
