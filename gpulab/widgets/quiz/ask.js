/* One question: the reader commits to an answer, then reads why. */
import { h, prose, uid } from "../shared/dom.js";
import { remember } from "../shared/storage.js";

/* The stored answer belongs to this wording: a changed question is asked afresh. */
function storageKey(question) {
  let hash = 0;
  for (const c of JSON.stringify(question)) hash = (Math.imul(hash, 31) + c.codePointAt(0)) | 0;
  return `gpulab-quiz:${location.pathname}:${hash >>> 0}`;
}

function choiceRow(choice, i, name) {
  const id = uid("choice");
  const input = h("input", { type: "radio", id, name, value: String(i) });
  const why = h("p", { class: "why", hidden: true });
  const row = h("div", { class: "choice" }, input, h("label", { for: id }, ...prose(choice.text)), why);
  return { choice, input, why, row };
}

function reveal({ choice, why, row }, chosen) {
  const verdict = choice.correct ? (chosen ? "Right." : "The right one.") : chosen ? "No." : "Not this one.";
  const mark = h("span", { class: choice.correct ? "good" : "bad" }, verdict);
  why.replaceChildren(mark, " ", ...prose(choice.why));
  why.hidden = false;
  row.classList.toggle("correct", choice.correct);
  row.classList.toggle("chosen", chosen);
}

/* `answered`: is told true or false once there is an answer, null when it is taken back. */
export function ask(question, answered) {
  const name = uid("question");
  const memory = remember(storageKey(question));
  const rows = question.choices.map((choice, i) => choiceRow(choice, i, name));
  const commit = h("button", { type: "submit", disabled: true }, "Commit to this answer");
  const again = h("button", { type: "button", hidden: true }, "Answer again");
  const result = h("p", { class: "result", role: "status" });
  const set = h("fieldset", {}, h("legend", {}, ...prose(question.text)), ...rows.map((r) => r.row));

  function show(picked, announce) {
    rows.forEach((r, i) => { r.input.checked = i === picked; r.input.disabled = true; reveal(r, i === picked); });
    commit.hidden = true;
    again.hidden = false;
    const { correct, why } = question.choices[picked];
    if (announce) result.replaceChildren(h("span", { class: "visually" }, `${correct ? "Right." : "No."} ${why.replaceAll("`", "")}`));
    answered(correct);
  }
  function reset() {
    memory.drop();
    for (const { input, why, row } of rows) {
      Object.assign(input, { checked: false, disabled: false });
      why.replaceChildren();
      why.hidden = true;
      row.classList.remove("correct", "chosen");
    }
    Object.assign(commit, { hidden: false, disabled: true });
    again.hidden = true;
    result.replaceChildren();
    answered(null);
    rows[0].input.focus();
  }
  const form = h("form", {
    onchange: () => { commit.disabled = false; },
    onsubmit: (event) => {
      event.preventDefault();
      const picked = rows.findIndex((r) => r.input.checked);
      if (picked < 0) return;
      memory.set(String(picked));
      show(picked, true);
      again.focus();
    },
  }, set, h("div", { class: "bar" }, commit, again), result);
  again.addEventListener("click", reset);
  const stored = memory.get();
  if (stored !== null && question.choices[stored]) show(Number(stored), false);
  return form;
}

/* For a page on which no script runs: each answer's verdict, behind a fold. */
export function fold(question, called) {
  const verdict = ({ text, correct, why }) => h("p", {}, h("b", {}, ...prose(text)), correct ? " Right. " : " No. ", ...prose(why));
  return h("details", { class: "answers" }, h("summary", {}, called), ...question.choices.map(verdict));
}
