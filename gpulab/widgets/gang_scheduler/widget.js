/* A queue before four nodes of eight GPUs: the reader chooses who decides, and steps through what happens. */
import { choice, factRows } from "../shared/controls.js";
import { h, widgetRoot } from "../shared/dom.js";
import { player } from "../shared/player.js";
import { listed, many, percent } from "../shared/words.js";
import { play } from "./model.js";

const TRAITS = ["queue", "policy", "moment"], SHADES = 5;
const QUESTION = "Two jobs of 24 GPUs on 32. Step through it pod by pod, then find the policy under which everybody runs and the large job does not wait for ever.";
const hours = (value) => `${Math.round(10 * value) / 10} h`;

/* What is said of a whole play. */
function outcome(jobs, played) {
  const waits = jobs.filter((job) => job.name in played.began).map((job) => [played.began[job.name] - job.at, job]);
  const [longest, whose] = waits.reduce((best, one) => (one[0] > best[0] ? one : best), [0, null]);
  return { used: percent(played.worked, played.worked + played.held + played.free), longest: whose ? `${hours(longest)} (${whose.name}, ${many(whose.gpus, "GPU")})` : "0 h", end: hours(played.end_h) };
}

function verdict(played, moment) {
  const last = moment === played.moments.length - 1;
  if (last && played.deadlocked.length) {
    return `Deadlock: ${listed(played.deadlocked)} hold GPUs, wait for those of the others, and none will ever run.`;
  }
  const at = played.moments[moment], waiting = new Set(at.waiting), holding = new Set(at.cells.flat().filter((name) => waiting.has(name)));
  if (holding.size) return `${listed([...holding])} ${holding.size > 1 ? "hold" : "holds"} GPUs and cannot run yet: nothing is computed on them.`;
  return last ? "Everybody has run." : at.waiting.length ? `In the queue: ${at.waiting.join(" ")}.` : "Nobody waits.";
}

function render({ model, el }) {
  const queues = model.get("queues"), nodes = model.get("nodes");
  let jobs, played, shade;
  const put = (name) => (value) => { model.set(name, value); if (name !== "moment") model.set("moment", 0); model.save_changes(); draw(); };
  const fields = {
    queue: choice({ text: "queue", options: Object.keys(queues).map((name) => [name, name]), put: put("queue") }),
    policy: choice({ text: "policy", options: model.get("policies").map((name) => [name, name]), put: put("policy") }),
  };
  const rack = h("div", { class: "rack", role: "img" }), said = h("p", { class: "verdict", role: "status" }), facts = h("dl"), queue = h("p", { class: "queue" });
  const last = () => played.moments.length - 1, at = () => Math.min(model.get("moment"), last());
  const steps = player({ at, last, go: put("moment"), words: (step) => `event ${step + 1} of ${last() + 1}, after ${hours(played.moments[step].at_h)}`, name: "Event", toStart: true });

  function replay() {
    jobs = queues[model.get("queue")];
    played = play(jobs, nodes, model.get("policy"));
    shade = Object.fromEntries(jobs.map((job, i) => [job.name, i % SHADES]));
  }

  function cell(name, running) {
    if (!name) return h("span", { class: "gpu" }, "");
    return h("span", { class: `gpu c${shade[name]} ${running.has(name) ? "" : "held"}` }, name);
  }

  function draw() {
    replay();
    const moment = at(), now = played.moments[moment], running = new Set(now.running), told = outcome(jobs, played);
    for (const [name, field] of Object.entries(fields)) field.draw(model.get(name));
    steps.draw();
    const rows = now.cells.map((names, node) => h("div", { class: "node" }, h("span", { class: "name" }, `node ${node}`), ...Array.from({ length: 8 }, (_, i) => cell(names[i], running))));
    rack.replaceChildren(...rows);
    rack.setAttribute("aria-label", `After ${hours(now.at_h)}: ${now.cells.map((names, node) => `node ${node} has ${names.length ? names.join(" ") : "nothing"}`).join("; ")}`);
    queue.textContent = `${hours(now.at_h)}: ${now.waiting.length ? `waiting ${now.waiting.map((name) => `${name} (${jobs.find((job) => job.name === name).gpus})`).join(", ")}` : "nobody waits"}`;
    said.textContent = verdict(played, moment);
    facts.replaceChildren(...factRows([["GPU-hours that work", told.used], ["longest wait", told.longest], ["all is over after", played.deadlocked.length ? "never" : told.end]]));
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("gang", "Who starts", h("p", { class: "question" }, QUESTION),
    h("div", { class: "settings" }, ...Object.values(fields).map(({ node }) => node)), steps.node, queue, rack, said, facts,
    h("p", { class: "note" }, "Simulated: four nodes of eight GPUs. A letter is a job, in brackets its GPUs; a dashed cell is held by a job that does not run. Shares and waits are those of the whole play.")));
  draw();
  return () => {
    steps.stop();
    for (const name of TRAITS) model.off(`change:${name}`, draw);
  };
}

/* Readers without a script: what becomes of each queue under each policy. */
function withoutScript({ model }) {
  const queues = model.get("queues"), policies = model.get("policies");
  const rows = Object.entries(queues).flatMap(([queue, jobs]) => policies.map((policy) => {
    const played = play(jobs, model.get("nodes"), policy), told = outcome(jobs, played);
    return h("tr", {}, ...[queue, policy, told.used, told.longest, played.deadlocked.length ? `deadlock of ${listed(played.deadlocked)}` : told.end].map((text) => h("td", {}, text)));
  }));
  const head = ["queue", "policy", "GPU-hours that work", "longest wait", "over after"].map((text) => h("th", { scope: "col" }, text));
  return [h("div", { class: "gpulab gang" }, h("table", {}, h("caption", {}, "Each queue under each policy"), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)))];
}

export default { render, withoutScript };
