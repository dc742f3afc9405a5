/* PyTorch's caching allocator on one stream with its default settings: the rules of gpulab.cuda.machine.allocator. */

const MIB = 2 ** 20;
const MIN_BLOCK = 512, SMALL = MIB, SMALL_SEGMENT = 2 * MIB, LARGE_SEGMENT = 20 * MIB, OWN_SEGMENT = 10 * MIB, ROUND_LARGE = 2 * MIB;
const up = (bytes, unit) => Math.ceil(bytes / unit) * unit;
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/* Bytes that a malloc takes from its block, and bytes of the segment that the driver is asked for. */
export const rounded = (bytes) => Math.max(MIN_BLOCK, up(bytes, MIN_BLOCK));
export const segmentFor = (size) => (size <= SMALL ? SMALL_SEGMENT : size < OWN_SEGMENT ? LARGE_SEGMENT : up(size, ROUND_LARGE));
const splits = (small, rest) => (small ? rest >= MIN_BLOCK : rest > SMALL);

/* `holds`: the number of the action whose malloc has the block, or null. Addresses begin at 0; `made`: segments so far. */
export const fresh = (capacity) => ({ capacity, segments: [], next: 0, made: 0 });
export const places = (state) => state.segments.flatMap((segment) => segment.blocks.map((block) => ({ segment, block })));
export const reserved = (state) => sum(state.segments.map(({ size }) => size));
export const whole = ({ blocks }) => blocks.length === 1 && blocks[0].holds === null;
const freeOf = (state, small) => places(state).filter(({ segment, block }) => block.holds === null && (small == null || segment.small === small));

export function counters(state) {
  const used = places(state).map(({ block }) => block).filter(({ holds }) => holds !== null), free = freeOf(state).map(({ block }) => block.size);
  return {
    requested: sum(used.map((block) => block.requested)), allocated: sum(used.map(({ size }) => size)), reserved: reserved(state),
    free: sum(free), parts: free.length, largest: Math.max(0, ...free), left: state.capacity - reserved(state),
  };
}

/* The smallest free block that holds `size` bytes, then the lowest address. */
function bestFit(state, size, small) {
  const fitting = freeOf(state, small).filter(({ block }) => block.size >= size);
  return fitting.reduce((best, one) => (best && best.block.size <= one.block.size ? best : one), null);
}

function giveBack(state) {
  const gone = state.segments.filter(whole);
  state.segments = state.segments.filter((segment) => !whole(segment));
  return gone;
}

function newSegment(state, size, small) {
  const block = { offset: 0, size, holds: null, requested: 0 };
  const segment = { number: ++state.made, address: state.next, small, size, blocks: [block] };
  state.segments.push(segment);
  state.next += size;
  return { segment, block };
}

function malloc(state, number, requested) {
  const size = rounded(requested), small = size <= SMALL, wanted = segmentFor(size), room = () => reserved(state) + wanted <= state.capacity;
  const event = { kind: "malloc", number, requested, size, small, wanted, returned: [], failed: false };
  let place = bestFit(state, size, small);
  event.from = place ? "pool" : "driver";
  if (!place && !room()) event.returned = giveBack(state);
  if (!place && !room()) {
    const free = freeOf(state, small).map(({ block }) => block.size);
    return { ...event, failed: true, freeInPool: sum(free), parts: free.length, largest: Math.max(0, ...free) };
  }
  place ??= newSegment(state, wanted, small);
  return { ...event, ...take(place, event) };
}

function take({ segment, block }, { number, requested, size, small }) {
  const found = block.size, rest = found - size, split = splits(small, rest);
  if (split) {
    segment.blocks.splice(segment.blocks.indexOf(block) + 1, 0, { offset: block.offset + size, size: rest, holds: null, requested: 0 });
    block.size = size;
  }
  Object.assign(block, { holds: number, requested });
  return { segment: segment.number, offset: block.offset, found, split, rest };
}

/* A merge keeps the block in front. */
function free(state, of) {
  const { segment, block } = places(state).find(({ block: each }) => each.holds === of), { size, requested, offset } = block;
  block.holds = null;
  block.requested = 0;
  const at = segment.blocks.indexOf(block), merged = [];
  let kept = block;
  for (const [side, a, b] of [["behind", at, at + 1], ["in front", at - 1, at]]) {
    const [first, second] = [segment.blocks[a], segment.blocks[b]];
    if (!first || !second || first.holds !== null || second.holds !== null) continue;
    first.size += second.size;
    segment.blocks.splice(b, 1);
    merged.push(side);
    kept = first;
  }
  return { kind: "free", of, size, requested, offset, segment: segment.number, merged, into: kept.size, at: kept.offset, whole: whole(segment) };
}

function emptyCache(state) {
  const returned = giveBack(state), kept = freeOf(state).map(({ block }) => block.size);
  return { kind: "empty_cache", returned, kept: sum(kept), staying: state.segments.length };
}

/* One action, the number-th of its trace, upon `state`; returns what happened. A failed malloc leaves no block to free. */
export function act(state, action, number) {
  if (action.kind === "malloc") return malloc(state, number, action.bytes);
  return action.kind === "free" ? free(state, action.of) : emptyCache(state);
}

/* The state after `count` actions, and what the last one did. */
export function replay(capacity, actions, count) {
  const state = fresh(capacity);
  let event = null;
  actions.slice(0, count).forEach((action, number) => { event = act(state, action, number); });
  return { state, event };
}

export function mostSegments(capacity, actions) {
  const state = fresh(capacity);
  return Math.max(0, ...actions.map((action, number) => {
    act(state, action, number);
    return state.segments.length;
  }));
}

/* A trace whose reader may go on with actions of their own: `own` is {} or { after, actions }. */
export const sequence = (actions, { after, actions: own }) => (after == null ? actions : [...actions.slice(0, after), ...own]);

export function withOwn(own, step, action) {
  const { after, actions } = own.after == null || step <= own.after ? { after: step, actions: [] } : own;
  return { after, actions: [...actions.slice(0, step - after), action] };
}
