/* Sixteen ranks over some steps, one metric at a time: the reader looks for the culprit and commits to it. */
import { choice, factRows } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { followed, svg } from "../shared/svg.js";
import { ask, fold } from "../quiz/ask.js";
import { delays, groups, medians, scale } from "./model.js";

const LEFT = 52, RIGHT = 78, TOP = 22, ROW = 20, FOOT = 34, TRAITS = ["job", "metric", "rank", "step"];
const letter = (i) => String.fromCharCode(65 + i);
const shown = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(1));

function heatMap(rows, at, width, words) {
  const ranks = rows[0].length, height = TOP + ranks * ROW + FOOT, wide = (width - LEFT - RIGHT) / rows.length, of = scale(rows), middle = medians(rows);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words });
  root.append(svg("text", { x: 0, y: 14, class: "title" }, "rank"), svg("text", { x: width - RIGHT + 8, y: 14, class: "title" }, "median"));
  for (let rank = 0; rank < ranks; rank++) {
    const y = TOP + rank * ROW;
    root.append(svg("text", { x: LEFT - 8, y: y + 14, class: "end" }, String(rank)), svg("text", { x: width - RIGHT + 8, y: y + 14 }, shown(middle[rank])));
    rows.forEach((row, s) => root.append(svg("rect", { x: (LEFT + s * wide).toFixed(1), y: y + 1, width: (wide - 1).toFixed(1), height: ROW - 2, class: "cell", "fill-opacity": (0.06 + 0.9 * of(row[rank])).toFixed(2) })));
  }
  for (let s = 0; s < rows.length; s += 4) root.append(svg("text", { x: LEFT + (s + 0.5) * wide, y: height - FOOT + 15, class: "middle" }, String(s)));
  root.append(svg("text", { x: (LEFT + width - RIGHT) / 2, y: height - 4, class: "middle" }, "step"));
  root.append(svg("rect", { x: LEFT + at.step * wide - 1, y: TOP + at.rank * ROW, width: wide + 1, height: ROW, class: "cursor" }));
  return root;
}

function placeOf(picture, event, rows) {
  const box = picture.getBoundingClientRect(), wide = (box.width - LEFT - RIGHT) / rows.length;
  const step = Math.floor((event.clientX - box.left - LEFT) / wide), rank = Math.floor((event.clientY - box.top - TOP) / ROW);
  return { step: Math.max(0, Math.min(rows.length - 1, step)), rank: Math.max(0, Math.min(rows[0].length - 1, rank)) };
}

function render({ model, el }) {
  const jobs = model.get("jobs"), questions = model.get("questions"), metrics = model.get("metrics"), called = Object.fromEntries(metrics);
  const outcome = jobs.map(() => null), tally = h("p", { class: "note", role: "status" }), after = h("p", { class: "after" });
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const move = ({ rank, step }) => { model.set("rank", rank); model.set("step", step); model.save_changes(); draw(); };
  const tabs = jobs.map((_, i) => h("button", { type: "button", onclick: () => put("job")(i) }, letter(i)));
  const field = choice({ text: "metric", options: metrics, put: put("metric") });
  const rowsNow = () => jobs[model.get("job")][model.get("metric")];
  const picture = h("div", { class: "picture", tabindex: 0, role: "group", "aria-label": "Ranks and steps: the arrow keys move the cursor", onclick: (event) => move(placeOf(picture.firstChild, event, rowsNow())) });
  picture.addEventListener("keydown", (event) => {
    const [by, of] = { ArrowLeft: [-1, "step"], ArrowRight: [1, "step"], ArrowUp: [-1, "rank"], ArrowDown: [1, "rank"] }[event.key] ?? [];
    const most = { step: rowsNow().length, rank: rowsNow()[0].length }[of], value = model.get(of ?? "step") + (by ?? 0);
    if (!by || value < 0 || value >= most) return;
    event.preventDefault();
    put(of)(value);
  });
  const facts = h("dl"), asked = h("div");
  const forms = questions.map((question, i) => ask(question, (correct) => {
    outcome[i] = correct;
    tabs[i].classList.toggle("answered", correct !== null);
    tally.textContent = `${outcome.filter((one) => one !== null).length} of ${jobs.length} jobs judged, ${outcome.filter(Boolean).length} rightly.`;
    reveal();
  }));
  const place = followed(picture, 760, () => draw());

  /* What the exercise asks for, once the reader has committed. */
  function reveal() {
    const i = model.get("job"), rows = jobs[i], meetings = groups(rows.tp_ms[0].length, model.get("tp"));
    if (outcome[i] === null) return after.replaceChildren();
    const by = ["tp", "dp"].map((kind) => delays(rows[`${kind}_ms`], meetings[kind])), both = by[0].map((one, rank) => Math.min(one, by[1][rank]));
    const most = Math.max(...both), rank = both.indexOf(most);
    after.textContent = most < 5 ? "Measured: in the median step no rank holds up both of its collectives by 5 ms." : `Measured: in the median step rank ${rank} holds up its tensor-parallel collective by ${by[0][rank].toFixed(1)} ms and its data-parallel one by ${by[1][rank].toFixed(1)} ms.`;
  }

  function draw() {
    const i = model.get("job"), metric = model.get("metric"), rows = rowsNow(), at = { rank: model.get("rank"), step: model.get("step") };
    tabs.forEach((tab, k) => {
      tab.setAttribute("aria-pressed", String(k === i));
      tab.setAttribute("aria-label", `Job ${letter(k)}`);
    });
    field.draw(metric);
    picture.replaceChildren(heatMap(rows, at, place.width(), `${called[metric]} of job ${letter(i)}, by rank and step`));
    const values = metrics.map(([name, words]) => [words, shown(jobs[i][name][at.step][at.rank])]);
    facts.replaceChildren(...factRows([["rank, step", `${at.rank}, ${at.step}`], ...values]));
    if (asked.firstChild !== forms[i]) asked.replaceChildren(forms[i]);
    reveal();
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("quiz ranks", "Jobs with a culprit, or without",
    h("div", { class: "bar", role: "group", "aria-label": "Job" }, h("span", { "aria-hidden": "true" }, "job"), ...tabs), field.node, picture, facts, asked, after, tally,
    h("p", { class: "note" }, "Simulated: sixteen ranks, four to a node, which are a tensor-parallel group; ranks with the same place in their group meet in the data-parallel collective. Darker is more; the number at the right is the rank's median.")));
  draw();
  return () => {
    place.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

const withoutScript = ({ model }) => model.get("questions").map((question, i) => fold(question, `Answers for job ${letter(i)}`));

export default { render, withoutScript };
