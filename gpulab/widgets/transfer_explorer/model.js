/* Batches copied to a device and computed there: the arithmetic of gpulab.cuda's machine. */

function clockwork({ assumed, rate }) {
  const host = { now: 0 };
  const spans = [];
  const queue = () => ({ ready: 0 });
  const engine = { ready: 0 };
  const mark = (q) => Math.max(q.ready, host.now);
  function wait(until, for_copy = false) {
    const start = host.now;
    host.now = Math.max(start + assumed.sync_us, until);
    spans.push({ lane: "host", start, end: host.now, for_copy });
  }
  function held(us) {
    const start = host.now;
    host.now += us;
    spans.push({ lane: "host", start, end: host.now, for_copy: true });
  }
  function record(q) {
    host.now += assumed.call_us;
    return mark(q);
  }
  function follow(q, until) {
    host.now += assumed.call_us;
    q.ready = Math.max(q.ready, until);
  }
  function copy(q, bytes, pinned, blocking, batch) {
    host.now += assumed.launch_us;
    const start = Math.max(host.now, q.ready, engine.ready);
    const sent = start + assumed.copy_latency_us + (bytes / (rate * assumed.link_efficiency)) * 1e6;
    const staging = (bytes / assumed.pageable_bytes_per_s) * 1e6;
    q.ready = engine.ready = pinned ? sent : Math.max(sent, host.now + staging + assumed.copy_latency_us);
    spans.push({ lane: "copy", start, end: q.ready, batch });
    if (blocking) wait(mark(q), true);
    else if (!pinned && bytes > assumed.async_pageable_bytes) held(staging);
  }
  function kernel(q, duration, batch) {
    host.now += assumed.launch_us;
    const start = Math.max(host.now, q.ready);
    q.ready = start + duration;
    spans.push({ lane: "step", start, end: q.ready, batch });
  }
  return { spans, queue, mark, wait, record, follow, copy, kernel };
}

/* Every span on the host (its waits), the copy engine and the compute stream, in microseconds. */
export function transfers(plan) {
  const { batches, bytes, step_us, pinned, non_blocking, side_stream, buffers } = plan;
  const m = clockwork(plan);
  const compute = m.queue(), copies = side_stream ? m.queue() : compute;
  const arrived = [], used = [];
  for (let i = 0; i < batches; i++) {
    if (i >= buffers) {
      m.wait(arrived[i - buffers]);
      if (side_stream) m.follow(copies, used[i - buffers]);
    }
    m.copy(copies, bytes, pinned, !non_blocking, i);
    arrived.push(m.record(copies));
    if (side_stream) m.follow(compute, arrived[i]);
    m.kernel(compute, step_us, i);
    used.push(m.record(compute));
  }
  m.wait(Math.max(m.mark(compute), m.mark(copies)));
  return m.spans;
}

const span = (spans, lane) => spans.filter((s) => s.lane === lane);
const sum = (some) => some.reduce((all, s) => all + s.end - s.start, 0);

/* What the timeline comes to: microseconds, and the part of the copying that ran during a step. */
export function totals(spans) {
  const copies = span(spans, "copy"), steps = span(spans, "step");
  let hidden = 0;
  for (const c of copies) for (const s of steps) hidden += Math.max(0, Math.min(c.end, s.end) - Math.max(c.start, s.start));
  return {
    total: Math.max(...steps.map((s) => s.end)) - copies[0].start,
    copying: sum(copies), computing: sum(steps), held: sum(spans.filter((s) => s.for_copy)), hidden,
  };
}
