/* Where prefill and decode run: lengths, rate, link and cached prefix in the reader's hand. */
import { cardOptions, choice, factRows, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { binary, many, percent, three, timeWords } from "../shared/words.js";
import { placed } from "./model.js";
import { placesPicture } from "./picture.js";

const SLIDERS = {
  prompt: ["prompt", (value) => `${value} tokens`], writes: ["output", (value) => `${value} tokens`], rate: ["requests", (value) => `${value} a second`],
  found: ["in the cache", (value) => `${value} %`], gbit: ["link", (value) => `${value} Gb/s`],
  budget: ["shared: a step of", (value) => `${value} tokens`],
};
const TRAITS = ["model", "card", ...Object.keys(SLIDERS)];
const QUESTION = "Is it worth sending the keys and values to other cards, and how fast must the link be for that?";
const KINDS = [["wait", "waits"], ["prefill", "prefill"], ["sent", "a layer on the link"], ["exposed", "transfer not hidden"], ["decode", "decode"]];

function loadOf(known, set) {
  const found = Math.floor((set.prompt * set.found) / 100);
  return { prompt: set.prompt, found, writes: set.writes, rate: set.rate, cards: known.count, budget: set.budget, most: known.most };
}

const placedFor = (known, set) => placed(known.clocks[`${set.card} ${set.model}`], loadOf(known, set), known.links[set.gbit]);
const printed = (known, bytesPerS) => (bytesPerS * 8) / 1e9 / known.share;

function because({ one, two, link, even }, known, set) {
  if (!one && !two) return "Neither placement keeps up: fewer or shorter requests, more of the prompt in the cache, or more cards.";
  if (!two) return "No split of the cards keeps up; shared cards do, since each takes whichever phase there is.";
  if (link.load >= 1) return `A prefill card makes keys and values faster than its link takes them: it would have to be more than ${three(link.load)} times as fast, else the split's times do not hold.`;
  const hidden = `Of ${timeWords(link.seconds)} on the link, ${timeWords(link.exposed)} are not hidden behind the prefill`;
  if (!one) return `Shared cards cannot keep up, the split can. ${hidden}.`;
  const lasts = `split, a request takes ${timeWords(two.last)}, on shared cards ${timeWords(one.last)}`;
  if (two.last <= one.last) return `The split is done sooner: ${lasts}. ${hidden}; from ${three(printed(known, even))} Gb/s on that pays.`;
  if (even === null) return `Shared cards are done sooner, and no link would change that: ${lasts}.`;
  return `On this link shared cards are done sooner: ${lasts}. ${hidden}; from ${three(printed(known, even))} Gb/s on the split is.`;
}

const heads = (names) => h("thead", {}, h("tr", {}, ...names.map((text) => h("th", { scope: "col" }, text))));
const row = (name, cells) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell)));

function table({ one, two }, known) {
  const of = (tell) => [one, two].map((times) => (times ? tell(times) : "–"));
  return h("table", {}, h("caption", {}, `${known.count} cards`), heads(["modelled", "shared", "split"]), h("tbody", {},
    row("first token", of(({ first }) => timeWords(first))), row("between tokens, mean", of(({ gap }) => timeWords(gap))),
    row("longest step", of(({ worst }) => timeWords(worst))), row("last token", of(({ last }) => timeWords(last))),
    row("cards: prefill + decode", [one ? `all ${known.count}` : "–", two ? `${two.cards} + ${known.count - two.cards}` : "–"]),
    row("decode on a card", of(({ batch }) => many(batch, "request")))));
}

function factsOf({ two, link, even }, known) {
  if (!two) return ["keys and values sent", "time on the link", "of it not hidden", "link of a prefill card", "break-even"].map((name) => [name, "–"]);
  return [
    ["keys and values sent", `${binary(link.nbytes)} a request`], ["time on the link", timeWords(link.seconds)], ["of it not hidden", timeWords(link.exposed)],
    ["link of a prefill card", link.load >= 1 ? "more than full" : `${percent(link.load)} busy`], ["break-even", even === null ? "at no bandwidth" : `${three(printed(known, even))} Gb/s`],
  ];
}

const note = ({ count, most, share }) => `Modelled by gpulab.serving.Roofline, no card was timed: ${count} cards, each with the whole model in 16 bits; all requests are `
  + `alike and come at random. Shared: chunked prefill, a step of so many tokens as set, decodes first. Split: a prompt in one step, and each layer's keys and values leave `
  + "when it is computed; what lies in the cache lies there on both sides and is neither computed nor sent. The prefill makes the first token; what is not hidden "
  + `delays the second. A prompt waits as in the queue M/D/1. The split is the one whose last token comes soonest, at most ${most} requests decode on a card. A link reaches `
  + `${Math.round(100 * share)} % of what is printed, as NCCL counts; Gb/s are bits. Break-even: the last token comes no later than on shared cards. Not counted: the link's latency, `
  + "waiting for it, the host.";

function render({ model, el }) {
  const known = model.get("known");
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const fields = {
    model: choice({ text: "model", options: known.models.map((name) => [name, name]), put: put("model") }),
    card: choice({ text: "card", options: cardOptions(known.cards), put: put("card") }),
    ...Object.fromEntries(Object.entries(SLIDERS).map(([name, [text, words]]) => [name, slider({ text, values: known.values[name], words, put: put(name) })])),
  };
  const picture = h("div", { role: "group", "aria-label": "One request under both placements" }), numbers = h("div"), facts = h("dl");
  const verdict = h("p", { class: "verdict", role: "status" });
  const legend = h("p", { class: "legend" }, ...KINDS.map(([kind, text]) => h("span", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text)));
  const wide = followed(picture, 760, () => draw());
  function draw() {
    const set = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)])), found = placedFor(known, set);
    for (const [name, field] of Object.entries(fields)) field.draw(set[name]);
    picture.replaceChildren(placesPicture(found, known.clocks[`${set.card} ${set.model}`].layers, wide.width()));
    numbers.replaceChildren(table(found, known));
    facts.replaceChildren(...factRows(factsOf(found, known)));
    verdict.textContent = because(found, known, set);
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("places", "Prefill and decode on shared cards or split", h("p", { class: "question" }, QUESTION),
    h("div", { class: "settings" }, ...Object.values(fields).map(({ node }) => node)), legend, picture, h("div", { class: "below" }, numbers, facts), verdict,
    h("p", { class: "note" }, note(known))));
  draw();
  return () => {
    wide.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

/* Readers without a script cannot move the sliders: what the prompt's length and the cached share change. */
function withoutScript({ model }) {
  const known = model.get("known"), set = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const line = (name, moved) => {
    const { one, two, link, even } = placedFor(known, { ...set, ...moved });
    return row(name, [one ? timeWords(one.last) : "–", two ? timeWords(two.last) : "–", two ? binary(link.nbytes) : "–", two ? timeWords(link.exposed) : "–",
      even === null ? "–" : `${three(printed(known, even))} Gb/s`]);
  };
  const told = (caption, rows) => h("table", { class: "told" }, h("caption", {}, caption), heads(["", "shared, last", "split, last", "sent", "not hidden", "break-even"]), h("tbody", {}, ...rows));
  return [h("div", { class: "gpulab places" },
    told("By the prompt's tokens, modelled; –: cannot keep up, or never", known.values.prompt.map((prompt) => line(String(prompt), { prompt }))),
    told("By the share of the prompt in the cache, modelled", known.values.found.map((found) => line(`${found} %`, { found }))),
    told("By the tokens of a step on shared cards, modelled", known.values.budget.map((budget) => line(String(budget), { budget }))))];
}

export default { render, withoutScript };
