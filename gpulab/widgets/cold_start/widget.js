/* A cold start: sizes, tiers and chunks in the reader's hand, the stages as they overlap, and what each would save. */
import { choice, factRows, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { timeWords } from "../shared/words.js";
import { timeline } from "./model.js";
import { startPicture } from "./picture.js";

const GB = (value) => `${value} GB`, SECONDS = (value) => `${value} s`;
const SLIDERS = {
  weights: ["weights", GB], chunk: ["chunk", (value) => (value ? GB(value) : "whole")], image: ["image", GB],
  needed: ["read of it", (value) => `${value} %`], runtime: ["runtime", SECONDS], graphs: ["graphs", SECONDS],
};
const SELECTS = { origin: "weights in", network: "network", drive: "drive", bus: "bus" };
const TRAITS = [...Object.keys(SELECTS), ...Object.keys(SLIDERS)];
const QUESTION = "What does this start wait for, and what would it pay to make faster?";

function startOf(model) {
  const get = (name) => model.get(name), at = get("known").choices.origin.indexOf(get("origin"));
  return {
    weights: 1e9 * get("weights"), image: 1e9 * get("image"), needed: (1e9 * get("image") * get("needed")) / 100, chunk: 1e9 * get("chunk"),
    runtime: get("runtime"), graphs: get("graphs"), network: get("network"), path: [get("network"), get("drive"), get("bus")].slice(at),
  };
}

function verdictOf({ saves, bottleneck, critical }) {
  if (!saves[bottleneck]) return "No single improvement saves anything: two ways end at the same time.";
  const waits = critical.includes("weights") ? "The weights are waited for, and the image is not." : "The image is waited for, and the weights are not.";
  return `${waits} The bottleneck is ${bottleneck}: it alone would save ${timeWords(saves[bottleneck])}.`;
}

function table({ saves, bottleneck }) {
  const row = ([name, saved]) => h("tr", { class: name === bottleneck && saved > 0 ? "most" : "" }, h("th", { scope: "row" }, name),
    h("td", {}, saved > 1e-9 ? timeWords(saved) : "nothing"));
  return h("table", {}, h("caption", {}, "What it would save if it alone took no time"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "modelled"), h("th", { scope: "col" }, "saves"))),
    h("tbody", {}, ...Object.entries(saves).map(row)));
}

function factsOf({ spans, ready }) {
  return [["ready after", timeWords(ready || 0)], ["weights there after", timeWords(spans.weights[1] || 0)],
    ["runtime up after", timeWords(spans.runtime[1] || 0)]];
}

function render({ model, el }) {
  const known = model.get("known");
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const fields = {
    ...Object.fromEntries(Object.entries(SELECTS).map(([name, text]) =>
      [name, choice({ text, options: known.choices[name].map((one) => [one, one]), put: put(name) })])),
    ...Object.fromEntries(Object.entries(SLIDERS).map(([name, [text, words]]) =>
      [name, slider({ text, values: known.values[name], words, put: put(name) })])),
  };
  const picture = h("div", { role: "group", "aria-label": "Stages in time" }), numbers = h("div"), facts = h("dl");
  const verdict = h("p", { class: "verdict", role: "status" });
  const wide = followed(picture, 760, () => draw());
  function draw() {
    const found = timeline(startOf(model), known.rates);
    for (const [name, field] of Object.entries(fields)) field.draw(model.get(name));
    picture.replaceChildren(startPicture(found, wide.width()));
    numbers.replaceChildren(table(found));
    facts.replaceChildren(...factRows(factsOf(found)));
    verdict.textContent = verdictOf(found);
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("start", "Cold start by stages and tiers", h("p", { class: "question" }, QUESTION),
    h("div", { class: "settings" }, ...Object.values(fields).map(({ node }) => node)), picture, verdict,
    h("div", { class: "below" }, numbers, facts),
    h("p", { class: "note" }, "Modelled by gpulab.platforms: a chunk is on one tier at a time, and the next is behind it; image and weights do "
      + "not disturb each other, though both may cross the network. Filled bars are critical. Bandwidths are the most that links and four lanes "
      + "carry; no machine was timed. 1 GB is 10⁹ bytes.")));
  draw();
  return () => {
    wide.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

/* Readers without a script cannot move the origin of the weights: what it changes. */
function withoutScript({ model }) {
  const known = model.get("known"), names = known.choices.origin;
  const row = (origin) => {
    const moved = { get: (name) => (name === "origin" ? origin : model.get(name)) }, { ready, bottleneck } = timeline(startOf(moved), known.rates);
    return h("tr", {}, h("th", { scope: "row" }, origin), h("td", {}, timeWords(ready)), h("td", {}, bottleneck));
  };
  const heads = ["weights in", "ready after", "bottleneck"].map((text) => h("th", { scope: "col" }, text));
  return [h("div", { class: "gpulab start" }, h("table", {}, h("caption", {}, "Where the weights are, modelled"),
    h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...names.map(row))))];
}

export default { render, withoutScript };
