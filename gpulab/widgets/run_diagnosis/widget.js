/* Recorded runs, by letter: the reader reads the curves and says what is wrong. */
import { factRows, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { ask, fold } from "../quiz/ask.js";
import { heldOutAt, told } from "./model.js";
import { charts, stepAt } from "./picture.js";

const letter = (i) => String.fromCharCode(65 + i);

function render({ model, el }) {
  const runs = model.get("runs"), questions = model.get("questions"), steps = runs[0].loss.length;
  const outcome = runs.map(() => null), tally = h("p", { class: "note", role: "status" });
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const tabs = runs.map((_, i) => h("button", { type: "button", onclick: () => put("run")(i) }, letter(i)));
  const at = slider({ text: "step", values: [...Array(steps).keys()], put: put("step") });
  const picture = h("div", { class: "picture", onclick: (event) => put("step")(stepAt(picture.firstChild, event, steps)) });
  const facts = h("dl"), asked = h("div");
  const forms = questions.map((question, i) => ask(question, (correct) => {
    outcome[i] = correct;
    tabs[i].classList.toggle("answered", correct !== null);
    tally.textContent = `${outcome.filter((one) => one !== null).length} of ${runs.length} runs diagnosed, ${outcome.filter(Boolean).length} rightly.`;
  }));
  const place = followed(picture, 760, () => draw());
  function draw() {
    const [i, step] = [model.get("run"), model.get("step")], run = runs[i];
    tabs.forEach((tab, k) => {
      tab.setAttribute("aria-pressed", String(k === i));
      tab.setAttribute("aria-label", `Run ${letter(k)}`);
    });
    at.draw(step);
    const pairs = [...told(run, step), ["held-out loss", heldOutAt(run, step)]];
    picture.replaceChildren(charts(run, step, place.width(), model.get("most"), `Loss, gradient norm, learning rate and loss scale of run ${letter(i)} over ${steps} steps`));
    facts.replaceChildren(...factRows(pairs));
    if (asked.firstChild !== forms[i]) asked.replaceChildren(forms[i]);
  }
  for (const name of ["run", "step"]) model.on(`change:${name}`, draw);
  el.append(widgetRoot("quiz diagnosis", "Runs to diagnose",
    h("div", { class: "bar", role: "group", "aria-label": "Run" }, h("span", { "aria-hidden": "true" }, "run"), ...tabs),
    picture, at.node, facts, asked, tally,
    h("p", { class: "note" }, "Recorded: TinyVLA on a CPU, one thread, seeded. A mark at the top of a chart: not a finite number.")));
  draw();
  return () => {
    place.stop();
    for (const name of ["run", "step"]) model.off(`change:${name}`, draw);
  };
}

const withoutScript = ({ model }) => model.get("questions").map((question, i) => fold(question, `Answers for run ${letter(i)}`));

export default { render, withoutScript };
