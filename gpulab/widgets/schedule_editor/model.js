/* gpulab.parallel's checks and measures over a table: what is wrong with it, slots, bubble, activations in flight. */

const parse = (text) => {
  const [, stage, kind, microbatch] = /^([0-9]+)([FBIW])([0-9]+)$/.exec(text);
  return { stage: Number(stage), kind, microbatch: Number(microbatch), text };
};
const ORDER = { B: 0, F: 1, I: 2, W: 3 };
const inOrder = (a, b) => a.stage - b.stage || ORDER[a.kind] - ORDER[b.kind] || a.microbatch - b.microbatch;
const earlier = (a, b) => a.slot - b.slot || a.gpu - b.gpu;

const placesOf = (table) => table.flatMap((row, gpu) => row.flatMap((text, slot) => (text === null ? [] : [{ ...parse(text), gpu, slot }])));

/* What has to have run before an action: of each inner list one will do. */
function needs({ stage, kind, microbatch }, stages) {
  const found = [];
  if (kind === "F" && stage > 0) found.push([`${stage - 1}F${microbatch}`]);
  if (kind === "B" || kind === "I") {
    found.push([`${stage}F${microbatch}`]);
    if (stage < stages - 1) found.push([`${stage + 1}B${microbatch}`, `${stage + 1}I${microbatch}`]);
  }
  if (kind === "W") found.push([`${stage}I${microbatch}`]);
  return found;
}

/* Every place of every action, by its text, the actions in order and the places by slot. */
function byAction(table) {
  const all = placesOf(table), at = new Map();
  for (const one of [...all].sort(inOrder)) at.set(one.text, []);
  for (const one of [...all].sort(earlier)) at.get(one.text).push(one);
  return at;
}

function missing(at, stages, microbatches) {
  const found = [];
  for (let stage = 0; stage < stages; stage++) for (let microbatch = 0; microbatch < microbatches; microbatch++) {
    const has = (kind) => at.has(`${stage}${kind}${microbatch}`);
    const backward = has("B") ? "" : has("I") || has("W") ? "IW" : "B";
    for (const kind of `F${backward}`) if (!has(kind)) found.push({ kind: "missing", action: `${stage}${kind}${microbatch}`, places: [], waits: [] });
  }
  return found;
}

function early(at, stages) {
  const hasRun = (some, slot) => some.some((text) => at.has(text) && at.get(text)[0].slot < slot);
  return [...at.values()].flatMap(([first]) => {
    const waits = needs(first, stages).filter((some) => !hasRun(some, first.slot)).map((some) => some.find((text) => at.has(text)) ?? some[0]);
    return waits.length ? [{ kind: "early", action: first.text, places: [first], waits }] : [];
  });
}

function twice(at) {
  return [...at.entries()].flatMap(([action, places]) => {
    const { stage, kind, microbatch } = places[0];
    const beside = kind === "B" ? ["I", "W"].flatMap((half) => at.get(`${stage}${half}${microbatch}`) ?? []) : [];
    return places.length > 1 || beside.length ? [{ kind: "twice", action, places: [...places, ...beside], waits: [] }] : [];
  });
}

function split(at, stages) {
  return Array.from({ length: stages }, (_, stage) => stage).flatMap((stage) => {
    const runs = [...at.values()].flat().filter((one) => one.stage === stage).sort((a, b) => earlier(a, b) || inOrder(a, b));
    const elsewhere = runs.filter((one) => one.gpu !== runs[0].gpu);
    return elsewhere.length ? [{ kind: "split", action: elsewhere[0].text, places: elsewhere, waits: [] }] : [];
  });
}

/* Every defect. `pipeline`: how many stages and microbatches there are. */
export function violations(table, { stages, microbatches }) {
  const all = byAction(table), foreign = [], at = new Map();
  for (const [action, places] of all) {
    if (places[0].stage >= stages || places[0].microbatch >= microbatches) foreign.push({ kind: "foreign", action, places, waits: [] });
    else at.set(action, places);
  }
  return [...missing(at, stages, microbatches), ...early(at, stages), ...twice(at), ...foreign, ...split(at, stages)];
}

export function pipelineOf(table) {
  const all = placesOf(table);
  return { stages: 1 + Math.max(-1, ...all.map(({ stage }) => stage)), microbatches: 1 + Math.max(-1, ...all.map(({ microbatch }) => microbatch)) };
}

export const slots = (table) => Math.max(0, ...placesOf(table).map(({ slot }) => slot + 1));

export function idleShare(table) {
  const all = slots(table) * table.length;
  return all ? 1 - placesOf(table).length / all : 0;
}

/* For each GPU and slot, the activations held while it runs. */
export function inFlight(table) {
  const last = slots(table), rows = table.map(() => Array(last).fill(0)), begins = new Map(), ends = new Map();
  for (const { stage, kind, microbatch, gpu, slot } of placesOf(table)) {
    const key = `${stage} ${microbatch} ${gpu}`;
    if (kind === "F") begins.set(key, { gpu, slot });
    if (kind === "B" || kind === "W") ends.set(key, slot);
  }
  for (const [key, { gpu, slot }] of begins) for (let at = slot; at <= (ends.get(key) ?? last - 1); at++) rows[gpu][at] += 1;
  return rows;
}

/* The table with the action of one slot put into another of the same row; what was there comes back. */
export function moved(table, gpu, from, to) {
  const row = [...table[gpu]];
  [row[from], row[to]] = [row[to], row[from]];
  return withRoom(table.map((old, i) => (i === gpu ? row : old)));
}

export function placedIn(table, gpu, slot, text) {
  return withRoom(table.map((row, i) => (i === gpu ? row.map((old, at) => (at === slot ? text : old)) : row)));
}

/* Two free slots behind the last action, 30 in all at most. */
const MOST = 30;
function withRoom(table) {
  const length = Math.min(MOST, slots(table) + 2);
  return table.map((row) => Array.from({ length }, (_, at) => row[at] ?? null));
}

/* The GPU of a stage: the one that runs most of it. */
export function homeOf(table, stage) {
  const counts = table.map((_, gpu) => placesOf(table).filter((one) => one.stage === stage && one.gpu === gpu).length);
  return counts.some((count) => count) ? counts.indexOf(Math.max(...counts)) : stage % table.length;
}
