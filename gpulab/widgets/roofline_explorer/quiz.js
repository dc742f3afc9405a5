/* Quiz mode: an operation, a card; which roof does it meet first? */
import { BYTES, place, roofOf, work } from "./model.js";
import { generator } from "../shared/random.js";
import { h } from "../shared/dom.js";

const ROWS = [1, 8, 64, 512, 4096], WIDTHS = [1024, 2048, 4096, 8192], STEPS = [2, 8, 32, 64];
const CLEAR = 1.5; // a question is not asked this close to the ridge

export function question(cards, random) {
  const any = (list) => list[Math.floor(random() * list.length)];
  for (;;) {
    const card = any(Object.keys(cards)), operation = any(["linear", "linear", "chain", "fused"]);
    const job = { operation, rows: any(ROWS), width: any(WIDTHS), steps: any(STEPS), fmt: any(Object.keys(BYTES)) };
    const at = place(cards[card], roofOf(job), work(job));
    if (Math.max(at.intensity / at.ridge, at.ridge / at.intensity) >= CLEAR) return { card, ...job, at };
  }
}

export function told({ operation, rows, width, steps, fmt, card }) {
  const what = {
    linear: `a linear layer of ${width} x ${width} weights on ${rows} ${rows === 1 ? "row" : "rows"}`,
    chain: `${steps} elementwise operations, a kernel each, on ${rows} x ${width} elements`,
    fused: `${steps} elementwise operations in one kernel, on ${rows} x ${width} elements`,
  }[operation];
  return `${what}, in ${fmt}, on the ${card}`;
}

const why = ({ at }) => `${at.intensity.toPrecision(3)} FLOP for each byte; the roofs meet at ${at.ridge.toPrecision(3)}.`;

export function rooflineQuiz(cards, seed) {
  const random = generator(seed || crypto.getRandomValues(new Uint32Array(1))[0]);
  let now, right = 0, asked = 0;
  const prompt = h("p", { class: "prompt" }), feedback = h("p", { role: "status", class: "feedback" }), score = h("p", { class: "note" });
  const next = h("button", { type: "button", onclick: () => { ask(); answers[0].focus(); } }, "Next question");
  const answers = ["memory", "compute"].map((bound) => h("button", { type: "button", value: bound, onclick: () => mark(bound) }, bound));
  function mark(given) {
    const ok = given === now.at.bound;
    asked += 1;
    right += ok ? 1 : 0;
    feedback.replaceChildren(h("span", { class: ok ? "good" : "bad" }, ok ? "Right." : `No: ${now.at.bound}.`), ` ${why(now)}`);
    score.textContent = `${right} of ${asked} right.`;
    answers.forEach((button) => { button.disabled = true; });
    next.hidden = false;
    next.focus({ preventScroll: true });
  }
  function ask() {
    now = question(cards, random);
    prompt.textContent = `What bounds ${told(now)}?`;
    feedback.replaceChildren();
    answers.forEach((button) => { button.disabled = false; });
    next.hidden = true;
  }
  ask();
  return h("div", { class: "quizmode" }, prompt, h("div", { class: "bar", role: "group", "aria-label": "Bound by" }, ...answers, next), feedback, score);
}
