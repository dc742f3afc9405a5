/* Buckets of a backward pass on a link: their size, the link and the layers in the reader's hand. */
import { factRows, powersOfTwo, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { percent } from "../shared/words.js";
import { overlap, shortest, sweep } from "./model.js";
import { curve, micros, timeline } from "./picture.js";

const TRAITS = ["layers", "layer_mib", "bucket_mib", "layer_us", "alpha_us", "gb_per_s", "ranks"];
const sizes = (count, mib) => Array.from({ length: count }, (_, i) => (i + 1) * mib);

/* What the step waits for at its end. */
function because({ sent, exposed_us, backward_us }, job) {
  const last = sent[sent.length - 1], waits = last.start_us - last.ready_us;
  const busy = sent.reduce((all, { start_us, end_us }) => all + end_us - start_us, 0), latency = job.alpha_us * sent.length;
  if (sent.length === 1) return "One bucket. It is complete when the backward pass is over, and all of its all-reduce is exposed.";
  if (waits <= 1e-9 * busy) return "Only the last bucket is exposed: it is complete when the backward pass ends, and finds the link free.";
  const queue = `Buckets queue for the link, and the last one waits ${micros(waits)}.`;
  if (latency > busy / 2) return `${queue} ${percent(latency, busy)} of the link's time is latency: fewer, larger buckets pay it less often.`;
  if (busy - latency > backward_us) return `${queue} The bytes alone take the link longer than the backward pass takes: no size hides them.`;
  return `${queue} Of the ${micros(exposed_us)} that are exposed the last bucket's own all-reduce takes ${micros(last.end_us - last.start_us)}.`;
}

function render({ model, el }) {
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const count = model.get("layers"), mib = model.get("layer_mib");
  const sliders = {
    bucket_mib: slider({ text: "bucket size", values: sizes(count, mib), words: (size) => `${size} MiB`, put: put("bucket_mib") }),
    alpha_us: slider({ text: "latency", values: powersOfTwo(0, 10), words: (us) => `${us} µs`, put: put("alpha_us") }),
    gb_per_s: slider({ text: "bandwidth", values: powersOfTwo(0, 9), words: (rate) => `${rate} GB/s`, put: put("gb_per_s") }),
    ranks: slider({ text: "ranks", values: powersOfTwo(1, 10), put: put("ranks") }),
    layer_us: slider({ text: "a layer takes", values: powersOfTwo(0, 10), words: (us) => `${us} µs`, put: put("layer_us") }),
  };
  const lanes = h("div", { class: "lanes", role: "group", "aria-label": "Timeline" });
  const bend = h("div", { class: "bend", role: "group", "aria-label": "Step time by bucket size" });
  const verdict = h("p", { class: "verdict", role: "status" }), facts = h("dl");
  const wide = followed(lanes, 760, () => draw()), narrow = followed(bend, 460, () => draw());
  function job() {
    const get = (name) => model.get(name), layer_bytes = get("layer_mib") * 2 ** 20;
    return {
      layers: get("layers"), layer_us: get("layer_us"), layer_bytes, bucket_bytes: get("bucket_mib") * 2 ** 20,
      alpha_us: get("alpha_us"), bytes_per_us: get("gb_per_s") * 1e3, ranks: get("ranks"),
    };
  }
  function draw() {
    const now = job(), found = overlap(now), steps = sweep(now), best = shortest(steps);
    for (const [name, { draw: show }] of Object.entries(sliders)) show(model.get(name));
    lanes.replaceChildren(timeline(found, now, Math.max(...steps.map(({ step_us }) => step_us)), wide.width()));
    bend.replaceChildren(curve(steps, found, model.get("bucket_mib") / mib, best, mib, Math.min(460, narrow.width())));
    verdict.textContent = because(found, now);
    facts.replaceChildren(...factRows([
      ["all-reduces", String(found.sent.length)], ["first begins after", micros(found.sent[0].start_us)],
      ["backward pass", micros(found.backward_us)],
      ["all is summed after", micros(found.step_us)], ["exposed", `${micros(found.exposed_us)}, ${percent(found.exposed_us, found.step_us)}`],
      ["best size", `${best.layers * mib} MiB, ${micros(best.step_us)}`],
    ]));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("buckets", "Buckets of a backward pass",
    h("div", { class: "settings" }, ...Object.values(sliders).map(({ node }) => node)), lanes, verdict,
    h("div", { class: "below" }, bend, facts),
    h("p", { class: "note" }, `Modelled: ${count} equal layers, ${mib} MiB of gradients each; `
      + "an all-reduce takes the latency, and then 2 (n - 1) / n of its bytes over the bandwidth. "
      + "The first bucket is as large as the others, and the link takes nothing from the arithmetic.")));
  draw();
  return () => {
    wide.stop();
    narrow.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

export default { render };
