/* Prefill and decode on the roofline: model, card, phase, batch and tokens in the reader's hand. */
import { cardOptions, choice, factRows, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed, svg } from "../shared/svg.js";
import { binary, timeWords, many, metric, percent, three } from "../shared/words.js";
import { chunk, crossing, held, PARTS, parts, PHASES, place, ridge } from "./model.js";
import { mark, rooflinePicture } from "./picture.js";

const TRAITS = ["model", "card", "phase", "batch", "tokens"];
const QUESTION = "Which roof do the linear layers meet, and which one does attention? From which batch on does that change in decode?";

/* What the linear layers wait for. */
function ofLinearLayers({ phase, batch }, fresh, bound, cross) {
  const tokens = batch * fresh;
  const shared = `${many(tokens, "new token")} ${tokens === 1 ? "uses" : "share"} one reading of the weights, and `;
  const waits = bound === "memory" ? "that reading takes longer than the arithmetic." : "the arithmetic takes longer than that reading.";
  if (phase === "prefill") return shared + waits;
  if (!cross) return `${shared}${waits} No batch is large enough for this card's ridge.`;
  const other = bound === "memory" ? `From batch ${cross} on it is` : `Below batch ${cross} it was`;
  return `${shared}${waits} ${other} the other way round.`;
}

/* What attention waits for, and why a larger batch changes nothing. */
function ofAttention({ phase, shape }, bound) {
  const sharing = shape.heads / shape.kv_heads, own = "each request reads its own keys and values";
  if (phase === "prefill" && bound === "compute") return "Attention is bound by compute: a prompt's tokens share its keys and values.";
  if (phase === "prefill") return "Attention is bound by memory: too few tokens of a prompt share a reading of its keys and values.";
  const heads = sharing === 1 ? "and each of its heads its own" : `which ${sharing} query heads share`;
  return `Attention is bound by ${bound} whatever the batch: ${own}, ${heads}.`;
}

function ofMemory({ weights, cache }, card) {
  const would = `do not fit the card's ${binary(card.bytes)}: this is what the pass would take if they did.`;
  if (weights > card.bytes) return `The weights alone ${would}`;
  return weights + cache > card.bytes ? `So many tokens ${would}` : "";
}

function table(phase, work, places) {
  const [a, b] = PARTS, seconds = places[a].seconds + places[b].seconds;
  const line = (name, value, whole = "") => h("tr", {}, h("th", { scope: "row" }, name),
    ...[value(a), value(b), whole].map((cell) => h("td", {}, cell)));
  const head = h("tr", {}, h("th", { scope: "col" }, "modelled"), ...[...PARTS, "both"].map((name) => h("th", { scope: "col" }, name)));
  const sum = (key) => metric(work[a][key] + work[b][key]);
  return h("table", {}, h("caption", {}, `One forward pass: ${phase}`), h("thead", {}, head), h("tbody", {},
    line("FLOP", (part) => metric(work[part].flops), sum("flops")), line("bytes", (part) => metric(work[part].bytes), sum("bytes")),
    line("FLOP per byte", (part) => three(places[part].intensity)), line("bound by", (part) => places[part].bound),
    line("time at least", (part) => timeWords(places[part].seconds), timeWords(seconds))));
}

const placesOf = (job, card) => Object.fromEntries(PHASES.map((phase) => {
  const work = parts({ ...job, phase });
  return [phase, Object.fromEntries(PARTS.map((part) => [part, place(card, work[part])]))];
}));

function jobOf(model) {
  const known = model.get("known"), named = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  return { ...named, shape: known.models[named.model], element_bytes: known.element_bytes };
}

function sign(part, here) {
  const node = svg("svg", { viewBox: "0 0 18 18", "aria-hidden": "true" });
  node.append(mark(part, { cx: 9, cy: 9 }, 8, here ? "point here" : "point"));
  return node;
}

function render({ model, el }) {
  const known = model.get("known");
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const fields = {
    model: choice({ text: "model", options: Object.keys(known.models).map((name) => [name, name]), put: put("model") }),
    card: choice({ text: "card", options: cardOptions(known.cards), put: put("card") }),
    batch: slider({ text: "batch", values: known.batches, put: put("batch") }),
    tokens: slider({ text: "tokens each", values: known.tokens, put: put("tokens") }),
  };
  const buttons = PHASES.map((phase) => h("button", { type: "button", value: phase, onclick: () => put("phase")(phase) }, phase));
  const picture = h("div", { role: "group", "aria-label": "Roofline" }), numbers = h("div"), facts = h("dl");
  const legend = h("p", { class: "legend" }), verdict = h("p", { class: "verdict", role: "status" });
  const wide = followed(picture, 700, () => draw());
  function drawLegend(phase, card) {
    const other = PHASES.find((one) => one !== phase);
    const signs = PARTS.map((part) => h("span", {}, sign(part, true), ` ${part}`));
    legend.replaceChildren(...signs, h("span", {}, ...PARTS.map((part) => sign(part, false)), ` the same in ${other}`),
      h("span", {}, `roofs: ${metric(card.bytes_per_s)}B/s, ${metric(card.flops_per_s)}FLOP/s`));
  }
  function drawFacts(job, bytes, card, seconds) {
    const { fresh } = chunk(job), all = bytes.weights + bytes.cache;
    facts.replaceChildren(...factRows([
      [job.phase === "prefill" ? "tokens read" : "tokens made", `${Number(((job.batch * fresh) / seconds).toPrecision(3))} a second at most`],
      ["weights", binary(bytes.weights)], ["keys and values", binary(bytes.cache)],
      ["both, of the card", `${percent(all, card.bytes)}${all > card.bytes ? ": too much" : ""}`],
    ]));
  }
  function draw() {
    const job = jobOf(model), card = known.cards[job.card], work = parts(job), places = placesOf(job, card);
    const here = places[job.phase], cross = crossing(job, card), bytes = held(job);
    for (const [name, field] of Object.entries(fields)) field.draw(job[name]);
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.value === job.phase));
    drawLegend(job.phase, card);
    picture.replaceChildren(rooflinePicture(card, places, job.phase, cross, wide.width()));
    numbers.replaceChildren(table(job.phase, work, here));
    drawFacts(job, bytes, card, here["linear layers"].seconds + here.attention.seconds);
    verdict.textContent = [ofLinearLayers(job, chunk(job).fresh, here["linear layers"].bound, cross),
      ofAttention(job, here.attention.bound), ofMemory(bytes, card)].join(" ").trim();
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("phases", "Prefill and decode on the roofline", h("p", { class: "question" }, QUESTION),
    h("div", { class: "settings" }, ...Object.values(fields).map(({ node }) => node)),
    h("div", { class: "bar", role: "group", "aria-label": "Phase" }, ...buttons), legend, picture,
    h("div", { class: "below" }, numbers, facts), verdict,
    h("p", { class: "note" }, "Modelled by gpulab.serving.costs, nothing is timed: fp16 throughout, dense peak and bandwidth of the datasheet, "
      + "linear layers and attention one after the other, launches free. Prefill reads a prompt of so many tokens in each request; decode reads one "
      + "token in each, behind so many that it holds. A linear layer reads its matrix once, its input, and writes its output; the head runs for one "
      + "token of each request. Attention reads queries, reads each request's keys and values once, writes its output, and computes the pairs "
      + "that the causal mask leaves. Not counted: norms, softmax, rotary positions, sampling.")));
  draw();
  return () => {
    wide.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

/* Readers without a script cannot change the model: what it changes, for the card that is shown. */
function withoutScript({ model }) {
  const known = model.get("known"), card = known.cards[model.get("card")];
  const row = (name) => {
    const job = { ...jobOf(model), shape: known.models[name], phase: "decode" };
    const cells = [crossing(job, card) ?? "none", three(place(card, parts(job).attention).intensity)];
    return h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, String(cell))));
  };
  const heads = ["model", "batch at the ridge", "attention, FLOP per byte"].map((text) => h("th", { scope: "col" }, text));
  const caption = `Decode on the ${card.name}, ridge ${three(ridge(card))} FLOP per byte, modelled`;
  return [h("div", { class: "gpulab phases" }, h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...Object.keys(known.models).map(row))))];
}

export default { render, withoutScript };
