/* Slots of a batch under three policies: token budget, unequal outputs and arrivals in the reader's hand. */
import { slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { percent } from "../shared/words.js";
import { play, requestsOf } from "./model.js";
import { ms, slotsPicture } from "./picture.js";

const LEVELS = ["all equal", "a little", "unequal", "more", "very"];
const SLIDERS = { tokens: ["token budget", String], unequal: ["outputs", (level) => LEVELS[level]],
  spacing_ms: ["an arrival", (value) => (value ? `each ${value} ms` : "all at 0")] };
const TRAITS = Object.keys(SLIDERS);
const QUESTION = "Where do slots stand empty, and which step makes everyone wait for the next token?";
const KINDS = [["prefill", "prefill"], ["decode", "decode"], ["stalled", "holds its slot, computes nothing"], ["idle", "empty"],
  ["worst", "longest gap between tokens"]];

function jobOf(known, { tokens, unequal, spacing_ms }) {
  return { requests: requestsOf(known, unequal, spacing_ms), slots: known.slots, clock: known.clock, tokens };
}

const playsOf = (known, set) => Object.fromEntries(known.policies.map((policy) => [policy, play(policy, jobOf(known, set))]));

function ofSlots(late, soon) {
  const both = `${ms(late.makespan)}, continuous batching after ${ms(soon.makespan)}`;
  if (late.makespan > soon.makespan) return `Static batching is done after ${both}: a slot that becomes free is taken in the next step, not when the batch is empty.`;
  return `Static batching is done after ${both}: here it has nothing to lose.`;
}

function ofGaps(whole, cut, tokens) {
  const from = `${ms(whole.gap)} with whole prompts`;
  if (ms(cut.gap) === ms(whole.gap)) return `A step of ${tokens} tokens takes the prompts as they come: chunks change nothing of the longest gap, ${ms(cut.gap)}.`;
  if (cut.gap > whole.gap) return `Chunks fill each step up to ${tokens} tokens, so the longest gap is ${ms(cut.gap)}; it is ${from}.`;
  const later = cut.ttft - whole.ttft, mean = `a first token comes after ${ms(cut.ttft)} in the mean, not ${ms(whole.ttft)}`;
  const price = Math.abs(later) < 500 ? "" : later > 0 ? ` The price: ${mean}.` : ` And ${mean}.`;
  return `With chunks no step computes more than ${tokens} tokens: the longest gap is ${ms(cut.gap)}; it is ${from}.${price}`;
}

const heads = (names) => h("thead", {}, h("tr", {}, ...names.map((text) => h("th", { scope: "col" }, text))));
const row = (name, cells) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell)));

const table = (plays) => h("table", {}, h("caption", {}, "Modelled"), heads(["policy", "slots idle", "done after", "longest gap", "first token, mean"]),
  h("tbody", {}, ...Object.entries(plays).map(([policy, { idle, makespan, gap, ttft }]) => row(policy, [percent(idle), ms(makespan), ms(gap), ms(ttft)]))));

const note = ({ slots, clock }) => `Modelled: a step takes ${clock.step / 1000} ms and ${clock.token / 1000} ms for each token that it computes, no card's numbers. `
  + `Eight requests, A to H, ${slots} slots, room for all in the cache. Static and continuous batching compute a prompt in one step, so the budget they get has room `
  + "for the longest prompt beside the decodes of all other slots, whatever the slider says. Static batching is kinder here than it was: "
  + "tokens are told as they come, and nothing is padded. Idle counts the time of steps only, whether or not someone waits.";

function render({ model, el }) {
  const known = model.get("known");
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const fields = Object.fromEntries(Object.entries(SLIDERS).map(([name, [text, words]]) =>
    [name, slider({ text, values: known.values[name], words, put: put(name) })]));
  const picture = h("div", { role: "group", "aria-label": "Slots over time" }), numbers = h("div");
  const verdict = h("p", { class: "verdict", role: "status" });
  const legend = h("p", { class: "legend" }, ...KINDS.map(([kind, text]) => h("span", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text)));
  const wide = followed(picture, 760, () => draw());
  function draw() {
    const set = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)])), plays = playsOf(known, set);
    for (const [name, field] of Object.entries(fields)) field.draw(set[name]);
    picture.replaceChildren(slotsPicture(plays, known.slots, wide.width()));
    numbers.replaceChildren(table(plays));
    verdict.textContent = `${ofSlots(plays.static, plays.continuous)} ${ofGaps(plays.continuous, plays.chunked, set.tokens)}`;
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("slots", "Slots of a batch under three policies", h("p", { class: "question" }, QUESTION),
    h("div", { class: "settings" }, ...Object.values(fields).map(({ node }) => node)), legend, picture, numbers, verdict,
    h("p", { class: "note" }, note(known))));
  draw();
  return () => {
    wide.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

/* Readers without a script cannot move the sliders: what two of them change. */
function withoutScript({ model }) {
  const known = model.get("known"), set = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const idles = known.values.unequal.map((unequal) => {
    const plays = playsOf(known, { ...set, unequal });
    return row(LEVELS[unequal], known.policies.map((policy) => percent(plays[policy].idle)));
  });
  const budgets = known.values.tokens.map((tokens) => {
    const { gap, makespan, ttft } = play("chunked", jobOf(known, { ...set, tokens }));
    return row(String(tokens), [ms(gap), ms(makespan), ms(ttft)]);
  });
  return [h("div", { class: "gpulab slots" },
    h("table", {}, h("caption", {}, "Slots idle, by how unequal the outputs are, modelled"), heads(["outputs", ...known.policies]), h("tbody", {}, ...idles)),
    h("table", {}, h("caption", {}, "Chunked batching, by the token budget of a step, modelled"), heads(["tokens", "longest gap", "done after", "first token, mean"]), h("tbody", {}, ...budgets)))];
}

export default { render, withoutScript };
