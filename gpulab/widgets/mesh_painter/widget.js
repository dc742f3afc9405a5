/* 64 GPUs on nodes of eight: the reader sets the mesh and chooses a rank, whose groups are painted. */
import { choice, slider } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { listed, many } from "../shared/words.js";
import { coordinate, group, mostNodes, strides } from "./model.js";

const TRAITS = ["pp", "tp", "order", "rank", "paint"], DIMENSIONS = ["tp", "pp", "dp"];
const CALLED = { tp: "tensor", pp: "pipeline", dp: "data" };
const PAINT = [["groups", "the groups of one GPU"], ["pp", "by pipeline stage"], ["tp", "by tensor slice"], ["dp", "by replica"]];
const QUESTION = "Lay it so that no tensor-parallel group leaves its node. Which dimension has to be innermost, and how large may it be?";
const POWERS = [1, 2, 4, 8, 16];

function verdictOf(sizes, { world, node }) {
  const nodes = Object.fromEntries(DIMENSIONS.map((name) => [name, mostNodes(sizes, name, world, node)]));
  const leaving = DIMENSIONS.filter((name) => nodes[name] > 1), size = Object.fromEntries(sizes);
  if (nodes.tp > 1) {
    return `Tensor parallelism leaves the node: its all-reduces, several in every layer, cross the network between ${nodes.tp} nodes. `
      + (size.tp > node ? `${size.tp} ranks have no room on a node of ${node}.` : "Make tp the innermost dimension.");
  }
  return `Tensor parallelism stays inside the node. ${leaving.length ? `What crosses: ${listed(leaving.map((name) => `${CALLED[name]} parallelism (over ${nodes[name]} nodes)`))}.` : ""}`;
}

function table(sizes, rank, { world, node }) {
  const step = strides(sizes), size = Object.fromEntries(sizes), own = coordinate(sizes, rank);
  const nodesOf = (ranks) => new Set(ranks.map((one) => Math.floor(one / node))).size;
  const rows = DIMENSIONS.map((name) => {
    const ranks = group(sizes, name, rank);
    const list = ranks.length > 6 ? `${ranks.slice(0, 3).join(" ")} … ${ranks.at(-1)}` : ranks.join(" ");
    return h("tr", {}, h("th", { scope: "row" }, `${name} ${size[name]}`), ...[own[name], step[name], list, nodesOf(ranks)].map((text) => h("td", {}, String(text))));
  });
  const head = ["size", "coordinate", "stride", "its group", "nodes"].map((text) => h("th", { scope: "col" }, text));
  return h("table", {}, h("caption", {}, `Rank ${rank}, GPU ${rank % node} of node ${Math.floor(rank / node)}, of ${world}`), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
}

function render({ model, el }) {
  const known = model.get("known"), { world, node } = known;
  const sizesOf = () => {
    const pp = model.get("pp"), tp = model.get("tp"), of = { pp, tp, dp: world / (pp * tp) };
    return model.get("order").split(" ").map((name) => [name, of[name]]);
  };
  const put = (name) => (value) => { model.set(name, value); model.save_changes(); draw(); };
  const fields = {
    tp: slider({ text: "tp", values: POWERS, put: put("tp") }), pp: slider({ text: "pp", values: POWERS, put: put("pp") }),
    order: choice({ text: "order", options: known.orders.map((order) => [order, order.replaceAll(" ", " × ")]), put: put("order") }),
    paint: choice({ text: "paint", options: PAINT, put: put("paint") }),
  };
  const whole = h("p", { class: "product mono" }), verdict = h("p", { class: "verdict", role: "status" }), numbers = h("div");
  const legend = h("p", { class: "legend" }), cells = Array.from({ length: world }, (_, rank) =>
    h("button", { type: "button", "data-rank": rank, onclick: () => put("rank")(rank) }));
  const nodes = Array.from({ length: world / node }, (_, i) => h("div", { class: "node" }, h("span", { class: "name" }, `node ${i}`), ...cells.slice(i * node, (i + 1) * node)));
  const rack = h("div", { class: "rack", role: "group", "aria-label": "GPUs" }, ...nodes);
  rack.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -node, ArrowDown: node }[event.key], rank = model.get("rank") + (by ?? 0);
    if (!by || rank < 0 || rank >= world) return;
    event.preventDefault();
    put("rank")(rank);
    cells[rank].focus();
  });

  function drawCell(sizes, rank, chosen, paint) {
    const at = coordinate(sizes, rank), mine = paint === "groups" ? DIMENSIONS.filter((name) => rank !== chosen && group(sizes, name, chosen).includes(rank)) : [];
    const kind = rank === chosen ? "own" : paint === "groups" ? mine[0] ?? "" : `c${at[paint] % 4}`;
    const word = paint === "groups" ? (rank === chosen ? "" : mine[0] ?? "") : `${paint}${at[paint]}`;
    const cell = cells[rank];
    cell.className = `gpu ${kind}`;
    cell.setAttribute("tabindex", rank === chosen ? 0 : -1);
    cell.setAttribute("aria-pressed", String(rank === chosen));
    cell.setAttribute("aria-label", `rank ${rank}, node ${Math.floor(rank / node)}: ${DIMENSIONS.map((name) => `${name} ${at[name]}`).join(", ")}${mine.length ? `, in the ${CALLED[mine[0]]} group of rank ${chosen}` : ""}`);
    cell.replaceChildren(h("span", {}, String(rank)), h("small", {}, word));
  }

  /* Sizes that leave no whole replica are mended by the other slider. */
  function fit() {
    const pp = model.get("pp"), tp = model.get("tp");
    if (pp * tp > world) model.set("pp", world / tp);
  }

  function draw() {
    fit();
    const sizes = sizesOf(), rank = model.get("rank"), paint = model.get("paint");
    for (const [name, field] of Object.entries(fields)) field.draw(model.get(name));
    whole.textContent = `${sizes.map(([name, size]) => `${name} ${size}`).join(" × ")} = ${world}`;
    cells.forEach((_, one) => drawCell(sizes, one, rank, paint));
    legend.replaceChildren(...(paint === "groups" ? DIMENSIONS.map((name) => h("span", {}, h("span", { class: `swatch ${name}`, "aria-hidden": "true" }), `${name}: ${CALLED[name]} group of rank ${rank}`)) : [`Each GPU is marked with its ${CALLED[paint]} coordinate.`]));
    numbers.replaceChildren(table(sizes, rank, known));
    verdict.textContent = verdictOf(sizes, known);
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("mesh", "A mesh over nodes of eight", h("p", { class: "question" }, QUESTION),
    h("div", { class: "settings" }, ...Object.values(fields).map(({ node: one }) => one)), whole, legend, rack, verdict, numbers,
    h("p", { class: "note" }, "Counted: the groups of torch.distributed.DeviceMesh. The dimension that is named last is the innermost: ranks that differ by 1 are neighbours in it. Click a GPU, or go with the arrow keys.")));
  draw();
  return () => { for (const name of TRAITS) model.off(`change:${name}`, draw); };
}

/* Readers without a script cannot move a slider: every order, and where its groups lie. */
function withoutScript({ model }) {
  const { orders, world, node } = model.get("known"), pp = model.get("pp"), tp = model.get("tp"), of = { pp, tp, dp: world / (pp * tp) };
  const rows = orders.map((order) => {
    const sizes = order.split(" ").map((name) => [name, of[name]]);
    return h("tr", {}, h("th", { scope: "row" }, order), ...DIMENSIONS.map((name) => h("td", {}, many(mostNodes(sizes, name, world, node), "node"))));
  });
  const head = ["order", ...DIMENSIONS].map((text) => h("th", { scope: "col" }, text));
  return [h("div", { class: "gpulab mesh" }, h("table", {}, h("caption", {}, "Where a group of each dimension lies, by order"), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)))];
}

export default { render, withoutScript };
