/* A widget with two modes: to explore, and a quiz that is made when it is first asked for. */
import { h, widgetRoot } from "./dom.js";

export function exploreOrQuiz(model, el, { kind, label, explore, quiz }) {
  const body = h("div");
  let asking = null;
  function enter(mode) {
    if (mode === "quiz") asking ??= quiz(model.get("seed"));
    body.replaceChildren(mode === "quiz" ? asking : explore.node);
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.value === mode)));
  }
  const press = (mode, text) => h("button", { type: "button", value: mode, onclick: () => {
    model.set("mode", mode);
    model.save_changes();
    enter(mode);
  } }, text);
  const buttons = [press("explore", "Explore"), press("quiz", "Quiz me")];
  el.append(widgetRoot(kind, label,
    h("div", { class: "bar modes", role: "group", "aria-label": "Mode" }, ...buttons), body));
  enter(model.get("mode"));
  return explore.stop;
}
