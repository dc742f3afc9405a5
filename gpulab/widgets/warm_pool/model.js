/* gpulab.platforms.pool: a policy over a trace of arrivals, second by second. */

/* The policy: the most at work in the last seconds, and room for some more. */
export function lately(memory, room) {
  const last = [];
  return ({ busy, waiting }) => {
    last.push(busy + waiting);
    if (last.length > memory) last.shift();
    return Math.max(...last) + room;
  };
}

const due = (times, now) => { let n = 0; while (times.length && times[0] <= now) { times.shift(); n += 1; } return n; };

/* `settle`: seconds that are played and not counted. `needs`: busy and waiting at each second. */
export function replay(decide, arrivals, cold, service, settle = 0) {
  const busy = [], starting = [], waiting = [], waits = [], sizes = [], needs = [];
  let idle = 0, unused = 0, starts = 0, before = [0, 0], now = 0;
  const admit = (arrived) => {
    idle += due(busy, now) + due(starting, now);
    for (let i = 0; i < arrived; i += 1) waiting.push(now);
    while (idle && waiting.length) {
      idle -= 1;
      const came = waiting.shift();
      waits.push([came, now - came]);
      busy.push(now + service);
    }
  };
  for (const arrived of arrivals) {
    if (now === settle) before = [unused, starts];
    admit(arrived);
    const target = decide({ second: now, arrived, busy: busy.length, idle, starting: starting.length, waiting: waiting.length });
    const instances = () => idle + busy.length + starting.length;
    idle -= Math.max(0, Math.min(idle, instances() - target));
    const missing = Math.max(0, target - instances(), waiting.length - starting.length);
    for (let i = 0; i < missing; i += 1) starting.push(now + cold);
    starts += missing;
    sizes.push(instances());
    needs.push(busy.length + waiting.length);
    unused += idle + starting.length;
    now += 1;
  }
  const counted = { unused: unused - before[0], starts: starts - before[1] };
  while (waiting.length) { admit(0); now += 1; }
  return { ...counted, waits: waits.filter(([came]) => came >= settle).map(([, wait]) => wait), sizes, needs };
}

export function percentile(waits, percent) {
  const ordered = [...waits].sort((a, b) => a - b);
  return ordered.length ? ordered[Math.ceil((percent * ordered.length) / 100) - 1] : 0;
}

/* The least fixed size whose 99th percentile of waits is `limit` or less. */
export function keeping(arrivals, cold, service, limit, settle) {
  let low = 0, high = 0;
  arrivals.forEach((_, i) => { high = Math.max(high, arrivals.slice(i, i + service).reduce((a, b) => a + b, 0)); });
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (percentile(replay(() => middle, arrivals, cold, service, settle).waits, 99) <= limit) high = middle;
    else low = middle + 1;
  }
  return low;
}
