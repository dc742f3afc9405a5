/* Previous, next, play and pause over steps from 0 on, and a slider where its words are given. */
import { h, uid } from "./dom.js";

/* `at` and `last`: functions that tell steps. `go`: moves to one and draws. `words`: what the slider says of a step; `name`: its own.
   `toStart`: with a button that goes back to step 0. */
export function player({ at, last, go, words, name = "Step", toStart = false, tickMs = 900 }) {
  let timer = null;
  const to = (step) => go(Math.max(0, Math.min(last(), step)));
  const jump = (step) => { stop(); to(step); };
  const button = (text, onclick) => h("button", { type: "button", onclick }, text);
  const first = toStart && button("To the start", () => jump(0));
  const previous = button("Previous", () => jump(at() - 1)), next = button("Next", () => jump(at() + 1));
  const play = button("Play", () => (timer ? stop() : start()));
  const id = uid("step"), slider = words && h("input", { id, type: "range", min: 1, step: 1, oninput: () => jump(Number(slider.value) - 1) });
  function start() {
    if (at() === last()) to(0);
    play.textContent = "Pause";
    timer = setInterval(() => (at() < last() ? to(at() + 1) : stop()), tickMs);
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }
  function draw() {
    // A button that loses the focus by being disabled would take the keyboard's place with it.
    for (const back of [first, previous]) if (back) back.setAttribute("aria-disabled", String(at() === 0));
    next.setAttribute("aria-disabled", String(at() === last()));
    if (!slider) return;
    slider.max = String(last() + 1);
    slider.value = String(at() + 1);
    slider.setAttribute("aria-valuetext", words(at()));
  }
  const node = h("div", { class: "bar" }, ...(first ? [first] : []), previous, next, play, ...(slider ? [h("label", { for: id }, name), slider] : []));
  return { node, draw, jump, stop };
}
