/* Quiz mode: a random view, a question, the reader's answer, the picture that settles it. */
import { puzzle } from "./puzzles.js";
import { generator } from "../shared/random.js";
import { picture } from "./picture.js";
import { tuple } from "./layout.js";
import { h, prose, uid } from "../shared/dom.js";

const WORDS = { contiguous: ["True", "False"], viewable: ["Yes", "No"] };

function field(question) {
  const id = uid("answer");
  if (question.kind === "address") {
    const input = h("input", { type: "number", id, min: 0, max: 99, step: 1, inputmode: "numeric", required: true });
    return { nodes: [h("label", { for: id }, "Storage index"), input], read: () => (input.value === "" ? null : Number(input.value)), first: input };
  }
  const radios = WORDS[question.kind].map((word, i) => {
    const own = uid("answer");
    const input = h("input", { type: "radio", name: id, id: own, value: i ? "no" : "yes", required: true });
    return { input, node: h("span", { class: "option" }, input, h("label", { for: own }, word)) };
  });
  const read = () => { const found = radios.find((r) => r.input.checked); return found ? found.input.value === "yes" : null; };
  return { nodes: radios.map((r) => r.node), read, first: radios[0].input };
}

const said = ({ kind, answer }) => (kind === "address" ? String(answer) : WORDS[kind][answer ? 0 : 1]);

export function stridesQuiz(seed) {
  const random = generator(seed || crypto.getRandomValues(new Uint32Array(1))[0]);
  let right = 0, asked = 0, question;
  const body = h("div");
  const score = h("p", { class: "note" });
  const feedback = h("p", { class: "feedback", role: "status" });
  const shown = picture({});
  const next = h("button", { type: "button", onclick: () => { ask(); body.querySelector("input").focus(); } }, "Next question");

  function mark(given) {
    asked += 1;
    const ok = given === question.answer;
    right += ok ? 1 : 0;
    feedback.replaceChildren(h("span", { class: ok ? "good" : "bad" }, ok ? "Right." : `Wrong: the answer is ${said(question)}.`), " ", question.why);
    score.textContent = `${right} of ${asked} right.`;
    shown.node.hidden = next.hidden = false;
    shown.draw(question);
    if (question.index) shown.choose(question.index);
    next.focus({ preventScroll: true });
  }
  function ask() {
    question = puzzle(random);
    const { nodes, read } = field(question);
    const answer = h("button", { type: "submit" }, "Answer");
    const set = h("fieldset", { class: "bar" }, h("legend", {}, ...prose(question.prompt)), ...nodes, answer);
    const form = h("form", { onsubmit: (event) => {
      event.preventDefault();
      const given = read();
      if (given === null || set.disabled) return;
      set.disabled = true;
      mark(given);
    } }, set);
    body.replaceChildren(
      h("p", { class: "call mono" }, `x = ${question.code}`),
      h("p", { class: "mono" }, `x.shape = ${tuple(question.size)}, x.stride() = ${tuple(question.stride)}, x.storage_offset() = ${question.offset}`),
      form);
    feedback.replaceChildren();
    shown.node.hidden = next.hidden = true;
  }
  ask();
  return h("div", { class: "quizmode" }, body, feedback, h("div", { class: "bar" }, next), shown.node, score);
}
