/* A learning-rate schedule: peak, warm-up, floor, shape, and a loop that may count wrongly. */
import { choice, factRows, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { percent } from "../shared/words.js";
import { rates, warmUpSteps } from "./model.js";
import { power, ratePicture } from "./picture.js";

const TRAITS = ["peak", "warm_up", "floor", "shape", "loop"];
const SAID = {
  right: "The peak is where the warm-up ends.",
  "micro-batches": "The schedule is over after a quarter of the run.",
  restart: "The second half warms up again and never reaches the end of the decay.",
  longer: { cosine: "Past its end PyTorch's cosine goes up again.", linear: "Past its end the line stays at its floor.", stable: "Past its end the line stays at its floor." },
};

function render({ model, el }) {
  const known = model.get("known"), total = known.total;
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const fields = {
    peak: slider({ text: "peak", values: known.peaks, words: power, put: put("peak") }),
    warm_up: slider({ text: "warm-up", values: known.warm_up, words: (value) => `${value} %`, put: put("warm_up") }),
    floor: slider({ text: "floor", values: known.floor, words: (value) => `${value} %`, put: put("floor") }),
    shape: choice({ text: "decay", options: known.shapes, put: put("shape") }),
    loop: choice({ text: "loop", options: known.loops, put: put("loop") }),
  };
  const picture = h("div", { class: "picture" }), said = h("p", { class: "verdict", role: "status" }), facts = h("dl");
  const place = followed(picture, 760, () => draw());
  function draw() {
    const job = { total, ...Object.fromEntries(TRAITS.map((name) => [name, model.get(name)])) };
    for (const name of TRAITS) fields[name].draw(job[name]);
    const found = rates(job), due = rates({ ...job, loop: "right" }), top = Math.max(...found);
    const words = SAID[job.loop][job.shape] ?? SAID[job.loop];
    picture.replaceChildren(ratePicture(found, due, job.peak, warmUpSteps(job), place.width(), `Learning rate over ${found.length} steps. ${words}`));
    said.textContent = words;
    facts.replaceChildren(...factRows([["first step", power(found[0])], ["highest", `${power(top)} in step ${found.indexOf(top)}`], ["last step", power(found.at(-1))],
      ["mean, of the peak", percent(found.reduce((sum, rate) => sum + rate, 0) / found.length, job.peak)]]));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("lrschedule", "Learning rate over a run",
    h("div", { class: "settings" }, ...Object.values(fields).map(({ node }) => node)), picture, said, facts,
    h("p", { class: "note" }, `${total} optimizer steps, of 4 micro-batches each; warm-up in percent of them, floor in percent of the peak. `
      + "Shaded: the warm-up. Thin: the schedule as it is meant. The rates are those of PyTorch's schedulers.")));
  draw();
  return () => {
    place.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

export default { render };
