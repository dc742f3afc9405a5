/* What a multiprocessor holds, and in how many waves a launch runs: threads, registers and memory in the hand. */
import { h, uid, widgetRoot } from "../shared/dom.js";
import { LIMITS, resident, waves } from "./model.js";
import { generator } from "../shared/random.js";
import { many, percent } from "../shared/words.js";

const SLIDERS = [
  ["threads", "threads in a block", 1, 1024, 1],
  ["registers", "registers of a thread", 8, 255, 1],
  ["shared", "shared bytes of a block", 0, 98304, 256],
  ["blocks", "blocks launched", 1, 4096, 1],
];
const TRAITS = ["card", ...SLIDERS.map(([name]) => name)];

function stores(fits, limit, most) {
  return LIMITS.map((name) => h("div", { class: name === limit ? "store binds" : "store" },
    h("span", { class: "name" }, name),
    h("span", { class: "track" }, h("span", { class: "fill", style: `width: ${(100 * Math.min(fits[name], most)) / most}%` })),
    h("span", { class: "mono" }, String(fits[name]))));
}

/* A cell for every place of a warp; the warps of one block are next to each other. */
function places(found, sm, warps) {
  return Array.from({ length: sm.max_warps }, (_, place) => {
    const block = Math.floor(place / warps);
    return h("span", { class: place >= found.warps ? "place" : block % 2 ? "place odd" : "place even" });
  });
}

function draw_waves(run) {
  const shown = Math.min(run.count, 12);
  const bars = Array.from({ length: shown }, (_, wave) => {
    const last = run.count <= 12 && wave === shown - 1;
    return h("span", { class: "wave" }, h("span", { class: "fill", style: `height: ${last ? Math.max(2, 100 * run.last) : 100}%` }));
  });
  return run.count > 12 ? [...bars, h("span", { class: "note" }, `and ${run.count - 12} more`)] : bars;
}

function render({ model, el }) {
  const random = generator(model.get("seed"));
  let puzzle = false, tally = [0, 0];
  const put = (values) => { for (const [name, value] of Object.entries(values)) model.set(name, value); model.save_changes(); draw(); };
  const id = uid("card"), guess = uid("guess");
  const card = h("select", { id, onchange: () => change({ card: card.value }) }, ...Object.keys(model.get("cards")).map((key) => h("option", { value: key }, key)));
  const sliders = SLIDERS.map(([name, text, min, max, step]) => {
    const shown = h("output", { class: "mono" });
    const input = h("input", { type: "range", min, max, step, "aria-label": text, oninput: () => change({ [name]: Number(input.value) }) });
    return { name, input, shown, node: h("label", { class: "slider" }, h("span", {}, text), input, shown) };
  });
  const bars = h("div", { class: "stores", "aria-hidden": "true" }), cells = h("div", { class: "places", "aria-hidden": "true" });
  const strip = h("div", { class: "strip", "aria-hidden": "true" }), verdict = h("p", { class: "status", role: "status" });
  const ask = h("button", { type: "button", onclick: pose }, "Ask me");
  const answer = h("div", { class: "answer" });

  const launch = () => ({ threads: model.get("threads"), registers: model.get("registers"), shared: model.get("shared") });
  const sm = () => model.get("cards")[model.get("card")];
  function change(values) { puzzle = false; answer.replaceChildren(); put(values); }
  function pose() {
    const pick = (list) => list[Math.floor(random() * list.length)];
    puzzle = true;
    put({
      card: pick(Object.keys(model.get("cards"))), threads: 32 * (1 + Math.floor(random() * 32)),
      registers: pick([16, 24, 32, 40, 48, 64, 96, 128]), shared: 256 * pick([0, 0, 16, 32, 64, 100]),
    });
    const input = h("input", { id: guess, type: "number", min: 0, max: 64, step: 1, inputmode: "numeric" });
    answer.replaceChildren(h("form", { class: "bar", onsubmit: (event) => {
      event.preventDefault();
      if (input.value !== "") reveal(Number(input.value));
    } }, h("label", { for: guess }, "How many such blocks does one multiprocessor hold?"), input, h("button", { type: "submit" }, "Answer")));
    input.focus();
  }
  function reveal(given) {
    const found = resident(launch(), sm()), right = given === found.blocks;
    puzzle = false;
    tally = [tally[0] + right, tally[1] + 1];
    draw();
    answer.replaceChildren(h("p", {}, h("span", { class: right ? "good" : "bad" }, right ? "Right." : "No."),
      ` ${many(found.blocks, "block")}: ${found.limit} ${found.limit === "shared memory" ? "binds" : "bind"}. ${tally[0]} of ${tally[1]} right.`));
    ask.focus();
  }
  function draw() {
    const known = sm(), found = resident(launch(), known), warps = Math.ceil(launch().threads / 32);
    const run = waves(model.get("blocks"), found.blocks * known.multiprocessors);
    card.value = model.get("card");
    for (const { name, input, shown } of sliders) { input.value = String(model.get(name)); shown.textContent = model.get(name).toLocaleString("en"); }
    const hide = puzzle;
    bars.replaceChildren(...(hide ? [] : stores(found.fits, found.limit, known.max_blocks)));
    cells.replaceChildren(...(hide ? [] : places(found, known, warps)));
    strip.replaceChildren(...(hide ? [] : draw_waves(run)));
    verdict.textContent = hide ? "What one multiprocessor holds is hidden until you answer."
      : found.blocks === 0 ? `No multiprocessor of this card can run such a block: ${found.limit} do${found.limit === "shared memory" ? "es" : ""} not suffice.`
      : `One multiprocessor holds ${many(found.blocks, "block")}, ${found.warps} of ${known.max_warps} warps (${percent(found.warps / known.max_warps)}); ` +
        `${found.limit} ${found.limit === "shared memory" ? "binds" : "bind"}. The launch runs in ${many(run.count, "wave")} of up to ${found.blocks * known.multiprocessors} blocks; ` +
        `the last is ${percent(run.last)} full, all together ${percent(run.share)}.`;
  }
  const follow = () => draw();
  TRAITS.forEach((name) => model.on(`change:${name}`, follow));
  el.append(widgetRoot("occupancy", model.get("label"),
    h("div", { class: "bar" }, h("label", { for: id }, "Card"), card, ask),
    h("div", { class: "settings" }, ...sliders.map((s) => s.node)), answer,
    h("p", { class: "note" }, "Blocks that each store of a multiprocessor allows, and its places for warps:"), bars, cells,
    h("p", { class: "note" }, "Waves of the launch, all blocks equally long:"), strip, verdict));
  draw();
  return () => TRAITS.forEach((name) => model.off(`change:${name}`, follow));
}

export default { render };
