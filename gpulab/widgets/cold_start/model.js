/* gpulab.platforms.coldstart, for one plan: an image, a runtime, weights over several tiers, and graphs. */

/* Seconds of `bytes` in chunks over tiers of these bytes a second; no chunk: all at once. */
export function loadSeconds(bytes, chunk, rates) {
  const free = rates.map(() => 0);
  for (let left = bytes; left > 0;) {
    const size = Math.min(left, chunk || left);
    left -= size;
    rates.reduce((came, rate, hop) => (free[hop] = Math.max(came, free[hop]) + size / rate), 0);
  }
  return free.at(-1);
}

/* `start`: bytes (weights, image, needed, chunk), seconds (runtime, graphs), names (path, network); `rates`: by name. */
export function spansOf(start, rates) {
  const image = loadSeconds(start.needed, start.chunk, [rates[start.network]]);
  const weights = loadSeconds(start.weights, start.chunk, start.path.map((name) => rates[name]));
  const runtime = image + start.runtime, begin = Math.max(runtime, weights);
  return { image: [0, image], runtime: [image, runtime], weights: [0, weights], graphs: [begin, begin + start.graphs] };
}

export function timeline(start, rates) {
  const spans = spansOf(start, rates), ready = spans.graphs[1], saves = {};
  for (const name of [start.network, ...start.path]) saves[name] = ready - spansOf(start, { ...rates, [name]: Infinity }).graphs[1];
  for (const name of ["runtime", "graphs"]) saves[name] = ready - spansOf({ ...start, [name]: 0 }, rates).graphs[1];
  const critical = spans.runtime[1] >= spans.weights[1] ? ["image", "runtime", "graphs"] : ["weights", "graphs"];
  const bottleneck = Object.keys(saves).reduce((a, b) => (saves[b] > saves[a] ? b : a));
  return { spans, ready, saves, critical, bottleneck };
}
