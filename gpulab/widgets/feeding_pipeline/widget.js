/* A loader as stages: workers, cores, prefetch and the place of decoding in the reader's hand. */
import { choice, factRows, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { percent, three } from "../shared/words.js";
import { batchesOf, bounds, idle, least, placed, rate, simulate } from "./model.js";
import { barsPicture, lanesPicture } from "./picture.js";

const ms = (value) => `${value} ms`;
const SLIDERS = {
  workers: ["workers", String], prefetch: ["prefetch factor", String], cores: ["cores", String], fetch: ["fetch", ms],
  decode: ["decode", ms], augment: ["augment", ms], collate: ["collate", ms], pin: ["pin", ms], transfer: ["transfer", ms],
  step: ["step", ms], uneven: ["one in 8 takes", (value) => `${value} ×`],
  parse: ["left to a core", (value) => `${value} %`], faster: ["device is", (value) => `${value} cores`],
};
const TRAITS = [...Object.keys(SLIDERS), "place", "overlap"];
const PLACE_WORDS = {
  workers: "all in workers", "augment on the GPU": "decode in workers, augment on the GPU",
  "mixed decode": "mixed decode, augment on the GPU", "hardware decoder": "hardware decoder, augment on the GPU",
};
const SHOWN = 12;
const QUESTION = "Which stage does the device wait for, and what moves the limit elsewhere?";

function jobOf(model) {
  const known = model.get("known"), job = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const usual = placed({ ...job, parse: job.parse / 100, packed: known.packed }, job.place);
  return { job, usual, turns: simulate(batchesOf(usual, job.uneven, known.batches, known.every), job) };
}

const REMEDY = {
  "all in turn": "Without workers each batch is made while the device waits, or the device works while none is made.",
  workers: "Workers limit, and cores are left: one more worker helps.",
  cores: "Cores limit: one more worker adds nothing. Less work for a core, or more cores, would.",
  pinning: "The one pinning thread limits: more workers add nothing. Fewer bytes would.",
  transfer: "The copy to the device limits: fewer bytes would help, and no worker does.",
  decoder: "The hardware decoder limits, beside kernels that have time.",
  step: "The step limits: the loader has more to give than the device takes. It is fed.",
  "transfer and step": "Copy and step, in turn, limit: workers add nothing. Overlap them, or shorten one.",
};

function verdictOf(usual, job, turns) {
  const low = least(bounds(usual, job)), reached = rate(turns);
  if (reached > 0.95 * low[1]) return REMEDY[low[0]];
  const most = `The slowest stage would allow ${three(low[1])} batches a second,`;
  if (job.uneven > 1) return `${most} and a slow batch comes, in order, before those done behind it: a larger prefetch factor helps, up to that.`;
  return `${most} and it is without work now and then, while all workers wait: more workers or a larger prefetch factor come closer.`;
}

function render({ model, el }) {
  const known = model.get("known");
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const fields = Object.fromEntries(Object.entries(SLIDERS).map(([name, [text, words]]) =>
    [name, slider({ text, values: known.values[name], words, put: put(name) })]));
  const place = choice({ text: "decode and augment", options: known.places.map((one) => [one, PLACE_WORDS[one]]), put: put("place") });
  const beside = h("button", { type: "button", onclick: () => put("overlap")(!model.get("overlap")) }, "copy beside the step");
  const lanes = h("div", { role: "group", "aria-label": "Who works when" }), bars = h("div", { role: "group", "aria-label": "What each stage allows" });
  const facts = h("dl"), verdict = h("p", { class: "verdict", role: "status" });
  const wide = followed(lanes, 760, () => draw()), narrow = followed(bars, 460, () => draw());
  function draw() {
    const { job, usual, turns } = jobOf(model), limits = bounds(usual, job), low = least(limits);
    for (const [name, field] of Object.entries(fields)) field.draw(job[name]);
    place.draw(job.place);
    beside.setAttribute("aria-pressed", String(job.overlap));
    lanes.replaceChildren(lanesPicture(turns, job, SHOWN, wide.width()));
    bars.replaceChildren(barsPicture(limits, low, rate(turns), Math.min(460, narrow.width())));
    verdict.textContent = verdictOf(usual, job, turns);
    facts.replaceChildren(...factRows([
      ["reached", `${three(rate(turns))} batches a second`], ["device without a step", percent(idle(turns))], ["slowest stage", low[0]],
      ["a core's work", `${three(usual.decode + usual.collate)} ms a batch`], ["device's step", `${three(usual.step)} ms`],
    ]));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  const settings = (...names) => h("div", { class: "settings" }, ...names.map((name) => fields[name].node));
  el.append(widgetRoot("feeding", "A loader as stages", h("p", { class: "question" }, QUESTION),
    settings("workers", "cores", "prefetch", "uneven"), h("p", { class: "note" }, "One batch, where a core does all of it:"),
    settings("fetch", "decode", "augment", "collate", "pin", "transfer", "step"), place.node, settings("parse", "faster"),
    h("div", { class: "bar" }, beside), lanes, h("div", { class: "below" }, bars, facts), verdict,
    h("p", { class: "note" }, "Simulated by gpulab.feeding: PyTorch's DataLoader, batches to the workers in turn and to the loop in order. "
      + "Fetching takes no core; decoding, augmentation and collation share the cores. Where bytes are sent encoded, collate, pin and "
      + `transfer take a ${known.packed}th. What kernels decode and augment is added to the step; a hardware decoder runs beside it. `
      + "The line is what is reached, over the second half of 128 batches.")));
  draw();
  return () => {
    wide.stop();
    narrow.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

/* Readers without a script cannot move the work: what each place gives the loader that is shown. */
function withoutScript({ model }) {
  const known = model.get("known"), { job } = jobOf(model);
  const row = (one) => {
    const usual = placed({ ...job, parse: job.parse / 100, packed: known.packed }, one), limits = bounds(usual, job);
    const reached = rate(simulate(batchesOf(usual, job.uneven, known.batches, known.every), job));
    return h("tr", {}, h("th", { scope: "row" }, PLACE_WORDS[one]), h("td", {}, three(reached)), h("td", {}, least(limits)[0]));
  };
  const heads = ["simulated", "batches a second", "limited by"].map((text) => h("th", { scope: "col" }, text));
  return [h("div", { class: "gpulab feeding" }, h("table", {}, h("caption", {}, `${job.workers} workers, by the place of decoding`),
    h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...known.places.map(row))))];
}

export default { render, withoutScript };
