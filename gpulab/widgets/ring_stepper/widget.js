/* A collective in steps: way, ranks, size and link in the reader's hand. */
import { factRows } from "../shared/controls.js";
import { h, uid, widgetRoot } from "../shared/dom.js";
import { player } from "../shared/player.js";
import { done, heldAfter, moved, possible, schedule, time } from "./model.js";

const TRAITS = ["way", "ranks", "size", "link", "step"];
const clamp = (low, value, high) => Math.max(low, Math.min(high, value));
const UNITS = [["GiB", 30], ["MiB", 20], ["KiB", 10]];

function bytes(count) {
  const [unit, power] = UNITS.find(([, p]) => count >= 2 ** p) ?? ["B", 0];
  return `${Number((count / 2 ** power).toPrecision(3))} ${unit}`;
}

const micros = (us) => (us < 1e3 ? `${us.toPrecision(3)} µs` : us < 1e6 ? `${(us / 1e3).toPrecision(3)} ms` : `${(us / 1e6).toPrecision(3)} s`);
const members = (mask, n) => Array.from({ length: n }, (_, i) => i).filter((i) => mask & (1 << i));

function grid(n, held, sends) {
  const rows = held.map((row, r) => {
    const cells = row.map((mask, c) => {
      const got = sends.some(({ target, chunks }) => target === r && chunks.includes(c));
      const given = sends.some(({ source, chunks }) => source === r && chunks.includes(c));
      const parts = members(mask, n).map((i) => h("span", { class: `part p${i}` }));
      const node = h("td", { class: `${mask === 2 ** n - 1 ? "full " : ""}${got ? "got " : ""}${given ? "given" : ""}` },
        h("span", { class: "parts", "aria-hidden": "true" }, ...parts), h("span", { class: "mono" }, members(mask, n).join("+") || "–"));
      return node;
    });
    return h("tr", {}, h("th", { scope: "row" }, `rank ${r}`), ...cells);
  });
  const head = h("tr", {}, h("td", {}), ...held.map((_, c) => h("th", { scope: "col" }, `chunk ${c}`)));
  return h("table", {}, h("caption", {}, "Whose numbers each rank holds of each chunk"), h("thead", {}, head), h("tbody", {}, ...rows));
}

function sentence(way, sends, step, total, n) {
  if (!possible(way, n)) return "Partners at distance 1, 2, 4 need 2, 4 or 8 ranks.";
  if (step === 0) return `Nothing is sent yet. ${total} steps.`;
  const what = sends[0].reduce ? "adds what arrives" : "keeps what arrives";
  if (sends.length === 1) return `Step ${step} of ${total}: rank ${sends[0].source} sends everything to rank ${sends[0].target}, which ${what}. The others wait.`;
  const many = sends[0].chunks.length > 1 ? "its whole buffer to its partner" : "one chunk to the next";
  return `Step ${step} of ${total}: every rank sends ${many}, and ${what}.`;
}

function render({ model, el }) {
  const ids = { way: uid("way"), link: uid("link") };
  const put = (name, value) => { model.set(name, value); model.save_changes(); draw(); };
  const change = (name, value) => { controls.stop(); if (name !== "size" && name !== "link") model.set("step", 0); put(name, value); };
  const choose = (name, options) => {
    const node = h("select", { id: ids[name], onchange: () => change(name, node.value) }, ...options.map(([value, text]) => h("option", { value }, text)));
    return node;
  };
  const way = choose("way", Object.entries(model.get("ways"))), link = choose("link", Object.keys(model.get("links")).map((key) => [key, key]));
  const slide = (name, text, min, max) => {
    const shown = h("output", { class: "mono" });
    const input = h("input", { type: "range", min, max, step: 1, "aria-label": text, oninput: () => change(name, Number(input.value)) });
    return { name, input, shown, node: h("label", { class: "slider" }, h("span", {}, text), input, shown) };
  };
  const ranks = slide("ranks", "ranks", 2, 8), size = slide("size", "size", 10, 33);
  const total = () => schedule(model.get("way"), model.get("ranks")).length;
  const at = () => clamp(0, model.get("step"), total());
  const controls = player({ at, last: total, go: (to) => put("step", to) });
  const told = h("p", { class: "status", role: "status" }), picture = h("div", { class: "picture", role: "group", "aria-label": "Chunks of every rank", tabindex: 0 }), facts = h("dl");
  function draw() {
    const w = model.get("way"), n = model.get("ranks"), step = at(), steps = schedule(w, n), nbytes = 2 ** model.get("size");
    const wire = model.get("links")[model.get("link")], held = heldAfter(w, n, step);
    way.value = w;
    link.value = model.get("link");
    ranks.input.value = n;
    ranks.shown.textContent = String(n);
    size.input.value = model.get("size");
    size.shown.textContent = bytes(nbytes);
    size.input.setAttribute("aria-valuetext", bytes(nbytes));
    told.textContent = sentence(w, steps[step - 1] ?? [], step, steps.length, n) + (steps.length && step === steps.length && done(w, n, held) ? " Done." : "");
    picture.replaceChildren(grid(n, held, steps[step - 1] ?? []));
    const { sent, received } = moved(w, n, step), chunk = nbytes / n;
    const all = time(w, n, steps.length, nbytes, wire), hops = steps.length * wire.hop_us;
    const rows = [["busiest rank has sent", `${bytes(Math.max(...sent) * chunk)} of a buffer of ${bytes(nbytes)}`], ["busiest rank has received", bytes(Math.max(...received) * chunk)],
      ["time so far", micros(time(w, n, step, nbytes, wire))], ["time of all steps", steps.length ? micros(all) : "–"],
      ["of it latency", steps.length ? `${Math.round((100 * hops) / all)} %` : "–"]];
    facts.replaceChildren(...factRows(rows));
    controls.draw();
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("ring", "A collective, step by step",
    h("div", { class: "settings" }, h("div", { class: "choice" }, h("label", { for: ids.way }, "way"), way),
      h("div", { class: "choice" }, h("label", { for: ids.link }, "link"), link), ranks.node, size.node),
    controls.node, told, picture, facts,
    h("p", { class: "note" }, "Modelled: every rank has a link of its own, sends and receives at once, and a step ends when its last byte has arrived. "
      + "Latency and share of the link are those of NCCL's own model for its protocol Simple.")));
  draw();
  return () => { controls.stop(); for (const name of TRAITS) model.off(`change:${name}`, draw); };
}

export default { render };
