/* Checkpointed segments of a chain of layers: their number, the chain and the bytes in the reader's hand. */
import { factRows, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { player } from "../shared/player.js";
import { followed } from "../shared/svg.js";
import { many, percent } from "../shared/words.js";
import { chain, checkpointed, fewest, passes, peak, recomputed, segmentsOf, stops, sweep, valley } from "./model.js";
import { amount, chainPicture, curve, heldPicture } from "./picture.js";

const TRAITS = ["layers", "segments", "layer_mib", "checkpoint_mib", "last"];
const STATES = [["ahead", "to come"], ["kept", "kept"], ["dropped", "dropped"], ["recomputed", "recomputed"], ["done", "done"]];
const upTo = (most) => Array.from({ length: most }, (_, i) => i + 1);

/* What the peak consists of, and what would lower it. */
function cause(job, sizes, best) {
  const { held } = sizes[job.segments - 1], last = segmentsOf(job)[job.segments - 1].length, size = Math.floor(job.layers / job.segments);
  const share = percent(last * job.layer_bytes, held), checkpoints = (job.segments - 1) * job.checkpoint_bytes;
  if (job.segments === 1 && !job.last) return "One segment is the last one, and nothing is checkpointed.";
  if (job.segments === 1) return "One segment: every layer runs twice, and all are held again before the backward pass. Nothing is saved.";
  if (held === best.held) return `No k has a lower peak: ${many(job.segments - 1, "checkpoint")}, and a segment of ${many(last, "layer")}.`;
  if (last >= 2 * size && checkpoints <= held / 2) return `Segments have ${many(size, "layer")}, the last takes what is left: its ${last} layers are ${share} of the peak.`;
  if (job.segments > best.segments) return `Checkpoints are ${percent(checkpoints, held)} of the peak: fewer, longer segments would hold less.`;
  return `The last segment's ${many(last, "layer")} are ${share} of the peak: more, shorter segments would hold less.`;
}

function because(job, sizes, best) {
  const last = segmentsOf(job)[job.segments - 1].length, vain = job.last && job.segments > 1;
  const more = vain ? ` The last segment's checkpoint adds the recomputation of ${many(last, "layer")}, and the peak is the same.` : "";
  return cause(job, sizes, best) + more;
}

/* What has just happened. */
function told(job, { phase, segment }) {
  const layers = segmentsOf(job)[segment], [first, last] = [layers[0] + 1, layers[layers.length - 1] + 1];
  const name = `segment ${segment + 1} of ${job.segments}, ${first === last ? `layer ${first}` : `layers ${first} to ${last}`}`;
  if (phase === "backward") return `Backward pass of ${name}: all that was saved is freed.`;
  if (phase === "recompute") return `Recomputation of ${name}, from its checkpoint: all that is saved is held.`;
  return `Forward pass of ${name}: ${checkpointed(job, segment) ? "its input is kept, the rest is dropped" : "all that is saved is kept"}.`;
}

function render({ model, el }) {
  const known = model.get("known"), counts = upTo(known.most_layers), checkpoints = [...known.mib], mib = (size) => `${size} MiB`;
  let at = null; // a stop; none before the reader moves along the step: that of the peak
  const job = () => {
    const [layers, segments, layer, checkpoint, last] = TRAITS.map((name) => model.get(name));
    const bytes = { layer_bytes: layer * 2 ** 20, checkpoint_bytes: Math.min(checkpoint, layer) * 2 ** 20 };
    return { layers, segments: Math.min(segments, layers), ...bytes, last };
  };
  const step = () => {
    const turns = passes(job()), ends = stops(turns), most = peak(turns);
    return { turns, ends, most, at: at ?? ends.indexOf(turns.indexOf(most)) };
  };
  /* `bounded`: another trait, which is at most as large. */
  const put = (name, bounded) => (value) => {
    controls.stop();
    if (bounded && model.get(bounded) > value) model.set(bounded, value);
    model.set(name, value);
    model.save_changes();
    moved();
  };
  const sliders = {
    segments: slider({ text: "segments, k", values: counts, put: put("segments") }),
    layers: slider({ text: "layers, n", values: upTo(known.most_layers).slice(1), put: put("layers", "segments") }),
    layer_mib: slider({ text: "a layer saves, a", values: known.mib, words: mib, put: put("layer_mib", "checkpoint_mib") }),
    checkpoint_mib: slider({ text: "a checkpoint, c", values: checkpoints, words: mib, put: put("checkpoint_mib") }),
  };
  const flip = h("button", { type: "button", onclick: () => put("last")(!model.get("last")) }, "checkpoint the last segment too");
  const controls = player({ at: () => step().at, last: () => step().ends.length - 1, go: (stop) => { at = stop; draw(); },
    words: (stop) => `Moment ${stop + 1} of ${step().ends.length}`, name: "Moment", tickMs: 700 });
  const status = h("p", { class: "status", role: "status" }), verdict = h("p", { class: "verdict" }), facts = h("dl");
  const marks = h("span", { class: "count" }), counted = Object.fromEntries(STATES.map(([state]) => [state, h("span", { class: "count" })]));
  const legend = h("p", { class: "legend" }, ...STATES.map(([state, text]) =>
    h("span", {}, h("span", { class: `swatch ${state}`, "aria-hidden": "true" }), `${text}: `, counted[state])),
    h("span", {}, h("span", { class: "diamond", "aria-hidden": "true" }, "◆ "), "checkpoints: ", marks));
  const boxes = h("div", { role: "group", "aria-label": "The chain of layers" });
  const line = h("div", { role: "group", "aria-label": "What is held through the step" });
  const bend = h("div", { role: "group", "aria-label": "Peak by the number of segments" });
  const wide = followed(line, 760, () => draw()), narrow = followed(bend, 460, () => draw());
  function moved() {
    at = null;
    draw();
  }
  function drawStep(now) {
    const { turns, ends, most, at: stop } = step(), turn = turns[ends[stop]], found = chain(now, turns, ends[stop]);
    for (const [state] of STATES) counted[state].textContent = String(found.layers.filter((one) => one === state).length);
    marks.textContent = String(found.held.length);
    const words = STATES.map(([state, text]) => `${text}: ${counted[state].textContent}`).join(", ");
    status.textContent = `${told(now, turn)} Held: ${amount(turn.held)}${turn === most ? ", the peak" : ""}.`;
    boxes.replaceChildren(chainPicture(now, found, `Layers ${words}; checkpoints held: ${found.held.length}.`, wide.width()));
    line.replaceChildren(heldPicture(now, turns, most, ends[stop], wide.width()));
    return { again: recomputed(turns), most };
  }
  function draw() {
    const now = job(), sizes = sweep(now), best = fewest(sizes), whole = now.layers * now.layer_bytes;
    counts.splice(0, counts.length, ...upTo(now.layers));
    checkpoints.splice(0, checkpoints.length, ...known.mib.filter((size) => size <= model.get("layer_mib")));
    const shown = { ...now, layer_mib: now.layer_bytes / 2 ** 20, checkpoint_mib: now.checkpoint_bytes / 2 ** 20 };
    for (const [name, one] of Object.entries(sliders)) one.draw(shown[name]);
    flip.setAttribute("aria-pressed", String(now.last));
    controls.draw();
    const { again, most } = drawStep(now);
    bend.replaceChildren(curve(now, sizes, best, valley(now), Math.min(460, narrow.width())));
    verdict.textContent = because(now, sizes, best);
    facts.replaceChildren(...factRows([
      ["peak", `${amount(most.held)}, ${percent(most.held, whole)}`], ["no checkpointing", amount(whole)],
      ["recomputed", `${again} of ${many(now.layers, "layer")}`], ["forward + backward", `${percent(again, 3 * now.layers)} more`],
      ["lowest peak", `${amount(best.held)}, k = ${best.segments}`], ["√(n a / c)", valley(now).toFixed(1)],
    ]));
  }
  for (const name of TRAITS) model.on(`change:${name}`, moved);
  el.append(widgetRoot("segments", "Checkpointed segments of a chain of layers",
    h("div", { class: "settings" }, ...Object.values(sliders).map(({ node }) => node)), h("div", { class: "bar" }, flip),
    controls.node, status, boxes, legend, line,
    h("div", { class: "below" }, bend, facts), verdict,
    h("p", { class: "note" }, "Modelled: what checkpoint_sequential holds for the backward pass of n equal layers. A segment has ⌊n / k⌋ layers, "
      + "the last takes what is left. What a layer saves has its input in it, which is the checkpoint of a segment's first layer. "
      + "A layer's backward pass takes as long as two of its forward passes. Dashed: without checkpointing. "
      + "Thin, below: (k − 1) c + n a / k, segments of equal length, least at √(n a / c). Not drawn: gradients, weights, "
      + "and what lives only while one layer runs.")));
  draw();
  return () => {
    controls.stop();
    wide.stop();
    narrow.stop();
    for (const name of TRAITS) model.off(`change:${name}`, moved);
  };
}

export default { render };
