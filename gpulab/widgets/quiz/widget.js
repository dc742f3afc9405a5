/* Questions that the reader answers before the answer is shown. */
import { h, widgetRoot } from "../shared/dom.js";
import { ask, fold } from "./ask.js";

function render({ model, el }) {
  const questions = model.get("questions");
  const outcome = questions.map(() => null);
  const tally = h("p", { class: "note", hidden: questions.length < 2 });
  const forms = questions.map((question, i) =>
    ask(question, (correct) => {
      outcome[i] = correct;
      const done = outcome.filter((o) => o !== null).length;
      tally.textContent = `${done} of ${questions.length} answered, ${outcome.filter(Boolean).length} right.`;
    }));
  el.append(widgetRoot("quiz", model.get("label"), ...forms, tally));
}

const withoutScript = ({ model }) => model.get("questions").map((question, i, all) =>
  fold(question, all.length > 1 ? `Answers to question ${i + 1}` : "Answers"));

export default { render, withoutScript };
