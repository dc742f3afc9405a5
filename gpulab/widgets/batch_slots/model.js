/* gpulab.serving's engine with its schedulers Static, Continuous and Chunked, its clock Linear and room for all in the cache.
   `job`: requests ({ arrival, prompt, writes }, in microseconds and tokens), slots, tokens of a step, clock ({ step, token }). */

export const allowed = (policy, { requests, tokens, slots }) =>
  (policy === "chunked" ? tokens : Math.max(tokens, Math.max(...requests.map(({ prompt }) => prompt)) + slots - 1));

const left = (live) => live.prompt + live.told - live.computed;

/* Whole prompts, first come first, until one does not fit. */
function letIn(waiting, room, plan) {
  for (const live of waiting) {
    if (left(live) > room) return;
    plan.set(live, left(live));
    room -= left(live);
  }
}

/* By policy: functions that fill the plan of a step. `filling`: whom static batching still lets in. */
const POLICIES = {
  static(plan, { waiting, running, slots, room, filling }) {
    if (!running.length) waiting.slice(0, slots).forEach((live) => filling.add(live));
    letIn(waiting.filter((live) => filling.has(live)), room, plan);
    if (plan.size) return;
    filling.clear();
    for (const live of running) plan.set(live, 1);
  },
  continuous(plan, { waiting, running, slots, room }) {
    for (const live of running) plan.set(live, 1);
    letIn(waiting.slice(0, slots - running.length), room - running.length, plan);
  },
  chunked(plan, { waiting, running, slots, room }) {
    for (const live of [...running, ...waiting.slice(0, slots - running.length)]) {
      const tokens = Math.min(left(live), room);
      if (tokens) plan.set(live, tokens);
      room -= tokens;
    }
  },
};

/* What each slot does in the step: a request takes the first free one. */
function spansOf(plan, running, begin, us) {
  const taken = new Set(running.map(({ slot }) => slot));
  return running.map((live) => {
    if (live.slot === undefined) {
      live.slot = 0;
      while (taken.has(live.slot)) live.slot += 1;
      taken.add(live.slot);
    }
    const tokens = plan.get(live) ?? 0;
    const kind = !tokens ? "stalled" : live.computed < live.prompt ? "prefill" : "decode";
    return { slot: live.slot, request: live.number, kind, tokens, begin, us };
  });
}

/* Tokens are computed; whoever has none left is told one. */
function tell(plan, now) {
  for (const [live, tokens] of plan) {
    live.computed += tokens;
    if (left(live)) continue;
    live.told += 1;
    live.times.push(now);
  }
}

function numbers(lives, spans, steps, slots, now) {
  const busy = steps.reduce((all, { us }) => all + us, 0), used = steps.reduce((all, { us, requests }) => all + us * requests, 0);
  const gaps = lives.flatMap(({ times, slot }) => times.slice(1).map((to, i) => ({ slot, from: times[i], to, us: to - times[i] })));
  const worst = gaps.reduce((most, one) => (one.us > most.us ? one : most), { us: 0 });
  const first = lives.reduce((all, { times, arrival }) => all + times[0] - arrival, 0) / lives.length;
  return { spans, idle: 1 - used / (slots * busy), makespan: now - Math.min(...lives.map(({ arrival }) => arrival)),
    gap: worst.us, worst, ttft: first };
}

/* Times in microseconds. `idle`: of the slots' time in steps, the share in which nothing was computed. */
export function play(policy, job) {
  const { requests, slots, clock } = job, room = allowed(policy, job), filling = new Set(), spans = [], steps = [];
  const lives = requests.map((request, number) => ({ ...request, number, computed: 0, told: 0, times: [] }));
  let coming = [...lives].sort((a, b) => a.arrival - b.arrival || a.number - b.number), waiting = [], running = [], now = 0;
  while (coming.length || waiting.length || running.length) {
    if (!waiting.length && !running.length) now = Math.max(now, coming[0].arrival);
    waiting.push(...coming.filter(({ arrival }) => arrival <= now));
    coming = coming.filter(({ arrival }) => arrival > now);
    const plan = new Map();
    POLICIES[policy](plan, { waiting, running, slots, room, filling });
    running.push(...waiting.filter((live) => plan.has(live)));
    waiting = waiting.filter((live) => !plan.has(live));
    const us = clock.step + clock.token * [...plan.values()].reduce((a, b) => a + b, 0);
    spans.push(...spansOf(plan, running, now, us));
    steps.push({ us, requests: plan.size });
    now += us;
    tell(plan, now);
    running = running.filter(({ told, writes }) => told < writes);
  }
  return numbers(lives, spans, steps, slots, now);
}

/* The requests that the sliders make. */
export const requestsOf = ({ prompts, mean, pattern }, unequal, spacing_ms) =>
  prompts.map((prompt, i) => ({ arrival: 1000 * spacing_ms * i, prompt, writes: mean + unequal * pattern[i] }));
