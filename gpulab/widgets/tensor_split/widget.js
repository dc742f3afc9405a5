/* The two matrices of an MLP, cut by the reader; what each rank then sends and holds. */
import { choice, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { binary, three } from "../shared/words.js";
import { crossings, held, sent, total } from "./model.js";
import { splitPicture } from "./picture.js";

const TRAITS = ["first", "second", "gather", "sequence", "ranks", "tokens", "width"];
const CUTS = [["columns", "by columns"], ["rows", "by rows"]];
const CALLED = { all_reduce: "all-reduce", all_gather: "all-gather", reduce_scatter: "reduce-scatter", all_to_all: "all-to-all" };
const BEST = { first: "columns", second: "rows", gather: false, sequence: false };
const QUESTION = "Which cut of A and B needs one all-reduce in each pass, and nothing else?";
const READ = { AR: "all-reduce", AG: "all-gather", RS: "reduce-scatter", A2A: "all-to-all" };

/* Why z crosses, or why it does not; and what the cut costs beside Megatron's. */
function because(cut, shape) {
  const times = total(cut, shape) / total(BEST, shape);
  const beside = Math.abs(times - 1) < 1e-9 ? "Each rank sends as little as with columns, then rows."
    : times > 1 ? `Each rank sends ${three(times)} times what columns, then rows would.` : `Each rank sends ${three(times)} of what columns, then rows would.`;
  if (cut.first === "rows") return `Rows first make a summand of z on every rank, and gelu(a + b) is not gelu(a) + gelu(b): the sum comes first. ${beside}`;
  if (cut.second === "columns") return `B by columns wants z whole, so it is gathered. ${beside}`;
  if (cut.gather) return `B by rows wants only the columns of z that its rank has made. They are gathered and thrown away. ${beside}`;
  return `The columns of z that a rank makes are those that its rows of B take: nothing crosses between. ${beside}`
    + (cut.sequence ? " The same bytes, as halves of an all-reduce, with x and y split." : "");
}

function table(found, shape) {
  const head = ["pass", "of", "collective", "a rank sends"].map((text) => h("th", { scope: "col" }, text));
  const rows = found.map((one) => h("tr", {}, h("th", { scope: "row" }, one.passing), h("td", {}, one.tensor), h("td", {}, CALLED[one.kind]), h("td", {}, binary(sent(one, shape)))));
  const sum = h("tr", { class: "sum" }, h("th", { scope: "row" }, "both"), h("td", {}, ""), h("td", {}, String(found.length)), h("td", {}, binary(found.reduce((all, one) => all + sent(one, shape), 0))));
  return h("table", {}, h("caption", {}, "In a step, in bf16"), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows, sum));
}

function holdings(cut, shape) {
  const rows = Object.entries(held(cut, shape)).map(([name, bytes]) => h("tr", {}, h("th", { scope: "row" }, name === "weights" ? "A and B" : name), h("td", {}, binary(bytes))));
  return h("table", { class: "holdings" }, h("caption", {}, "A rank holds"), h("tbody", {}, ...rows));
}

function render({ model, el }) {
  const known = model.get("known");
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const flag = (name, text) => {
    const button = h("button", { type: "button", onclick: () => put(name)(!model.get(name)) }, text);
    return { node: button, draw: (value) => button.setAttribute("aria-pressed", String(value)) };
  };
  const fields = {
    first: choice({ text: "A", options: CUTS, put: put("first") }), second: choice({ text: "B", options: CUTS, put: put("second") }),
    ranks: slider({ text: "ranks", values: known.ranks, put: put("ranks") }), tokens: slider({ text: "tokens", values: known.tokens, put: put("tokens") }),
    width: slider({ text: "width", values: known.widths, put: put("width") }),
  };
  const flags = { gather: flag("gather", "gather z in between"), sequence: flag("sequence", "x and y split by tokens") };
  const picture = h("div", { class: "picture", role: "group", "aria-label": "The cut matrices" }), verdict = h("p", { class: "verdict", role: "status" });
  const numbers = h("div", { class: "crossings" }), memory = h("div"), place = followed(picture, 760, () => draw());
  function draw() {
    const set = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const shape = { tokens: set.tokens, width: set.width, hidden: known.times * set.width, ranks: set.ranks }, found = crossings(set);
    for (const [name, field] of Object.entries({ ...fields, ...flags })) field.draw(set[name]);
    picture.replaceChildren(splitPicture(set, set.ranks, found, place.width()));
    verdict.textContent = because(set, shape);
    numbers.replaceChildren(table(found, shape));
    memory.replaceChildren(holdings(set, shape));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("split", "An MLP cut over ranks", h("p", { class: "question" }, QUESTION),
    h("div", { class: "settings" }, ...Object.values(fields).map(({ node }) => node)),
    h("div", { class: "bar", role: "group", "aria-label": "Layouts" }, ...Object.values(flags).map(({ node }) => node)),
    picture, h("p", { class: "legend" }, Object.entries(READ).map(([short, long]) => `${short}: ${long}`).join(", "), ". A stripe is a rank's part; without stripes every rank has all."),
    verdict, h("div", { class: "below" }, numbers, memory),
    h("p", { class: "note" }, `Counted: y = gelu(x A) B, x of tokens × width, z = x A of tokens × ${known.times} width. Below the boxes: the gradients' collectives. `
      + "All-reduce, all-gather and reduce-scatter by rings. The arithmetic of a rank is the same in all.")));
  draw();
  return () => {
    place.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

/* Readers without a script cannot choose: what every cut sends. */
function withoutScript({ model }) {
  const known = model.get("known"), shape = { tokens: model.get("tokens"), width: model.get("width"), hidden: known.times * model.get("width"), ranks: model.get("ranks") };
  const row = (cut) => h("tr", {}, h("th", { scope: "row" }, `A by ${cut.first}, B by ${cut.second}${cut.gather ? ", z gathered" : ""}${cut.sequence ? ", x and y split" : ""}`),
    h("td", {}, crossings(cut).map(({ kind, tensor }) => `${CALLED[kind]} of ${tensor}`).join(", ")), h("td", {}, binary(total(cut, shape))));
  const cuts = CUTS.flatMap(([first]) => CUTS.flatMap(([second]) => [false, true].map((sequence) => ({ first, second, gather: false, sequence }))));
  const head = ["cut", "collectives of a step", "a rank sends"].map((text) => h("th", { scope: "col" }, text));
  return [h("div", { class: "gpulab split" }, h("table", { class: "told" }, h("caption", {}, "Every cut"), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...[...cuts, { ...BEST, gather: true }].map(row))))];
}

export default { render, withoutScript };
