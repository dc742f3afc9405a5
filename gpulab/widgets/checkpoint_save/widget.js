/* A checkpoint's save, stopped where the reader likes. */
import { choice, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { calls, FINAL, filesAfter, outcomes, safe, TEMPORARY } from "./model.js";
import { fileRow, timeline } from "./picture.js";

const TRAITS = ["protocol", "accident", "moment"];
const WORDS = { old: "the old checkpoint, whole", new: "the new checkpoint, whole", torn: "a torn file", missing: "no file" };

function verdict(results) {
  const listed = results.map((result) => WORDS[result]).join(", or ");
  if (safe(results)) return `A load finds ${listed}. The run goes on.`;
  return `A load finds ${listed}. ${results.some((result) => result === "old" || result === "new") ? "The run may be lost." : "The run is lost."}`;
}

function render({ model, el }) {
  const chunks = model.get("chunks");
  const put = (name) => (value) => {
    model.set(name, value);
    if (name === "protocol") model.set("moment", Math.min(model.get("moment"), calls(value, chunks).length));
    model.save_changes();
    draw();
  };
  const fields = {
    protocol: choice({ text: "save", options: model.get("protocols"), put: put("protocol") }),
    accident: choice({ text: "accident", options: model.get("accidents"), put: put("accident") }),
  };
  const moments = [], at = slider({ text: "calls made", values: moments, words: (k) => `${k} of ${moments.length - 1}`, put: put("moment") });
  const line = h("div"), files = h("div", { class: "files" });
  const said = h("p", { class: "verdict", role: "status" }), count = h("p", { class: "count" });
  // The buttons are made anew: the focus goes to the one that stands for what was pressed.
  function pressed(k) {
    put("moment")(k);
    line.querySelector('[aria-pressed="true"]').focus();
  }
  function draw() {
    const [protocol, accident, moment] = TRAITS.map((name) => model.get(name)), all = calls(protocol, chunks);
    const judged = Array.from({ length: all.length + 1 }, (_, k) => safe(outcomes(protocol, accident, chunks, k)));
    moments.splice(0, Infinity, ...judged.keys());
    fields.protocol.draw(protocol);
    fields.accident.draw(accident);
    at.draw(moment);
    line.replaceChildren(timeline(all, moment, judged, pressed));
    const seen = filesAfter(protocol, chunks, moment);
    files.replaceChildren(...[FINAL, TEMPORARY].map((name) => fileRow(name, seen[name], chunks)));
    const results = outcomes(protocol, accident, chunks, moment);
    said.textContent = verdict(results);
    said.className = `verdict ${safe(results) ? "good" : "bad"}`;
    const lost = judged.filter((ok) => !ok).length;
    count.textContent = `Of ${judged.length} moments ${lost || "none"} ${lost === 1 ? "is" : "are"} dangerous.`;
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("checkpointsave", "A checkpoint's save, stopped",
    h("div", { class: "settings" }, fields.protocol.node, fields.accident.node, at.node), line, count,
    h("p", { class: "label" }, "What the operating system shows then:"), files, said,
    h("p", { class: "note" }, "A killed process leaves what the operating system already has, written to the disk or not. After a power cut only what was synced is sure; "
      + "here changes of names reach the disk in their order, bytes at any time. File systems promise no more, and some keep more.")));
  draw();
  return () => { for (const name of TRAITS) model.off(`change:${name}`, draw); };
}

export default { render };
