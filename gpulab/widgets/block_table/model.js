/* gpulab.widgets.block_table.moves: what each move of a story does to the books. */

const list = (length, value) => Array.from({ length }, () => value);
const fresh = (total) => ({ counts: list(total, 0), filled: list(total, 0), kept: list(total, false), tables: {}, lengths: {},
  computed: 0, copied: 0, shared: 0 });

function hold(frame, block, filled) {
  frame.counts[block] = 1;
  frame.filled[block] = filled;
  frame.kept[block] = false;
}

const MOVES = {
  take(frame, story, sequence, block) {
    (frame.tables[sequence] ??= []).push(block);
    frame.lengths[sequence] ??= 0;
    hold(frame, block, 0);
  },
  fill(frame, { size }, sequence, tokens) {
    const length = frame.lengths[sequence];
    for (let token = length; token < length + tokens; token++) frame.filled[frame.tables[sequence][Math.floor(token / size)]] = (token % size) + 1;
    frame.lengths[sequence] += tokens;
    frame.computed += tokens;
  },
  share(frame, story, sequence, blocks, tokens) {
    frame.tables[sequence] = [...blocks];
    frame.lengths[sequence] = tokens;
    for (const block of blocks) {
      frame.counts[block] += 1;
      frame.kept[block] = false;
    }
    frame.shared += tokens;
  },
  copy(frame, { size }, sequence, old, target) {
    const tokens = ((frame.lengths[sequence] - 1) % size) + 1, table = frame.tables[sequence];
    table[table.length - 1] = target;
    frame.counts[old] -= 1;
    hold(frame, target, tokens);
    frame.copied += tokens;
  },
  drop(frame, { size, keeps }, sequence) {
    for (const block of frame.tables[sequence]) {
      frame.counts[block] -= 1;
      if (frame.counts[block]) continue;
      frame.kept[block] = keeps && frame.filled[block] === size;
      if (!frame.kept[block]) frame.filled[block] = 0;
    }
    delete frame.tables[sequence];
    delete frame.lengths[sequence];
  },
};

/* How all stands after each event. */
export function frames(story) {
  const books = fresh(story.total);
  return story.events.map(({ moves }) => {
    for (const [name, ...rest] of moves) MOVES[name](books, story, ...rest);
    return JSON.parse(JSON.stringify(books));
  });
}

export const owners = (frame, block) => Object.keys(frame.tables).filter((sequence) => frame.tables[sequence].includes(block)).sort();

/* Blocks by what they are, places in held blocks and how many of them are empty, blocks that nobody's sharing would take. */
export function sums({ counts, filled, kept, lengths }, { size }) {
  const held = counts.filter(Boolean).length, findable = kept.filter(Boolean).length;
  const stored = filled.reduce((all, tokens, block) => all + (counts[block] ? tokens : 0), 0);
  const alone = Object.values(lengths).reduce((all, length) => all + Math.ceil(length / size), 0);
  return { held, findable, free: counts.length - held - findable, places: held * size, empty: held * size - stored, alone };
}

/* Blocks whose state is another than in the frame before. */
export const changed = (now, before) => now.counts.map((count, block) => !before || count !== before.counts[block]
  || now.filled[block] !== before.filled[block] || now.kept[block] !== before.kept[block]
  || String(owners(now, block)) !== String(owners(before, block)));
