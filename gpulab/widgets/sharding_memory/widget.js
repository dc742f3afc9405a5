/* ZeRO's stages: model, ranks, recipe and card in the reader's hand. */
import { cardOptions, choice, powersOfTwo, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { crossing, enough, held, sent, STAGES, total } from "./model.js";
import { gib, shade, stagesPicture, TERMS } from "./picture.js";

const NAMES = ["0: DDP", "1", "2", "3: FSDP"];
const TRAITS = ["billions", "ranks", "precision", "optimizer", "card"];
const CALLED = { all_reduce: "all-reduce", reduce_scatter: "reduce-scatter", all_gather: "all-gather" };
const gigabytes = (bytes) => (bytes / 1e9).toFixed(bytes < 99.95e9 ? 1 : 0);
const list = (some) => (some.length > 1 ? `${some.slice(0, -1).join(", ")} and ${some[some.length - 1]}` : String(some[0]));

/* What fits, and what to do about what does not. */
function because(job, stages, capacity) {
  const fitting = STAGES.filter((stage) => total(stages[stage]) <= capacity);
  if (fitting.length === 4) return "Every stage fits, and none sends less than DDP.";
  if (fitting.length) {
    const spare = capacity - total(stages[fitting[0]]);
    const which = fitting.length > 1 ? `Stages ${list(fitting)} fit; stage ${fitting[0]}` : `Stage ${fitting[0]} fits, and`;
    return `${which} leaves ${gib(spare)} GiB of each card for what is not drawn.`;
  }
  return `No stage fits. Stage 3 does from ${enough(job, capacity)} ranks on.`;
}

function table(job, stages, ranks, capacity) {
  const head = h("tr", {}, ...["stage", "GiB", "GB", "fits", "sends, GB"].map((text) => h("th", { scope: "col" }, text)));
  const rows = STAGES.map((stage) => {
    const all = total(stages[stage]), fits = all <= capacity;
    return h("tr", {}, h("th", { scope: "row" }, NAMES[stage]), h("td", {}, gib(all)), h("td", {}, gigabytes(all)),
      h("td", { class: fits ? "good" : "bad" }, fits ? "yes" : "no"), h("td", {}, gigabytes(sent(job, stage, ranks))));
  });
  return h("table", {}, h("caption", {}, "Of each rank"), h("thead", {}, head), h("tbody", {}, ...rows));
}

/* What a stage sends in a step, in words. */
function sends(job, stage) {
  const kinds = job.known.stages[stage], many = ["", "one ", "two "];
  const named = [...new Set(kinds)].map((kind) => {
    const count = kinds.filter((one) => one === kind).length;
    return `${many[count]}${CALLED[kind]}${count > 1 ? "s" : ""}`;
  });
  return `${list(named)}, ${crossing(job, stage)}ψ\u00a0(n\u00a0-\u00a01)\u00a0/\u00a0n`;
}

function render({ model, el }) {
  const known = model.get("known");
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const named = (names) => names.map((name) => [name, name]);
  const fields = {
    billions: slider({ text: "parameters", values: known.billions, words: (value) => `${value} billion`, put: put("billions") }),
    ranks: slider({ text: "ranks", values: powersOfTwo(0, Math.log2(known.most_ranks)), put: put("ranks") }),
    precision: choice({ text: "recipe", options: named(Object.keys(known.precisions)), put: put("precision") }),
    optimizer: choice({ text: "optimizer", options: named(known.optimizers), put: put("optimizer") }),
    card: choice({ text: "card", options: cardOptions(known.cards), put: put("card") }),
  };
  const picture = h("div", { class: "picture", role: "group", "aria-label": "Memory of a rank by stage" });
  const verdict = h("p", { class: "verdict", role: "status" }), numbers = h("div");
  const swatch = (term) => h("span", { class: `swatch ${shade(term)}`, "aria-hidden": "true" });
  const legend = h("p", { class: "legend" }, ...TERMS.map((term) => h("span", {}, swatch(term), `${term} `)));
  const place = followed(picture, 760, () => draw());
  function draw() {
    const job = { known, ...Object.fromEntries(TRAITS.map((name) => [name, model.get(name)])) }, card = known.cards[job.card];
    const stages = STAGES.map((stage) => held(job, stage, job.ranks));
    for (const name of TRAITS) fields[name].draw(job[name]);
    picture.replaceChildren(stagesPicture(stages, card, place.width()));
    verdict.textContent = because(job, stages, card.bytes);
    numbers.replaceChildren(table(job, stages, job.ranks, card.bytes));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("sharding", "Memory and messages by ZeRO stage",
    h("div", { class: "settings" }, ...Object.values(fields).map(({ node }) => node)), legend, picture, verdict, numbers,
    h("p", { class: "note" }, `Sent in a step by rings, for n ranks and ψ bytes of weights: stage 0, ${sends({ known }, 0)}; `
      + `stages 1 and 2, ${sends({ known }, 2)}; stage 3, ${sends({ known }, 3)}.`),
    h("p", { class: "note" }, "Modelled: gpulab.memory.plan, when all gradients are there. Not drawn: activations, "
      + "the layers that stage 3 gathers for a while, buffers, the context. 1 GiB is 2³⁰ bytes, 1 GB is 10⁹.")));
  draw();
  return () => {
    place.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

export default { render };
