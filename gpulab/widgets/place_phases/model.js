/* gpulab.widgets.place_phases.placed: seconds of both placements, and what the link costs. `clock`: terms of gpulab.serving.Roofline, in
   microseconds. `load`: prompt, found (tokens), writes, rate, cards, budget, most. */

const pairs = (fresh, context) => fresh * context + (fresh * (fresh + 1)) / 2;
const context = ({ prompt, writes }) => prompt + Math.floor(writes / 2);

/* Of a step with `batch` decodes and one chunk, or without one. */
export function seconds(clock, batch, at, chunk = null) {
  const tokens = batch + (chunk?.fresh ?? 0), reads = batch + (chunk ? 1 : 0);
  const attention = (fresh, before) => Math.max(clock.pair * pairs(fresh, before), clock.kept * (before + fresh));
  const linear = Math.max(tokens * clock.token + reads * clock.head, clock.weights);
  return (linear + batch * attention(1, at) + (chunk ? attention(chunk.fresh, chunk.before) : 0) + clock.elementwise * tokens + clock.kernels) / 1e6;
}

function chunks({ prompt, found, budget }, batch) {
  const all = [];
  for (let before = found; before < prompt; before += budget - batch) all.push({ fresh: Math.min(budget - batch, prompt - before), before });
  return all;
}

const waits = (rate, service) => (rate * service < 1 ? (rate * service ** 2) / (2 * (1 - rate * service)) : Infinity);
const room = (clock, { prompt, writes, most }) => Math.min(most, Math.floor(clock.slots / (prompt + writes)));
const timed = (load, times) => {
  const first = times.wait + times.prefill;
  return { ...times, first, last: first + times.exposed + (load.writes - 1) * times.gap };
};

/* All cards compute both phases; null where they cannot keep up. */
export function shared(clock, load) {
  const rate = load.rate / load.cards, at = context(load);
  for (let batch = 1; batch < Math.min(room(clock, load), load.budget); batch++) {
    const steps = chunks(load, batch).map((chunk) => seconds(clock, batch, at, chunk)), prefill = steps.reduce((a, b) => a + b, 0);
    if (rate * prefill >= 1) continue;
    const gap = 1 / (rate * steps.length + (1 - rate * prefill) / seconds(clock, batch, at));
    if (batch >= rate * (load.writes - 1) * gap)
      return timed(load, { cards: 0, wait: waits(rate, prefill), prefill, exposed: 0, gap, worst: Math.max(...steps), batch });
  }
  return null;
}

function decodePool(clock, load, cards) {
  for (let batch = 1; batch <= room(clock, load); batch++) {
    const gap = seconds(clock, batch, context(load));
    if (batch >= (load.rate / cards) * (load.writes - 1) * gap) return { gap, batch };
  }
  return null;
}

/* In two pools, the transfer not yet counted: the one whose last token comes soonest; null where none keeps up. */
export function split(clock, load) {
  const prefill = seconds(clock, 0, 0, { fresh: load.prompt - load.found, before: load.found });
  let best = null;
  for (let cards = 1; cards < load.cards; cards++) {
    const wait = waits(load.rate / cards, prefill), pool = decodePool(clock, load, load.cards - cards);
    if (!pool || wait === Infinity) continue;
    const times = timed(load, { cards, wait, prefill, exposed: 0, gap: pool.gap, worst: pool.gap, batch: pool.batch });
    if (!best || times.last < best.last) best = times;
  }
  return best;
}

/* Of one request: a layer's keys and values leave when it is computed, one layer's after the other's. */
export function transfer(clock, load, times, bytesPerS) {
  const nbytes = (load.prompt - load.found) * clock.kv_bytes, sent = nbytes / bytesPerS / clock.layers, computed = times.prefill / clock.layers;
  const exposed = sent + (clock.layers - 1) * Math.max(0, sent - computed);
  return { nbytes, seconds: clock.layers * sent, exposed, load: (load.rate / times.cards) * clock.layers * sent };
}

export const withTransfer = (load, times, { exposed }) => timed(load, { ...times, exposed });

/* Bytes a second from which on the split is done no later; null where it never is. */
export function breakEven(clock, load, one, two) {
  if (!two) return null;
  const nbytes = (load.prompt - load.found) * clock.kv_bytes, { layers } = clock, computed = two.prefill / layers;
  const least = (load.rate / two.cards) * nbytes;
  if (!one) return least;
  const margin = one.last - two.last;
  if (margin <= 0) return null;
  const sent = margin <= computed ? margin : (margin + (layers - 1) * computed) / layers;
  return Math.max(least, nbytes / layers / sent);
}

/* All of it, for what the sliders say. */
export function placed(clock, load, bytesPerS) {
  const one = shared(clock, load), bare = split(clock, load), even = breakEven(clock, load, one, bare);
  const link = bare && transfer(clock, load, bare, bytesPerS);
  return { one, two: bare && withTransfer(load, bare, link), link, even };
}
