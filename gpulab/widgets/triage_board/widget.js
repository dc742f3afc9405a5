/* A job to mend: buttons for changes, and the figures of the run that follows. */
import { h, widgetRoot } from "../shared/dom.js";
import { left, rows, said, stateOf } from "./model.js";

function render({ model, el }) {
  const told = model.get("told");
  const put = (made) => { model.set("made", made); model.save_changes(); draw(); };
  const make = (number) => () => { if (left(told, model.get("made"))) put([...model.get("made"), number]); };
  const changes = told.options.map(({ name, does }, number) => h("button", { type: "button", onclick: make(number), title: does }, name));
  const again = h("button", { type: "button", onclick: () => put([]) }, "Start again");
  const budget = h("p", { class: "budget" }), status = h("p", { class: "said", role: "status" });
  const made = h("ol"), body = h("tbody");
  const head = h("tr", {}, ...["figure", "broken", "now", "at most"].map((text) => h("th", { scope: "col" }, text)));
  const table = h("table", {}, h("caption", {}, "Modelled (H100): figures of the second step"), h("thead", {}, head), body);
  function row({ name, says, ...shown }) {
    const numbers = [shown.broken, h("strong", { class: shown.over ? "over" : "met" }, `${shown.now} ${shown.over ? "✗" : "✓"}`), shown.most];
    return h("tr", {}, h("th", { scope: "row" }, h("code", {}, name), h("small", {}, says)), ...numbers.map((number) => h("td", {}, number)));
  }
  function draw() {
    const done = model.get("made"), now = stateOf(told, done);
    budget.textContent = `Changes left: ${left(told, done)}`;
    changes.forEach((button) => button.setAttribute("aria-disabled", String(!left(told, done))));
    status.textContent = said(told, done);
    made.replaceChildren(...done.map((number) => h("li", {}, h("strong", {}, told.options[number].name), `: ${told.options[number].does}`)));
    const loss = { name: "loss", says: "of frames that no step trained on", broken: stateOf(told, []).loss.toFixed(4), now: now.loss.toFixed(4), most: `= ${told.loss.toFixed(4)}`, over: !now.same };
    body.replaceChildren(...rows(told, done).map(row), row(loss));
  }
  model.on("change:made", draw);
  el.append(widgetRoot("triage", "Triage board",
    h("div", { class: "bar", role: "group", "aria-label": "Changes" }, ...changes), h("div", { class: "bar" }, budget, again),
    status, made, table));
  draw();
  return () => model.off("change:made", draw);
}

export default { render };
