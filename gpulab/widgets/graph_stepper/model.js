/* What a recorded graph holds after each step: nodes alive, storages alive, versions, the order of backward, who refuses. */

const range = (n) => Array.from({ length: n }, (_, i) => i);
const reached = (nodes, from) => {
  const found = new Set(), left = [...from];
  while (left.length) {
    const n = left.pop();
    if (n == null || found.has(n)) continue;
    found.add(n);
    left.push(...nodes[n].next);
  }
  return found;
};

/* Statements that ran: all, or those before the one that raised. */
export const ran = ({ statements, raised }) => (raised ? statements.slice(0, -1) : statements);

/* name -> { storage, node }, after `count` statements. A write in place moves its name to a new node. */
export function held(recording, count) {
  const names = new Map();
  for (const { name, storage, node, drops } of ran(recording).slice(0, count)) {
    names.set(name, { storage, node });
    for (const gone of drops) names.delete(gone);
  }
  return names;
}

/* By storage: how often it was written to in place. */
export function versions(recording, count) {
  const found = recording.storages.map(() => 0);
  for (const { storage, version } of ran(recording).slice(0, count)) found[storage] = version;
  return found;
}

/* Nodes in the order in which backward visits them: of those that wait for nobody, the one that was made last. */
export function order(recording) {
  if (recording.raised) return [];
  const { nodes, statements } = recording, root = statements.at(-1).node, there = reached(nodes, [root]);
  const waits = nodes.map(() => 0), visited = [];
  for (const n of there) for (const next of nodes[n].next) waits[next] += 1;
  const ready = [root], made = (n) => nodes[n].number ?? Infinity;
  while (ready.length) {
    const n = ready.reduce((best, each) => (made(each) > made(best) ? each : best), ready[0]);
    ready.splice(ready.indexOf(n), 1);
    visited.push(n);
    for (const next of nodes[n].next) if ((waits[next] -= 1) === 0) ready.push(next);
  }
  return visited;
}

/* What a node saved and finds changed. */
export function spoiled(recording, n) {
  const now = versions(recording, Infinity);
  return recording.nodes[n].saved.filter(({ storage, version }) => now[storage] !== version);
}

/* Backward as it goes: the nodes visited, the last of which refuses where `refuses`. */
export function backward(recording) {
  const all = order(recording), at = all.findIndex((n) => spoiled(recording, n).length > 0);
  return at < 0 ? { visits: all, refuses: false } : { visits: all.slice(0, at + 1), refuses: true };
}

/* Steps: one for each statement, also one that raises; then one for each node of backward. */
export const steps = (recording) => recording.statements.length + backward(recording).visits.length;

/* After `step` steps: what each node and each storage is, and the bytes that are there beside the leaves. */
export function state(recording, step) {
  const { nodes, storages } = recording, count = Math.min(step, ran(recording).length);
  const { visits, refuses } = backward(recording), behind = Math.max(0, step - recording.statements.length);
  const names = held(recording, count), there = reached(nodes, [...names.values()].map(({ node }) => node));
  const fails = refuses && behind === visits.length;
  const done = new Set(visits.slice(0, fails ? behind - 1 : behind)), running = behind ? visits[behind - 1] : null;
  const named = new Map(), savers = new Map();
  const add = (map, storage, who) => map.set(storage, [...(map.get(storage) ?? []), who]);
  for (const [name, { storage }] of names) add(named, storage, name);
  for (const n of there) if (!done.has(n)) for (const { storage } of nodes[n].saved) add(savers, storage, n);
  const alive = range(storages.length).filter((s) => storages[s].leaf || named.has(s) || savers.has(s));
  const gradients = [...done].map((n) => nodes[n].gradient_of).filter((s) => s != null);
  const bytes = (list) => list.reduce((sum, s) => sum + storages[s].bytes, 0);
  return {
    alive, named, savers, there, done, running, fails, gradients,
    version: versions(recording, count),
    made: bytes(alive.filter((s) => !storages[s].leaf)), saved: bytes([...savers.keys()].filter((s) => !storages[s].parameter)),
    gradientBytes: bytes(gradients),
  };
}
