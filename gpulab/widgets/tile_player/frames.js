/* The frames of a traced block: what each step touches, and what has been touched by then. */

/* Elements loaded from global memory, read from and written to shared memory, up to and with a frame. */
export function countsAt(frames, now) {
  const counts = { loads: 0, shared_reads: 0, shared_writes: 0, stores: 0 };
  for (const { touches } of frames.slice(0, now + 1)) {
    for (const { space, store, cells } of touches) {
      const name = space === "shared" ? (store ? "shared_writes" : "shared_reads") : store ? "stores" : "loads";
      counts[name] += cells.length;
    }
  }
  return counts;
}

/* For each array, the cells that a frame reads, that it writes, and that frames before it touched. */
export function marksAt(frames, now) {
  const marks = {};
  const of = (name) => (marks[name] ??= { reads: new Set(), writes: new Set(), before: new Set() });
  frames.slice(0, now + 1).forEach(({ touches }, at) => {
    for (const { array, store, cells } of touches) {
      for (const cell of cells) (at < now ? of(array).before : store ? of(array).writes : of(array).reads).add(cell);
    }
  });
  return marks;
}
