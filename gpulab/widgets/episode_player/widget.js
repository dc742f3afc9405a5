/* Replays episodes of a policy. It moves only when asked; for who wants little motion, slowly. */
import { h, uid, widgetRoot } from "../shared/dom.js";
import { away, scene } from "./scene.js";

const TICK_MS = 140, CALM_TICK_MS = 1000;
const clamp = (low, value, high) => Math.max(low, Math.min(high, value));
const calm = () => globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches ?? false;

function render({ model, el }) {
  const episodes = model.get("episodes");
  let timer = null;
  const id = uid("action"), picture = h("div", { class: "picture" });
  const told = h("p", { class: "told", role: "status" }), state = h("p", { class: "state" });
  const choices = episodes.map((episode, i) => h("button", { type: "button", "aria-pressed": "false", onclick: () => choose(i) }, `${i + 1}. ${episode.label ?? episode.told}`));
  const slider = h("input", { id, type: "range", min: 0, max: 1, step: 1, oninput: () => jump(Number(slider.value)) });
  const play = h("button", { type: "button", onclick: () => (timer ? stop() : start()) }, "Play");
  const episode = () => episodes[clamp(0, model.get("chosen"), episodes.length - 1)];
  const last = () => episode().tips.length - 1;
  const at = () => clamp(0, model.get("step"), last());
  function set(name, value) {
    model.set(name, value);
    model.save_changes();
    draw();
  }
  function jump(to) {
    stop();
    set("step", clamp(0, to, last()));
  }
  function choose(i) {
    stop();
    model.set("step", 0);
    set("chosen", i);
    start();
  }
  function start() {
    if (at() === last()) set("step", 0);
    play.textContent = "Pause";
    timer = setInterval(() => (at() < last() ? set("step", at() + 1) : stop()), calm() ? CALM_TICK_MS : TICK_MS);
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }
  function draw() {
    const now = at(), { told: words, named, reached } = episode(), end = now === last();
    picture.replaceChildren(scene(episode(), now));
    choices.forEach((button, i) => button.setAttribute("aria-pressed", String(episodes[i] === episode())));
    slider.max = String(last());
    slider.value = String(now);
    slider.setAttribute("aria-valuetext", `after ${now} of ${last()} actions, ${away(episode(), now).toFixed(1)} pixels away`);
    const said = `Told: “${words}”.${words === named ? "" : ` Meant: “${named}”.`}`;
    if (told.textContent !== said) told.textContent = said;
    state.replaceChildren(`After ${now} of ${last()} actions: ${away(episode(), now).toFixed(1)} pixels from the object that is meant. `,
      ...(end ? [h("span", { class: reached ? "good" : "bad" }, reached ? "Reached." : "Not reached.")] : []));
  }
  const follow = () => draw();
  for (const name of ["chosen", "step"]) model.on(`change:${name}`, follow);
  el.append(widgetRoot("episodes", model.get("label"),
    h("p", { class: "heading" }, model.get("label")),
    h("div", { class: "bar" }, ...choices), picture,
    h("div", { class: "bar" }, play, h("label", { for: id }, "Action"), slider), told, state,
    h("p", { class: "note" }, "Dashed: within reach of the object that is meant. The line is the way of the arm's tip.")));
  draw();
  return () => {
    stop();
    for (const name of ["chosen", "step"]) model.off(`change:${name}`, follow);
  };
}

export default { render };
