/* One step of FSDP: the reader steps from event to event, and switches what may be switched. */
import { slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { player } from "../shared/player.js";
import { followed } from "../shared/svg.js";
import { exposed, live, replicated, sent } from "./model.js";
import { holdings, liveLine } from "./picture.js";

const SWITCHES = [["reshard", "reshard after forward"], ["prefetch", "prefetch"]];
const TRAITS = ["ranks", "reshard", "prefetch", "step"];
const PARTS = { 2: "half", 3: "third", 4: "quarter" };
const PASSES = { forward: "Forward", backward: "Backward" };
const SENT = { all_gather: "all-gather", reduce_scatter: "reduce-scatter" };

/* What an event does in every rank. */
function told({ compute, sends, frees }, ranks) {
  const part = PARTS[ranks];
  if (frees !== null) return `Every rank frees unit ${frees}, but for its own ${part} of the weights.`;
  if (compute?.[0] === "update") return `Every rank updates its own ${part} of every unit. Nothing is sent.`;
  const network = sends.map(([kind, unit]) => `${SENT[kind]} of unit ${unit}`).join(", then ");
  if (compute) return `${PASSES[compute[0]]} pass of unit ${compute[1]}.${network ? ` Meanwhile: ${network}.` : ""}`;
  const [[kind, unit]] = sends;
  return kind === "all_gather" ? `All-gather: every rank gets the other slices of unit ${unit}, and waits for them.`
    : `Reduce-scatter: the gradients of unit ${unit} are summed, and every rank keeps its ${part}.`;
}

const LEGEND = [["weights", "W: weights"], ["local", "G: gradients of its own batch"], ["summed", "G: gradients, summed"]];

function comparison(all, now, units, n) {
  const times = (count) => (count / units).toFixed(2);
  const rows = [
    ["holds now", times(live(all[now], units, n)), times(replicated(all[now], units))],
    ["holds at most", times(Math.max(...all.map((one) => live(one, units, n)))), times(2 * units)],
    ["has sent by now", times(sent(all.slice(0, now + 1), n)), "–"],
    ["sends in the step", times(sent(all, n)), times((2 * units * (n - 1)) / n)],
  ];
  const head = ["a rank", "FSDP", "DDP"].map((text) => h("th", { scope: "col" }, text));
  const body = rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell))));
  const caption = h("caption", {}, "In times the model's weights");
  return h("table", { class: "compared" }, caption, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body));
}

function render({ model, el }) {
  const units = model.get("units");
  const set = (name, value) => { model.set(name, value); model.save_changes(); draw(); };
  const moments = () => model.get("schedules")[SWITCHES.map(([name]) => name).filter((name) => model.get(name)).join(" ")];
  const at = () => Math.max(0, Math.min(moments().length, model.get("step")) - 1);
  const heading = (step) => `Event ${step + 1} of ${moments().length}`;
  const controls = player({ at, last: () => moments().length - 1, go: (step) => set("step", step + 1), words: heading, name: "Event" });
  function flip(name) {
    controls.stop();
    model.set("step", 1);
    set(name, !model.get(name));
  }
  const switches = SWITCHES.map(([name, text]) => h("button", { type: "button", value: name, onclick: () => flip(name) }, text));
  const ranks = slider({ text: "ranks", values: [2, 3, 4], put: (value) => set("ranks", value) });
  const status = h("p", { class: "status", role: "status" });
  const waits = h("p", { class: "waits" }), numbers = h("div");
  const legend = h("p", { class: "legend" }, ...LEGEND.map(([kind, text]) =>
    h("span", {}, h("span", { class: `strip ${kind}`, "aria-hidden": "true" }, h("span", { class: "slice on" })), text)));
  const held = h("div", { class: "held", role: "group", "aria-label": "What every rank holds", tabindex: 0 });
  const line = h("div", { class: "line", role: "group", "aria-label": "What is held, event by event" });
  const place = followed(line, 760, () => draw());
  function draw() {
    const all = moments(), now = at(), n = model.get("ranks"), found = exposed(all);
    for (const button of switches) button.setAttribute("aria-pressed", String(model.get(button.value)));
    ranks.draw(n);
    controls.draw();
    status.textContent = `${heading(now)}. ${told(all[now].event, n)}`;
    held.replaceChildren(holdings(all[now], units, n));
    line.replaceChildren(liveLine(all, units, n, now, place.width()));
    waits.textContent = `Arithmetic waits for ${found.alone} of the ${found.all} collectives.`;
    numbers.replaceChildren(comparison(all, now, units, n));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("fsdp", "One step of FSDP",
    h("div", { class: "bar", role: "group", "aria-label": "How it is run" }, ...switches, ranks.node),
    controls.node, status, legend, held, line, waits, numbers,
    h("p", { class: "note" }, "Modelled: the order of events, without times; four equal units. What is gathered is a copy beside the rank's slice. "
      + "Not drawn: optimizer state, of which a rank of FSDP has its slice and a rank of DDP all; activations; buffers of the collectives.")));
  draw();
  return () => {
    controls.stop();
    place.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

export default { render };
