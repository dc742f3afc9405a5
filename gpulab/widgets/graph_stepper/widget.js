/* A forward and a backward pass in steps: network, write and step in the reader's hand. */
import { factRows } from "../shared/controls.js";
import { h, uid, widgetRoot } from "../shared/dom.js";
import { player } from "../shared/player.js";
import { listed } from "../shared/words.js";
import { spoiled, state, steps } from "./model.js";

const TRAITS = ["network", "write", "step"];
const clamp = (low, value, high) => Math.max(low, Math.min(high, value));
const size = (bytes) => (bytes >= 1024 ? `${Number((bytes / 1024).toPrecision(3))} KiB` : `${bytes} B`);

/* What stands in a node's box, and how it is drawn. */
function nodeState(recording, now, n, step) {
  const { nodes, storages } = recording, { saved, statement } = nodes[n];
  const what = listed(saved.map(({ storage, version }) => `${storages[storage].name} (v${version})`));
  if (now.fails && now.running === n) {
    const bad = spoiled(recording, n).map(({ storage, version }) => `${storages[storage].name} was saved at v${version} and is at v${now.version[storage]}`);
    return ["refuses", `refuses: ${listed(bad)}`];
  }
  if (now.done.has(n)) return [now.running === n ? "running" : "done", saved.length ? `has used ${what}, lets go` : "done, held nothing"];
  if (!now.there.has(n)) return ["absent", statement < step ? "gone: nothing that is held leads to it" : "not there yet"];
  return ["there", saved.length ? `holds ${what}` : "holds nothing"];
}

function graph(recording, now, step) {
  const { nodes, storages } = recording, shown = nodes.map((_, n) => n).filter((n) => nodes[n].gradient_of == null);
  const ends = new Map(), met = new Set();
  for (const n of shown) for (const next of nodes[n].next) {
    if (nodes[next].gradient_of == null || met.has(next)) continue;
    met.add(next);
    ends.set(n, [...(ends.get(n) ?? []), next]);
  }
  const leaf = (n) => {
    const done = now.done.has(n), there = now.there.has(n);
    const text = done ? `is there, ${size(storages[nodes[n].gradient_of].bytes)}` : there ? "is None" : "not there";
    return h("span", { class: `leaf ${now.running === n ? "running" : done ? "made" : there ? "there" : "absent"}` }, h("b", { class: "mono" }, nodes[n].name), ` ${text}`);
  };
  return h("ol", {}, ...shown.map((n, i) => {
    const [kind, text] = nodeState(recording, now, n, step), to = nodes[n].next.map((next) => nodes[next].name);
    const below = shown[i + 1], flows = below != null && nodes[below].next.includes(n);
    return h("li", { class: flows ? `${kind} flows` : kind },
      h("span", { class: "box" }, h("span", { class: "title" }, h("b", { class: "mono" }, nodes[n].name), h("span", { class: "to" }, to.length ? ` → ${listed(to)}` : "")),
        h("span", { class: "holds" }, text)),
      ...(ends.get(n) ?? []).map(leaf));
  }));
}

function code(recording, step) {
  return h("ol", { class: "code" }, ...recording.statements.map(({ text }, i) =>
    h("li", { class: i === step - 1 ? "now" : i < step ? "past" : "ahead", "aria-current": i === step - 1 ? "step" : null }, h("code", {}, text))));
}

function table(recording, now) {
  const { storages, nodes } = recording;
  const rows = storages.map(({ name, bytes, leaf }, s) => {
    const holders = [...(now.named.get(s) ?? []).map((each) => `name ${each}`), ...(leaf ? ["the caller"] : []), ...(now.savers.get(s) ?? []).map((n) => nodes[n].name)];
    const alive = now.alive.includes(s);
    return h("tr", { class: alive ? "alive" : "gone" }, h("th", { scope: "row", class: "mono" }, name), h("td", {}, size(bytes)),
      h("td", {}, alive ? `v${now.version[s]}` : "–"), h("td", {}, holders.length ? listed(holders) : "nobody: no memory"));
  });
  const head = h("tr", {}, ...["storage", "bytes", "version", "held by"].map((text) => h("th", { scope: "col" }, text)));
  return h("table", {}, h("caption", {}, "Storages"), h("thead", {}, head), h("tbody", {}, ...rows));
}

function sentence(recording, now, step) {
  const { statements, nodes, storages, raised } = recording, total = steps(recording), lines = statements.length;
  const at = `Step ${step} of ${total}: `;
  if (step === 0) return `Nothing has run. ${total} steps.`;
  if (step <= lines) {
    const { text, drops, node, storage } = statements[step - 1];
    if (raised && step === lines) return `${at}${text} raises. ${raised}`;
    const kept = node == null ? [] : nodes.filter(({ statement }) => statement === step - 1).flatMap(({ name, saved }) =>
      saved.map((each) => `${name} saves ${storages[each.storage].name}`));
    const gone = drops.map((name) => `the name ${name} is let go`);
    return `${at}${text}. ${listed([...(kept.length ? kept : [`nothing is saved of ${storages[storage].name}`]), ...gone])}.`;
  }
  if (now.fails) return `${at}backward comes to ${nodes[now.running].name} and refuses: what it saved was written to since.`;
  const { name, saved, gradient_of } = nodes[now.running];
  const end = step === total ? " Backward is done: nothing is saved any more." : "";
  if (gradient_of != null) return `${at}backward adds to ${name}.${end}`;
  return `${at}backward runs ${name}${saved.length ? ", which lets go of what it saved" : ", which saved nothing"}.${end}`;
}

function render({ model, el }) {
  const ids = { network: uid("network"), write: uid("write") };
  const own = () => model.get("recordings")[model.get("network")];
  const recording = () => own()[model.get("write")] ?? Object.values(own())[0];
  const total = () => steps(recording()), at = () => clamp(0, model.get("step"), total());
  const put = (values) => {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
    draw();
  };
  const controls = player({ at, last: total, go: (step) => put({ step }), toStart: true, tickMs: 1100 });
  const network = h("select", { id: ids.network, onchange: () => { controls.stop(); put({ network: network.value, write: Object.keys(model.get("recordings")[network.value])[0], step: 0 }); } },
    ...Object.keys(model.get("recordings")).map((name) => h("option", { value: name }, name)));
  const write = h("select", { id: ids.write, onchange: () => { controls.stop(); put({ write: write.value, step: 0 }); } });
  let filled = null;
  const told = h("p", { class: "status", role: "status" });
  const program = h("div", { class: "program", role: "group", "aria-label": "Program" }), picture = h("div", { class: "picture", role: "group", "aria-label": "Graph" });
  const held = h("div", { class: "held", role: "group", "aria-label": "Storages", tabindex: 0 }), facts = h("dl");
  function draw() {
    if (filled !== model.get("network")) {
      filled = model.get("network");
      write.replaceChildren(...Object.keys(own()).map((name) => h("option", { value: name }, name)));
    }
    network.value = filled;
    write.value = model.get("write");
    const given = recording(), step = at(), now = state(given, step);
    told.textContent = sentence(given, now, step);
    told.setAttribute("class", now.fails || (given.raised && step === total()) ? "status bad" : "status");
    program.replaceChildren(code(given, step));
    picture.replaceChildren(graph(given, now, step));
    held.replaceChildren(table(given, now));
    const rows = [["saved for backward", size(now.saved)], ["made here and alive", size(now.made)], ["gradients", size(now.gradientBytes)]];
    facts.replaceChildren(...factRows(rows));
    controls.draw();
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("graph", "A forward and a backward pass, step by step",
    h("div", { class: "settings" }, h("div", { class: "choice" }, h("label", { for: ids.network }, "network"), network),
      h("div", { class: "choice" }, h("label", { for: ids.write }, "written in place"), write)),
    controls.node, told,
    h("div", { class: "sides" }, h("div", {}, h("p", { class: "head" }, "Program"), program, facts), h("div", {}, h("p", { class: "head" }, "Graph, each node with those that it passes a gradient to"), picture)),
    held,
    h("p", { class: "note" }, "Recorded from PyTorch on CPU tensors. Saved bytes count each storage once and leave parameters out; gradients on their way between two nodes are not shown.")));
  draw();
  return () => { controls.stop(); for (const name of TRAITS) model.off(`change:${name}`, draw); };
}

export default { render };
