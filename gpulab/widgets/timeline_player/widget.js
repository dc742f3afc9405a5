/* Replays what the host, the streams and the copy engines did, one step at a time. */
import { h, prose, widgetRoot } from "../shared/dom.js";
import { player } from "../shared/player.js";
import { beside, extent, lanes, queueName, raceStep, steps } from "./layout.js";

const clamp = (low, value, high) => Math.max(low, Math.min(high, value));
const us = (time) => `${time.toFixed(1)} µs`;
const code = (line) => (line ? h("code", {}, line.text) : "a line that is not yours");

function picture(found, all, { begin, end }, jump) {
  const share = (time) => `${(100 * (time - begin)) / (end - begin || 1)}%`;
  const bars = all.map((step, at) => h("div", {
    class: `item${step.raced ? " raced" : ""}`, title: `${step.label}, ${us(step.end - step.start)}`,
    style: `left: ${share(step.start)}; width: calc(${share(begin + step.end - step.start)} + 1px)`,
    onclick: () => jump(at),
  }, h("span", {}, step.label)));
  const cursor = h("div", { class: "cursor" });
  const rows = found.map((lane, row) => h("div", { class: "lane" },
    h("div", { class: "name" }, lane.name),
    h("div", { class: "track" }, ...bars.filter((_, at) => all[at].row === row))));
  const node = h("div", { class: "lanes", role: "img", "aria-label":
    `${found.length} lanes over ${us(end - begin)}: ${found.map((lane) => `${lane.name}, ${lane.bars.length}`).join("; ")}` },
    ...rows, h("div", { class: "lane axis" }, h("div", { class: "name" }),
      h("div", { class: "track" }, h("span", {}, "0"), h("span", {}, us(end - begin)), cursor)));
  function draw(now) {
    bars.forEach((node, at) => {
      node.classList.toggle("now", at === now);
      node.classList.toggle("ahead", at > now);
    });
    cursor.style.left = share(all[now].start);
  }
  return { node, draw };
}

function sentence(all, now, begin) {
  const step = all[now];
  const others = beside(all, step).map((other) => `${other.label} (${other.lane})`);
  const what = step.lane === "host waits"
    ? [`the host starts to wait (${step.label}), for ${us(step.end - step.start)}, at `]
    : [`${step.label} starts, ${step.lane}, for ${us(step.end - step.start)}, launched by `];
  return [`Step ${now + 1} of ${all.length}, at ${us(step.start - begin)}: `, ...what, code(step.line),
    ". ", others.length ? `Under way at that moment: ${others.join(", ")}.` : "Nothing else is under way."];
}

function raceList(races, all, jump) {
  if (!races.length) return h("p", { class: "note" }, "No race: every two uses of the same bytes are in order.");
  const items = races.map((race) => {
    const at = raceStep(all, race);
    const go = at < 0 ? [] : [" ", h("button", { type: "button", onclick: () => jump(at) }, `Go to step ${at + 1}`)];
    return h("li", {}, h("span", { class: "bad" }, `Race, ${race.kind}`),
      race.reuse ? ", in memory that was handed out again: " : ": ",
      code(race.first_line), ` (${queueName(race.first_stream)}) and `,
      code(race.second_line), ` (${queueName(race.second_stream)}). Nothing puts them in order.`, ...go);
  });
  return h("ul", { class: "races" }, ...items);
}

function render({ model, el }) {
  const data = model.get("timeline"), found = lanes(data), all = steps(found), range = extent(found);
  const text = h("p", { class: "status", role: "status" });
  const at = () => clamp(0, model.get("step") - 1, all.length - 1);
  function go(to) {
    model.set("step", to + 1);
    model.save_changes();
    draw();
  }
  const words = (now) => `step ${now + 1} of ${all.length}: ${all[now].label}, ${all[now].lane}`;
  const controls = player({ at, last: () => all.length - 1, go, words });
  const shown = picture(found, all, range, controls.jump);
  function draw() {
    const now = at();
    shown.draw(now);
    controls.draw();
    text.replaceChildren(...sentence(all, now, range.begin));
  }
  const follow = () => draw();
  model.on("change:step", follow);
  el.append(widgetRoot("player", model.get("label"),
    h("p", { class: "heading" }, ...prose(model.get("label")), h("span", { class: "note" }, ` · ${data.device}`)),
    shown.node,
    controls.node, text, raceList(data.races, all, controls.jump)));
  draw();
  return () => { controls.stop(); model.off("change:step", follow); };
}

export default { render };
