/* Jobs on nodes of eight GPUs under four policies, as gpulab.fleet.play and its policies have them. */
const NODE = 8;
const sum = (values) => values.reduce((total, value) => total + value, 0);

/* Placements are lists of pairs of a node and GPUs of it; the tightest node comes first. */
export function placements(gpus, free) {
  if (gpus <= NODE) {
    const nodes = free.map((_, node) => node).filter((node) => free[node] >= gpus);
    return nodes.sort((a, b) => free[a] - free[b] || a - b).map((node) => [[node, gpus]]);
  }
  const whole = free.map((_, node) => node).filter((node) => free[node] === NODE).slice(0, Math.floor(gpus / NODE));
  return whole.length * NODE === gpus ? [whole.map((node) => [node, NODE])] : [];
}

/* Hours until a job fits, as what runs ends. */
export function earliestStart(gpus, { free, running }) {
  const there = [...free], ends = [...running].sort((a, b) => a.left - b.left);
  let now = 0, i = 0;
  while (!placements(gpus, there).length) {
    if (i === ends.length) return Infinity;
    now = ends[i].left;
    for (; i < ends.length && ends[i].left === now; i++) for (const [node, many] of ends[i].nodes) there[node] += many;
  }
  return now;
}

function begun({ free, running }, place, hours) {
  const there = [...free];
  for (const [node, many] of place) there[node] -= many;
  return { free: there, running: [...running, { nodes: place, left: hours }] };
}

function podByPod(jobs, { free }) {
  const there = [...free], given = new Map(jobs.map((job) => [job.name, new Map()])), wants = new Map(jobs.map((job) => [job.name, job.gpus - job.held]));
  while (there.some(Boolean) && [...wants.values()].some(Boolean)) {
    for (const name of [...wants.keys()].filter((one) => wants.get(one))) {
      const node = there.indexOf(Math.max(...there));
      if (!there[node]) continue;
      there[node] -= 1;
      given.get(name).set(node, (given.get(name).get(node) ?? 0) + 1);
      wants.set(name, wants.get(name) - 1);
    }
  }
  return [...given].filter(([, place]) => place.size).map(([name, place]) => [name, [...place]]);
}

function inOrder(jobs, cluster) {
  const started = [];
  for (const job of jobs) {
    const [place] = placements(job.gpus, cluster.free);
    if (!place) break;
    started.push([job.name, place]);
    cluster = begun(cluster, place, job.hours);
  }
  return started;
}

function greedy(jobs, cluster) {
  const started = [];
  for (const job of jobs) {
    const [place] = placements(job.gpus, cluster.free);
    if (!place) continue;
    started.push([job.name, place]);
    cluster = begun(cluster, place, job.hours);
  }
  return started;
}

function backfill(jobs, cluster) {
  const started = [];
  let head = null, due = Infinity;
  for (const job of jobs) {
    const place = placements(job.gpus, cluster.free).find((one) => !head || earliestStart(head.gpus, begun(cluster, one, job.hours)) <= due);
    if (place) {
      started.push([job.name, place]);
      cluster = begun(cluster, place, job.hours);
    } else if (!head) {
      head = job;
      due = earliestStart(job.gpus, cluster);
    }
  }
  return started;
}

export const POLICIES = { "pod by pod": podByPod, "in order": inOrder, greedy, backfill };

/* What becomes of the jobs; `moments`: after each arrival and each end. */
export function play(jobs, nodes, policy) {
  const free = Array(nodes).fill(NODE), holds = new Map(), ends = new Map(), coming = [...jobs].sort((a, b) => a.at - b.at);
  const played = { began: {}, ended: {}, worked: 0, held: 0, free: 0, queue_hours: 0, moments: [] };
  let waiting = [], now = 0;
  const size = (name) => sum([...(holds.get(name) ?? new Map()).values()]);
  const pass = (hours) => {
    played.free += hours * sum(free);
    for (const name of holds.keys()) played[ends.has(name) ? "worked" : "held"] += hours * size(name);
    played.queue_hours += hours * waiting.length;
  };
  while (coming.length || ends.size) {
    const then = Math.min(...coming.slice(0, 1).map((job) => job.at), ...ends.values());
    pass(then - now);
    now = then;
    for (const [name, end] of [...ends]) {
      if (end > now) continue;
      for (const [node, many] of holds.get(name)) free[node] += many;
      holds.delete(name);
      ends.delete(name);
      played.ended[name] = now;
    }
    while (coming.length && coming[0].at <= now) waiting.push(coming.shift());
    const running = [...ends].map(([name, end]) => ({ nodes: [...holds.get(name)], left: end - now }));
    for (const [name, place] of POLICIES[policy](waiting.map((job) => ({ ...job, held: size(job.name) })), { free: [...free], running })) {
      const job = waiting.find((one) => one.name === name), own = holds.get(name) ?? new Map();
      holds.set(name, own);
      for (const [node, many] of place) {
        free[node] -= many;
        own.set(node, (own.get(node) ?? 0) + many);
      }
      if (size(name) === job.gpus) {
        ends.set(name, now + job.hours);
        played.began[name] = now;
      }
    }
    waiting = waiting.filter((job) => !ends.has(job.name));
    const cells = free.map((_, node) => [...holds].flatMap(([name, place]) => Array(place.get(node) ?? 0).fill(name)));
    played.moments.push({ at_h: now, cells, waiting: waiting.map((job) => job.name), running: [...ends.keys()] });
  }
  return { ...played, end_h: now, deadlocked: waiting.map((job) => job.name) };
}
