/* How much of a copy is hidden: memory, call, streams and buffers in the reader's hand. */
import { factRows } from "../shared/controls.js";
import { h, prose, uid, widgetRoot } from "../shared/dom.js";
import { totals, transfers } from "./model.js";
import { lanes } from "./picture.js";

const SWITCHES = [
  ["pinned", "pinned memory"],
  ["non_blocking", "non_blocking=True"],
  ["side_stream", "a stream for the copies"],
  ["two_buffers", "two buffers"],
];
const SLIDERS = [
  ["megabytes", "batch", "MB", 1, 64],
  ["step_us", "step", "µs", 20, 3000],
];
const TRAITS = ["card", ...SWITCHES.map(([name]) => name), ...SLIDERS.map(([name]) => name)];

function plan(model) {
  const get = (name) => model.get(name);
  return {
    batches: get("batches"), bytes: get("megabytes") * 1e6, step_us: get("step_us"), pinned: get("pinned"),
    non_blocking: get("non_blocking"), side_stream: get("side_stream"), buffers: get("two_buffers") ? 2 : 1,
    rate: get("cards")[get("card")], assumed: get("assumed"),
  };
}

/* What stands in the way, the first thing first. */
function because(p, t) {
  if (!p.side_stream) return !p.non_blocking
    ? "The host waits for every copy, and copies and steps stand in one queue."
    : p.pinned
      ? "The host is free, but copies and steps stand in one queue: on the device nothing overlaps."
      : "The host goes on when a batch is staged; copies and steps stand in one queue, and on the device nothing overlaps.";
  if (p.buffers === 1) return "One buffer: the next batch has nowhere to go until the step is over.";
  if (!p.pinned) return p.non_blocking
    ? "The host stands still while each batch is staged: `non_blocking` saves it the rest of the copy. The copies overlap, at the staging's rate."
    : "Each copy is staged and the host stands still. The copies overlap, at the staging's rate.";
  if (!p.non_blocking) return "The copies overlap, but the host stands still for each of them and can load no batch meanwhile.";
  return t.copying > t.computing
    ? "All four. What is left is the link: each batch takes as long as its copy."
    : "All four. What is left is the step: every copy but the first is hidden.";
}

function render({ model, el }) {
  const put = (name, value) => { model.set(name, value); model.save_changes(); draw(); };
  const picture = h("div", { class: "lanes", role: "group", "aria-label": "Timeline", tabindex: 0 });
  const verdict = h("p", { class: "verdict", role: "status" });
  const facts = h("dl");
  const id = uid("card");
  const card = h("select", { id, onchange: () => put("card", card.value) },
    ...Object.keys(model.get("cards")).map((key) => h("option", { value: key }, key)));
  const toggles = SWITCHES.map(([name, on]) => h("button", { type: "button", value: name,
    onclick: () => put(name, !model.get(name)) }, on));
  const sliders = SLIDERS.map(([name, text, unit, min, max]) => {
    const shown = h("output", { class: "mono" });
    const input = h("input", { type: "range", min, max, step: 1, "aria-label": `${text} in ${unit}`,
      oninput: () => put(name, Number(input.value)) });
    return { name, input, shown, unit, node: h("label", { class: "slider" }, h("span", {}, text), input, shown) };
  });
  function draw() {
    const p = plan(model), spans = transfers(p), t = totals(spans);
    card.value = model.get("card");
    toggles.forEach((button) => button.setAttribute("aria-pressed", String(model.get(button.value))));
    for (const s of sliders) { s.input.value = model.get(s.name); s.shown.textContent = `${model.get(s.name)} ${s.unit}`; }
    picture.replaceChildren(lanes(spans, t));
    verdict.replaceChildren(...prose(because(p, t)));
    const us = (value) => `${Math.round(value)} µs`;
    const rows = [["first copy to last step", us(t.total)], ["copies", us(t.copying)], ["steps", us(t.computing)],
      ["copying hidden behind steps", `${Math.round((100 * t.hidden) / t.copying)} %`], ["host held inside copy calls", us(t.held)]];
    facts.replaceChildren(...factRows(rows));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("transfers", "Transfer explorer",
    h("div", { class: "bar", role: "group", "aria-label": "What the loop uses" }, ...toggles),
    h("div", { class: "settings" }, h("label", { class: "slider", for: id }, h("span", {}, "card"), card), ...sliders.map((s) => s.node)),
    picture, verdict, facts,
    h("p", { class: "note" }, "Modelled: peaks of the card, assumed latencies. Filling the host's buffers is not counted.")));
  draw();
  return () => { for (const name of TRAITS) model.off(`change:${name}`, draw); };
}

export default { render };
