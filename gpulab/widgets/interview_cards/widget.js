/* Interview questions: answer aloud, uncover, grade yourself. */
import { choice } from "../shared/controls.js";
import { h, prose, widgetRoot } from "../shared/dom.js";
import { remember } from "../shared/storage.js";
import { many } from "../shared/words.js";
import { GRADES, NEW_A_DAY, dayOf, following, graded, lines, nextDay, read, written } from "./model.js";

const KEPT = "gpulab-interview", EVERY = "all";

function kept(memory, ids) {
  try { return read(memory.get() ?? written({}), ids); } catch { return {}; }
}

function dateWords(day) {
  return new Date(day * 86_400_000).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
}

function answerOf(card) {
  const links = card.links.map(([href, text]) => h("li", {}, h("a", { href }, ...prose(text))));
  return [
    h("p", {}, ...prose(card.answer)),
    ...card.notes.map(([kind, text]) => h("p", {}, h("b", {}, kind), " ", ...prose(text))),
    ...(links.length ? [h("ul", {}, ...links)] : []),
  ];
}

/* The bar that takes the states out of the browser and back. */
function files({ text, take, forget }) {
  const told = h("p", { class: "note", role: "status" });
  const say = (words) => { told.textContent = words; };
  function save() {
    const href = URL.createObjectURL(new Blob([text()], { type: "application/json" }));
    h("a", { href, download: "interview-cards.json" }).click();
    URL.revokeObjectURL(href);
  }
  const input = h("input", { type: "file", accept: ".json,application/json", "aria-label": "Import a file", hidden: true, onchange: async () => {
    const [file] = input.files;
    if (!file) return;
    try { say(`${many(take(await file.text()), "card")} taken over.`); } catch (error) { say(`Nothing was changed: ${error.message}.`); }
    input.value = "";
  } });
  const sure = h("button", { type: "button", hidden: true, onclick: () => { forget(); sure.hidden = true; say("All grades are forgotten."); } }, "Yes, forget them");
  const button = (words, onclick) => h("button", { type: "button", onclick }, words);
  const bar = h("div", { class: "bar" }, button("Export", save), button("Import", () => input.click()), input,
    button("Forget all grades", () => { sure.hidden = !sure.hidden; }), sure);
  return { node: h("div", {}, bar, told), say };
}

function render({ model, el }) {
  const cards = model.get("cards"), stages = model.get("stages"), byId = Object.fromEntries(cards.map((card) => [card.id, card]));
  const memory = remember(KEPT), all = cards.map(({ id }) => id);
  const today = () => model.get("today") ?? dayOf(new Date());
  let states = kept(memory, all), stage = EVERY, extra = 0, asked = null, last = null;
  const chosen = () => cards.filter((card) => stage === EVERY || card.stage === Number(stage)).map(({ id }) => id);

  const part = choice({ text: "Part", options: [[EVERY, "All parts"], ...stages.map((words, i) => [String(i + 1), words])],
    put: (value) => { stage = value; ask(); } });
  const left = h("p", { class: "left", role: "status" });
  const place = h("p", { class: "place" }), question = h("p", { class: "question" });
  const show = h("button", { type: "button", onclick: () => uncover() }, "Show the answer");
  const answer = h("div", { class: "answer", tabindex: "-1", hidden: true });
  const grades = GRADES.map(([words, quality], i) => h("button", { type: "button", "aria-keyshortcuts": String(i + 1), onclick: () => grade(quality) }, words));
  const bar = h("div", { class: "bar", role: "group", "aria-label": "How well did you know it?", hidden: true }, ...grades);
  const more = h("button", { type: "button", hidden: true, onclick: () => { extra += NEW_A_DAY; ask(); show.focus(); } }, `${NEW_A_DAY} more new ones`);
  const io = files({ text: () => written(states), take, forget: () => keep({}) });

  function keep(now) {
    states = now;
    if (!memory.set(written(states))) io.say("This browser keeps nothing for this page: export your grades before you leave it.");
    ask();
  }
  function take(text) {
    const found = read(text, all);
    keep(found);
    return Object.keys(found).length;
  }
  function uncover() {
    answer.replaceChildren(...answerOf(byId[asked]));
    GRADES.forEach(([words, quality], i) => {
      const next = graded(states[asked], quality, today());
      grades[i].textContent = next.again === null ? `${words}: in ${many(next.due - today(), "day")}` : `${words}: once more today`;
    });
    show.hidden = true;
    answer.hidden = bar.hidden = false;
    answer.focus();
  }
  function grade(quality) {
    last = asked;
    keep({ ...states, [asked]: graded(states[asked], quality, today()) });
    (asked === null ? more : show).focus();
  }
  function ask() {
    const todo = lines(states, chosen(), today(), extra);
    asked = following(todo, last);
    left.textContent = `Today: ${todo.due.length} due, ${todo.fresh.length} new, ${todo.again.length} once more. Seen: ${chosen().length - todo.unseen.length} of ${chosen().length}.`;
    const done = asked === null, day = nextDay(states, chosen());
    place.textContent = done ? "" : stages[byId[asked].stage - 1];
    question.replaceChildren(...(done ? [`Done for today.${day === null ? "" : ` The next card is due on ${dateWords(day)}.`}`] : prose(byId[asked].question)));
    answer.replaceChildren();
    answer.hidden = bar.hidden = true;
    show.hidden = done;
    more.hidden = !done || !todo.unseen.length;
  }
  const root = widgetRoot("interview", "Interview cards", part.node, left,
    h("div", { class: "card" }, place, question, show, answer, bar, more), io.node);
  root.addEventListener("keydown", (event) => {
    const at = Number(event.key) - 1;
    if (bar.hidden || event.ctrlKey || event.metaKey || event.altKey || !GRADES[at] || event.target.matches("select")) return;
    event.preventDefault();
    grade(GRADES[at][1]);
  });
  // What another tab grades counts here, too.
  const elsewhere = (event) => {
    if (event.key !== KEPT) return;
    states = kept(memory, all);
    if (bar.hidden) ask();
  };
  globalThis.addEventListener?.("storage", elsewhere);
  el.append(root);
  part.draw(stage);
  ask();
  return () => globalThis.removeEventListener?.("storage", elsewhere);
}

const withoutScript = () => [h("p", {}, "The cards need a script to come back when they are due. All of them stand below, as text.")];

export default { render, withoutScript };
