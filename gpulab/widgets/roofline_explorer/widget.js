/* A roofline: card, number format and operation in the reader's hand. */
import { factRows } from "../shared/controls.js";
import { h, uid, widgetRoot } from "../shared/dom.js";
import { metric } from "../shared/words.js";
import { BYTES, place, roofOf, work } from "./model.js";
import { rooflinePicture } from "./picture.js";
import { rooflineQuiz } from "./quiz.js";

const OPERATIONS = [["chain", "elementwise chain, a kernel each"], ["fused", "the same chain, fused"], ["linear", "linear layer"]];
const SLIDERS = [["rows", "rows", 13], ["width", "width", 14], ["steps", "operations", 7]];
const TRAITS = ["card", "fmt", "operation", ...SLIDERS.map(([name]) => name)];

function rows(job, w, at) {
  const speed = w.flops / at.us * 1e6;
  return [["kernels", String(w.kernels)], ["arithmetic", `${metric(w.flops)}FLOP`], ["memory moved", `${metric(w.bytes)}B`],
    ["intensity", `${at.intensity.toPrecision(3)} FLOP per byte`], ["bound by", at.bound],
    ["time at least", `${at.us < 10 ? at.us.toPrecision(2) : Math.round(at.us)} µs`],
    ["share of the peak at most", `${((100 * speed) / at.peak).toPrecision(2)} %`]];
}

function render({ model, el }) {
  const put = (name, value) => { model.set(name, value); model.save_changes(); draw(); };
  const cards = model.get("cards");
  const choice = (name, text, options) => {
    const id = uid(name);
    const select = h("select", { id, onchange: () => put(name, select.value) }, ...options.map(([value, label]) => h("option", { value }, label)));
    return { name, select, node: h("div", { class: "choice" }, h("label", { for: id }, text), select) };
  };
  const choices = [
    choice("card", "card", Object.keys(cards).map((key) => [key, key])),
    choice("fmt", "format", Object.keys(BYTES).map((key) => [key, key])),
    choice("operation", "operation", OPERATIONS),
  ];
  /* Sliders move by powers of two. */
  const sliders = SLIDERS.map(([name, text, max]) => {
    const shown = h("output", { class: "mono" });
    const input = h("input", { type: "range", min: 0, max, step: 1, "aria-label": text, oninput: () => put(name, 2 ** Number(input.value)) });
    const node = h("label", { class: "slider" }, h("span", {}, text), input, shown);
    return { name, input, shown, node };
  });
  const picture = h("div", { class: "picture", role: "group", "aria-label": "Roofline", tabindex: 0 }), verdict = h("p", { class: "verdict", role: "status" }), facts = h("dl");
  function draw() {
    const job = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const card = cards[job.card], w = work(job), at = place(card, roofOf(job), w);
    for (const { name, select } of choices) select.value = job[name];
    for (const { name, input, shown, node } of sliders) {
      input.value = Math.log2(job[name]);
      input.setAttribute("aria-valuetext", String(job[name]));
      shown.textContent = job[name];
      node.hidden = name === "steps" && job.operation === "linear";
    }
    const roofs = Object.fromEntries(Object.keys(BYTES).map((fmt) => [fmt, card.flops_per_s[fmt]]));
    picture.replaceChildren(rooflinePicture(card, roofs, roofOf(job), at));
    verdict.textContent = at.bound === "memory"
      ? "Bound by memory: more arithmetic on the same bytes would cost no time."
      : "Bound by compute: fewer bytes would save no time.";
    facts.replaceChildren(...factRows(rows(job, w, at)));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("roofline", "Roofline explorer",
    h("div", { class: "settings" }, ...choices.map((c) => c.node), ...sliders.map((s) => s.node)),
    picture, verdict, facts,
    h("p", { class: "note" }, "Modelled: dense peaks and bandwidths of the datasheets, each byte moved once by each kernel, launches free."),
    h("details", {}, h("summary", {}, "Quiz: memory or compute?"), rooflineQuiz(cards, model.get("seed")))));
  draw();
  return () => { for (const name of TRAITS) model.off(`change:${name}`, draw); };
}

export default { render };
