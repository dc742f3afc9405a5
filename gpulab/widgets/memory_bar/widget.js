/* The memory bar: model, recipe and card in the reader's hand. */
import { cardOptions } from "../shared/controls.js";
import { h, uid, widgetRoot } from "../shared/dom.js";
import { jobOf, plan } from "./model.js";
import { barPicture, gib, ORDER, shade } from "./picture.js";

const powers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => 2 ** (from + i));
const ADVICE = {
  parameters: "Fewer bits for frozen weights, or stage 3 over more GPUs.",
  scales: "Larger blocks share a scale.",
  "gathered weights": "A smaller layer at a time.",
  "master weights": "Shard them from stage 1 on.",
  optimizer: "LoRA, moments in 8 bits, or stage 1 over more GPUs.",
  gradients: "LoRA, or stage 2 over more GPUs.",
  cache: "Fewer or shorter sequences, or a model with fewer key-value heads.",
  activations: "A smaller batch, shorter sequences or checkpointing.",
  logits: "A smaller batch; the loss in pieces.",
  "weight casts": "16-bit weights with a master copy keep no casts.",
  temporaries: "A smaller batch, or an optimizer that works tensor by tensor.",
};

function options(known) {
  const named = (list) => list.map((one) => [one, String(one)]);
  return [
    ["model", "model", named(Object.keys(known.models))],
    ["mode", "to", [["train", "train"], ["serve", "serve"]]],
    ["card", "card", cardOptions(known.cards)],
    ["batch", "sequences", named(powers(0, 8))],
    ["sequence", "tokens each", [[0, "the model's own"], ...named(powers(5, 17))]],
    ["precision", "precision", named(Object.keys(known.precisions))],
    ["optimizer", "optimizer", named(known.optimizers)],
    ["lora", "LoRA rank", [[0, "none: all weights train"], ...named([4, 8, 16, 32, 64, 128])]],
    ["adapted", "LoRA on", named(Object.keys(known.adapted))],
    ["weight_bits", "weight bits", [[16, "as the precision says"], [8, "8, with scales"], [4, "4, with scales"]]],
    ["checkpointing", "checkpointing", named(["none", "every layer", "selective"])],
    ["attention", "attention", [["fused", "one kernel"], ["written out", "scores written out"]]],
    ["stage", "ZeRO stage", named([0, 1, 2, 3])],
    ["world", "GPUs", named(powers(0, 10))],
  ];
}

/* What a mode has no use for. */
function idle(name, job) {
  if (name === "adapted") return !job.lora;
  return job.mode === "serve" && ["optimizer", "checkpointing"].includes(name);
}

function table({ terms, peak, capacity, binding }) {
  const line = (first, bytes, kind) => h("tr", { class: kind }, h("th", { scope: "row" }, ...first),
    h("td", {}, (bytes / 2 ** 30).toFixed(2)), h("td", {}, (bytes / 1e9).toFixed(2)), h("td", {}, `${((100 * bytes) / peak).toFixed(0)} %`));
  const rows = ORDER.filter((name) => terms[name]).map((name) =>
    line([h("span", { class: `swatch ${shade(name)}`, "aria-hidden": "true" }), name === binding ? h("strong", {}, `${name}, binding`) : name], terms[name], ""));
  const head = h("tr", {}, ...["term", "GiB", "GB", "share"].map((text) => h("th", { scope: "col" }, text)));
  return h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows, line(["in all"], peak, "sum"), line(["the card"], capacity, "")));
}

function render({ model, el }) {
  const known = model.get("known"), choices = options(known);
  const put = (name, value) => { model.set(name, value); model.save_changes(); draw(); };
  const fields = choices.map(([name, text, list]) => {
    const id = uid(name), whole = typeof list[list.length - 1][0] === "number";
    const select = h("select", { id, onchange: () => put(name, whole ? Number(select.value) : select.value) },
      ...list.map(([value, label]) => h("option", { value: String(value) }, label)));
    return { name, select, node: h("div", { class: "choice" }, h("label", { for: id }, text), select) };
  });
  const picture = h("div", { class: "picture", role: "group", "aria-label": "Terms and capacity" });
  const verdict = h("p", { class: "verdict", role: "status" }), advice = h("p", {}), terms = h("div");
  let drawn = 0;
  // The still that is drawn without a browser has no observer, and its full width.
  const resized = globalThis.ResizeObserver && new ResizeObserver(() => {
    const width = Math.min(680, picture.clientWidth);
    if (width && width !== drawn) {
      drawn = width;
      draw();
    }
  });
  function draw() {
    const job = jobOf(known, Object.fromEntries(choices.map(([name]) => [name, model.get(name)])));
    for (const { name, select, node } of fields) {
      select.value = String(job[name]);
      node.hidden = idle(name, job);
    }
    if (job.refused) {
      picture.replaceChildren();
      terms.replaceChildren();
      advice.textContent = "";
      verdict.textContent = job.refused;
      return;
    }
    const found = plan(job), spare = gib(Math.abs(found.capacity - found.peak));
    picture.replaceChildren(barPicture(found, known.cards[job.card].name.replace("NVIDIA ", ""), drawn || 640));
    verdict.textContent = found.fits ? `It fits, and leaves ${spare} GiB.` : `It does not fit: ${spare} GiB are missing.`;
    advice.textContent = `Fullest ${found.moment}. What binds: ${found.binding}. ${ADVICE[found.binding]}`;
    terms.replaceChildren(table(found));
  }
  for (const [name] of choices) model.on(`change:${name}`, draw);
  el.append(widgetRoot("memorybar", "Memory bar",
    h("div", { class: "settings" }, ...fields.map((field) => field.node)), picture, verdict, advice, terms,
    h("p", { class: "note" }, "Modelled: gpulab.memory.plan, per GPU. The card is what its driver reports; 1 GiB is 2³⁰ bytes, 1 GB is 10⁹.")));
  draw();
  resized?.observe(picture);
  return () => {
    resized?.disconnect();
    for (const [name] of choices) model.off(`change:${name}`, draw);
  };
}

export default { render };
