/* A token budget: a request's text, images and video, the model and the card in the reader's hand. */
import { cardOptions, choice, factRows, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { binary, many, percent } from "../shared/words.js";
import { budget, frames, imageTokens, KINDS, tokenBytes, tokens, total } from "./model.js";
import { budgetPicture } from "./picture.js";

const SLIDERS = {
  text: ["text tokens", String], images: ["images", String], height: ["height", (value) => `${value} px`],
  width: ["width", (value) => `${value} px`], patch: ["patch", (value) => `${value} px`], merge: ["merge", (value) => `${value} × ${value}`],
  frames_per_s: ["video", (value) => `${value} fps`], seconds: ["seconds", (value) => `${value} s`],
};
const TRAITS = ["model", "card", "cache", ...Object.keys(SLIDERS)];
const QUESTION = "Of what is this request made, and how many of its kind does the card hold at once?";

function jobOf(model) {
  const known = model.get("known"), named = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  return { ...named, shape: known.models[named.model], element_bytes: known.caches[named.cache] };
}

/* How many fit, and what would let more of them fit. */
function because(job, counts, room) {
  const all = total(counts), most = KINDS.reduce((a, b) => (counts[b] > counts[a] ? b : a));
  if (room.left < 0) return `The weights alone need ${binary(-room.left)} more than the card has: they want a larger card, more cards or fewer bits.`;
  if (!all) return "A request without a token holds nothing.";
  const fit = room.fitting ? `${many(room.fitting, "such request")} ${room.fitting === 1 ? "has" : "have"} room at once.`
    : "Not one such request has room.";
  const made = most === "text" ? `Text is ${percent(counts.text, all)} of the tokens.`
    : `${most === "video" ? "Video is" : "Images are"} ${percent(counts[most], all)} of the tokens: fewer or smaller `
      + `${most === "video" ? "frames" : "images"} would cost less, and so would a model that merges more patches.`;
  return `${fit} ${made}`;
}

function table(counts, each) {
  const all = total(counts);
  const row = (kind, count) => h("tr", {}, h("th", { scope: "row" }, kind), h("td", {}, String(count)), h("td", {}, percent(count, all)),
    h("td", {}, binary(count * each)));
  const heads = ["modelled", "tokens", "share", "cache"].map((text) => h("th", { scope: "col" }, text));
  return h("table", {}, h("caption", {}, "One request"), h("thead", {}, h("tr", {}, ...heads)),
    h("tbody", {}, ...KINDS.map((kind) => row(kind, counts[kind])), row("in all", all)));
}

function factsOf(job, room) {
  const { shape } = job, shared = shape.heads / shape.kv_heads, ofHeads = tokenBytes(job, shape.heads);
  return [
    ["an image or frame", `${many(imageTokens(job), "token")}`], ["frames", String(frames(job))],
    ["key-value heads", `${shape.kv_heads} for ${shape.heads} query heads`],
    ["a token holds", shared === 1 ? binary(ofHeads) : `${binary(tokenBytes(job))}; ${binary(ofHeads)} if each head had its own`],
    ["left by the weights", room.left < 0 ? "nothing" : `${binary(room.left)} of ${binary(room.left + shape.weights)}`],
    ["one request of that", room.left < 0 ? "does not fit" : `${((100 * room.cached) / room.left).toPrecision(2)} %`],
    ["requests that fit", String(room.fitting ?? "any number")],
  ];
}

function render({ model, el }) {
  const known = model.get("known");
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const named = (table) => Object.keys(table).map((name) => [name, name]);
  const fields = {
    model: choice({ text: "model", options: named(known.models), put: put("model") }),
    card: choice({ text: "card", options: cardOptions(known.cards), put: put("card") }),
    cache: choice({ text: "cache", options: named(known.caches), put: put("cache") }),
    ...Object.fromEntries(Object.entries(SLIDERS).map(([name, [text, words]]) =>
      [name, slider({ text, values: known.values[name], words, put: put(name) })])),
  };
  const picture = h("div", { role: "group", "aria-label": "Tokens and memory" }), numbers = h("div"), facts = h("dl");
  const verdict = h("p", { class: "verdict", role: "status" });
  const swatch = (kind) => h("span", { class: `swatch ${kind}`, "aria-hidden": "true" });
  const legend = h("p", { class: "legend" }, ...[...KINDS.map((kind) => [kind, kind]), ["weights", "weights"], ["one", "one request"],
    ["more", "others that fit"]].map(([kind, text]) => h("span", {}, swatch(kind), text)));
  const wide = followed(picture, 760, () => draw());
  function draw() {
    const job = jobOf(model), card = known.cards[job.card], counts = tokens(job), room = budget(job, card);
    for (const [name, field] of Object.entries(fields)) field.draw(job[name]);
    picture.replaceChildren(budgetPicture(job.shape, card, counts, room, wide.width()));
    numbers.replaceChildren(table(counts, tokenBytes(job)));
    facts.replaceChildren(...factRows(factsOf(job, room)));
    verdict.textContent = because(job, counts, room);
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("budget", "Token budget of a multimodal request", h("p", { class: "question" }, QUESTION),
    h("div", { class: "settings" }, ...Object.values(fields).map(({ node }) => node)), legend, picture, verdict,
    h("div", { class: "below" }, numbers, facts),
    h("p", { class: "note" }, "Modelled by gpulab.serving: one token for each square of merge × merge patches of an image or frame, edges "
      + "padded; frames are sampled at so many a second, a part of one counts as one, and none are merged in time. A token holds keys and "
      + "values: 2 × layers × key-value heads × the width of a head. Weights are in 16 bits. How many tokens the model can read at all is not "
      + "asked. Not counted: tokens that are generated, activations, the vision encoder, the CUDA context; and a cache in 8 bits has scales "
      + "as well. 1 GiB is 2³⁰ bytes.")));
  draw();
  return () => {
    wide.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

/* Readers without a script cannot change the model: what it changes for the request that is shown. */
function withoutScript({ model }) {
  const known = model.get("known"), job = jobOf(model), card = known.cards[job.card];
  const row = (name) => {
    const other = { ...job, shape: known.models[name] }, { cached, fitting } = budget(other, card);
    const cells = [binary(tokenBytes(other)), binary(cached), String(fitting ?? "any")];
    return h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell)));
  };
  const heads = ["model", "a token", "request", "fit"].map((text) => h("th", { scope: "col" }, text));
  return [h("div", { class: "gpulab budget" }, h("table", {}, h("caption", {}, `What each model holds on the ${card.name}, modelled`),
    h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...Object.keys(known.models).map(row))))];
}

export default { render, withoutScript };
