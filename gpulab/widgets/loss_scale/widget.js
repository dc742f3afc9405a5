/* The loss scale over time: first scale, growth interval, gradients, overflows and the loop, in the reader's hand. */
import { factRows } from "../shared/controls.js";
import { h, uid, widgetRoot } from "../shared/dom.js";
import { simulate } from "./model.js";
import { scalePicture, stepAt } from "./picture.js";

const SLIDERS = [["init", "first scale", 0, 24, true], ["interval", "growth interval", 1, 100, false], ["peak", "gradient", -30, 10, true]];
const TRAITS = ["init", "interval", "peak", "spikes", "loop", "steps"];
const OVERFLOWS = 16; // 2^16 rounds to infinity in fp16

const times = (ratio) => (ratio === 0 ? "0: it vanished" : (ratio === 1 ? "all of it" : `${Number(ratio.toPrecision(3))} of it`));

function verdict(told, loop) {
  const last = told.at(-1), skipped = told.filter(({ applied, error }) => applied === null && !error).length;
  if (last.error) return `PyTorch stops in step ${told.length - 1}: ${last.error}`;
  const broken = told.findIndex(({ sound }) => !sound);
  if (broken >= 0) return `Step ${broken} writes an infinity into the weights; every later step is lost.`;
  if (skipped === told.length) return "Every step is skipped: nothing is learned, and nothing says so.";
  const applied = told.find((one) => one.applied !== null).applied;
  if (loop === "none" && applied === 0) return "The gradient is too small for fp16: nothing is learned, and nothing says so.";
  return skipped ? `${skipped} of ${told.length} steps are skipped, and the weights stay sound.` : "No step is skipped.";
}

function render({ model, el }) {
  const put = (name, value) => { model.set(name, value); model.save_changes(); draw(); };
  const id = uid("loop"), spikesId = uid("spikes");
  const select = h("select", { id, onchange: () => put("loop", select.value) },
    ...Object.entries(model.get("loops")).map(([value, text]) => h("option", { value }, text)));
  const sliders = SLIDERS.map(([name, text, min, max, power]) => {
    const shown = h("output", { class: "mono" });
    const input = h("input", { type: "range", min, max, step: 1, "aria-label": power ? `${text}, power of two` : text, oninput: () => put(name, Number(input.value)) });
    return { name, power, input, shown, node: h("label", { class: "slider" }, h("span", {}, text), input, shown) };
  });
  const typed = h("input", { type: "text", id: spikesId, inputmode: "numeric", onchange: () => put("spikes", steps(typed.value)) });
  const steps = (text) => [...new Set(text.split(/[^0-9]+/).filter(Boolean).map(Number))].filter((step) => step < model.get("steps")).sort((a, b) => a - b);
  const picture = h("div", { class: "picture", role: "group", "aria-label": "Scale over the steps", tabindex: 0, onclick: (event) => toggle(event) });
  const said = h("p", { class: "verdict", role: "status" }), facts = h("dl");
  function toggle(event) {
    const step = stepAt(picture.firstChild, event, model.get("steps")), now = model.get("spikes");
    if (step !== null) put("spikes", now.includes(step) ? now.filter((other) => other !== step) : [...now, step].sort((a, b) => a - b));
  }
  function draw() {
    const job = Object.fromEntries([...TRAITS, "half"].map((name) => [name, model.get(name)])), told = simulate(job);
    select.value = job.loop;
    typed.value = job.spikes.join(", ");
    for (const { name, power, input, shown } of sliders) {
      input.value = job[name];
      shown.textContent = power ? `2^${job[name]}` : job[name];
      input.setAttribute("aria-valuetext", power ? `2 to the ${job[name]}` : `${job[name]} steps`);
    }
    said.textContent = verdict(told, job.loop);
    picture.replaceChildren(scalePicture(told, job.steps, OVERFLOWS - job.peak, said.textContent));
    const taken = told.filter(({ applied }) => applied !== null && Number.isFinite(applied));
    const pairs = [["steps taken", `${taken.length} of ${job.steps}`], ["skipped", String(told.filter(({ applied, error }) => applied === null && !error).length)],
      ["last scale", `2^${Math.log2(told.at(-1).scale)}`],
      ["applied of the true gradient", taken.length ? times(taken.at(-1).applied / 2 ** job.peak) : "none"]];
    facts.replaceChildren(...factRows(pairs));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("lossscale", "Loss scale over time",
    h("div", { class: "settings" }, h("div", { class: "choice" }, h("label", { for: id }, "loop"), select),
      ...sliders.map((s) => s.node),
      h("div", { class: "choice" }, h("label", { for: spikesId }, "bad batches"), typed)),
    picture, said, facts,
    h("p", { class: "note" }, "Simulated with PyTorch's rule: × 2 after an interval of clean steps, ÷ 2 and a skipped step (×) on overflow. "
      + "In a bad batch, a step in the box or one that you click, the gradient is infinite at any scale. Its default interval is 2,000; "
      + "“clips” means to a norm of 1.")));
  draw();
  return () => { for (const name of TRAITS) model.off(`change:${name}`, draw); };
}

export default { render };
