/* gpulab.feeding: what a batch takes in each stage, when each batch is where, and what each stage allows. Milliseconds. */

const AHEAD = 3;

/* What is left in each stage when decoding and augmentation run at `place`. */
export function placed(work, place) {
  const { fetch, decode, augment, collate, pin, transfer, step, parse, packed, faster } = work, kernels = augment / faster;
  if (place === "workers") return { fetch, decode: decode + augment, collate, pin, transfer, engine: 0, step };
  if (place === "augment on the GPU") return { fetch, decode, collate, pin, transfer, engine: 0, step: step + kernels };
  const sent = { fetch, collate: collate / packed, pin: pin / packed, transfer: transfer / packed };
  if (place === "mixed decode") {
    return { ...sent, decode: parse * decode, engine: 0, step: step + (kernels + (1 - parse) * decode / faster) };
  }
  return { ...sent, decode: 0, engine: decode / faster, step: step + kernels };
}

/* `count` batches, the last of every `every` slower by `uneven`. */
export const batchesOf = (usual, uneven, count, every) => Array.from({ length: count }, (_, i) =>
  (i % every === every - 1 ? { ...usual, fetch: usual.fetch * uneven, decode: usual.decode * uneven } : usual));

function consumer(overlap) {
  let asks = 0, copied = 0, decoded = 0, stepped = 0;
  const ends = [];
  return {
    asks: () => asks,
    take(stages, worker, begun, ready) {
      const asked = asks, given = Math.max(asks, ready);
      copied = Math.max(given, copied) + stages.transfer;
      decoded = Math.max(copied, decoded) + stages.engine;
      const started = Math.max(decoded, stepped);
      stepped = started + stages.step;
      ends.push(stepped);
      asks = overlap ? Math.max(given, ends.length >= AHEAD ? ends[ends.length - AHEAD] : 0) : stepped;
      return { worker, begun, ready, asked, given, started, ended: stepped };
    },
  };
}

function inTurn(batches, loop) {
  return batches.map((stages) => {
    const begun = loop.asks();
    return loop.take(stages, -1, begun, begun + stages.fetch + stages.decode + stages.collate + stages.pin);
  });
}

/* `loader`: workers, prefetch, cores, overlap. */
export function simulate(batches, loader) {
  const loop = consumer(loader.overlap), { workers, prefetch, cores } = loader;
  if (!workers) return inTurn(batches, loop);
  const tasks = Array.from({ length: workers }, () => []), fetching = Array(workers).fill(0), computing = Array(workers).fill(0);
  const begun = [], ready = [], sends = [], turns = [];
  let sent = 0, now = 0, pinned = 0;
  function begin(worker) {
    const task = tasks[worker][0];
    begun[task] = now;
    fetching[worker] = batches[task].fetch;
    computing[worker] = batches[task].decode + batches[task].collate;
  }
  function send() {
    if (sent === batches.length) return;
    const worker = sent % workers;
    tasks[worker].push(sent);
    sent += 1;
    if (tasks[worker].length === 1) begin(worker);
  }
  function done(worker) {
    const task = tasks[worker].shift();
    pinned = Math.max(now, pinned) + batches[task].pin;
    ready[task] = pinned;
    if (tasks[worker].length) begin(worker);
    while (turns.length in ready) {
      const number = turns.length, turn = loop.take(batches[number], number % workers, begun[number], ready[number]);
      turns.push(turn);
      sends.push(turn.given);
    }
  }
  function work(worker, passed, share, ends) {
    if (fetching[worker]) {
      fetching[worker] = ends ? 0 : fetching[worker] - passed;
      return;
    }
    computing[worker] -= passed * share;
    if (ends) done(worker);
  }
  function advance() {
    const busy = tasks.flatMap((own, worker) => (own.length ? [worker] : []));
    const sharing = busy.filter((worker) => !fetching[worker]).length, share = sharing ? Math.min(1, cores / sharing) : 1;
    const ends = new Map(busy.map((worker) => [worker, now + (fetching[worker] || computing[worker] / share)]));
    const until = Math.min(...ends.values(), ...sends.slice(0, 1)), passed = until - now;
    now = until;
    for (const worker of busy) work(worker, passed, share, ends.get(worker) <= until);
    while (sends.length && sends[0] <= now) {
      sends.shift();
      send();
    }
  }
  for (let i = 0; i < workers * prefetch; i += 1) send();
  while (turns.length < batches.length) advance();
  return turns;
}

const half = (turns) => Math.floor(turns.length / 2);

/* Batches a second over the second half. */
export const rate = (turns) => (1000 * (turns.length - 1 - half(turns))) / (turns.at(-1).ended - turns[half(turns)].ended);

/* The share of the second half in which no step ran. */
export function idle(turns) {
  const busy = turns.slice(half(turns) + 1).reduce((all, turn) => all + (turn.ended - turn.started), 0);
  return 1 - busy / (turns.at(-1).ended - turns[half(turns)].ended);
}

const perSecond = (ms) => (ms ? 1000 / ms : Infinity);

/* Pairs of a stage and the batches a second that it allows. */
export function bounds(stages, { workers, cores, overlap }) {
  const computing = stages.decode + stages.collate, { transfer, engine, step } = stages;
  const device = overlap ? [["transfer", transfer], ["decoder", engine], ["step", step]] : [["transfer and step", transfer + engine + step]];
  if (!workers) {
    const waiting = stages.fetch + computing + stages.pin, times = device.map(([, ms]) => ms);
    return [["all in turn", perSecond(overlap ? Math.max(waiting, ...times) : waiting + times[0])]];
  }
  return [["workers", workers * perSecond(stages.fetch + computing)], ["cores", cores * perSecond(computing)],
    ["pinning", perSecond(stages.pin)], ...device.map(([name, ms]) => [name, perSecond(ms)])];
}

export const least = (limits) => limits.reduce((low, one) => (one[1] < low[1] ? one : low));
