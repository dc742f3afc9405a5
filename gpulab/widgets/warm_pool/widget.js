/* A warm pool on a load: the policy in the reader's hand, its size over time, and what waits and idle time become. */
import { choice, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { percent } from "../shared/words.js";
import { keeping, lately, percentile, replay } from "./model.js";
import { poolPicture } from "./picture.js";

const SECONDS = (value) => `${value} s`;
const SLIDERS = {
  memory: ["remembers", SECONDS], room: ["room for", (value) => `${value} more`], cold: ["a start", SECONDS], service: ["a request", SECONDS],
};
const TRAITS = ["load", ...Object.keys(SLIDERS)];
const NAMES = { steady: "steady", day: "a day", nights: "quiet nights", pulses: "jobs by the clock" };
const QUESTION = "How much does this pool have to remember, and how much room does it need, so that hardly anyone waits?";

function played(get, known) {
  const arrivals = known.loads[get("load")], times = [get("cold"), get("service")];
  const size = keeping(arrivals, ...times, 0, known.settle);
  return { mine: replay(lately(get("memory"), get("room")), arrivals, ...times, known.settle), size,
    theirs: replay(() => size, arrivals, ...times, known.settle) };
}

function verdictOf({ mine, theirs }, cold) {
  const late = percentile(mine.waits, 99), ratio = mine.unused / theirs.unused, again = mine.starts / mine.waits.length;
  const waits = late > cold / 2 ? `One request in a hundred waits ${late} s or longer, most of a start.` : `99 of 100 requests begin within ${late} s.`;
  const pays = ratio < 0.95 ? `${percent(1 - ratio)} less is paid unused than in the fixed pool.`
    : ratio > 1.05 ? `${percent(ratio - 1)} more is paid unused than in the fixed pool.` : "As much is paid unused as in the fixed pool.";
  return `${waits} ${pays}${again > 1 / 12 ? " Instances are stopped and started again." : ""}`;
}

function table({ mine, theirs, size }) {
  const row = (name, one) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, `${percentile(one.waits, 50)} s`),
    h("td", {}, `${percentile(one.waits, 99)} s`), h("td", {}, String(one.unused)), h("td", {}, String(one.starts)));
  const heads = ["modelled", "p50", "p99", "unused, s", "starts"].map((text) => h("th", { scope: "col" }, text));
  return h("table", {}, h("caption", {}, `Waits of ${mine.waits.length} requests, and what is paid for nothing`),
    h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, row("this policy", mine), row(`always ${size}`, theirs)));
}

function render({ model, el }) {
  const known = model.get("known");
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const fields = {
    load: choice({ text: "load", options: Object.entries(NAMES), put: put("load") }),
    ...Object.fromEntries(Object.entries(SLIDERS).map(([name, [text, words]]) =>
      [name, slider({ text, values: known.values[name], words, put: put(name) })])),
  };
  const picture = h("div", { role: "group", "aria-label": "Requests and instances in time" }), numbers = h("div");
  const verdict = h("p", { class: "verdict", role: "status" });
  const swatch = (kind) => h("span", { class: `swatch ${kind}`, "aria-hidden": "true" });
  const legend = h("p", { class: "legend" }, ...[["needs", "at work or waiting"], ["sizes", "instances"], ["fixed", "fixed pool"],
    ["settle", "not counted"]].map(([kind, text]) => h("span", {}, swatch(kind), text)));
  const wide = followed(picture, 760, () => draw());
  function draw() {
    const found = played((name) => model.get(name), known);
    for (const [name, field] of Object.entries(fields)) field.draw(model.get(name));
    picture.replaceChildren(poolPicture(found.mine, found.size, known.settle, wide.width()));
    numbers.replaceChildren(table(found));
    verdict.textContent = verdictOf(found, model.get("cold"));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("pool", "Warm pool on a load", h("p", { class: "question" }, QUESTION),
    h("div", { class: "settings" }, ...Object.values(fields).map(({ node }) => node)), legend, picture, verdict, numbers,
    h("p", { class: "note" }, "Modelled by gpulab.platforms: an instance serves one request at a time, and a waiting one for which none is "
      + "starting starts its own. The policy has the most that was at work or waited in the last seconds, and some more. The fixed pool is the "
      + "smallest in which 99 of 100 begin at once, found on the same load in hindsight. Unused are instance-seconds idle or starting.")));
  draw();
  return () => {
    wide.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

/* Readers without a script cannot move the memory: what it changes on the load that is shown. */
function withoutScript({ model }) {
  const known = model.get("known");
  const row = (memory) => {
    const { mine } = played((name) => (name === "memory" ? memory : model.get(name)), known);
    return h("tr", {}, h("th", { scope: "row" }, SECONDS(memory)), h("td", {}, `${percentile(mine.waits, 99)} s`), h("td", {}, String(mine.unused)),
      h("td", {}, String(mine.starts)));
  };
  const heads = ["remembers", "p99", "unused, s", "starts"].map((text) => h("th", { scope: "col" }, text));
  return [h("div", { class: "gpulab pool" }, h("table", {}, h("caption", {}, `What memory changes on the load: ${NAMES[model.get("load")]}, modelled`),
    h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...known.values.memory.map(row))))];
}

export default { render, withoutScript };
