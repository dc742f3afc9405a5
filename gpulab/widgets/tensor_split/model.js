/* gpulab.widgets.tensor_split.layouts: what crosses between ranks when the two matrices of an MLP are cut. */

/* How a tensor lies, and who takes it: the collectives of the forward and of the backward pass. */
const CHANGES = {
  "whole columns": [null, "all_reduce"], "tokens columns": ["all_gather", "reduce_scatter"], "split columns": ["all_gather", "reduce_scatter"],
  "whole rows": [null, "all_gather"], "tokens rows": ["all_to_all", "all_to_all"], "split rows": [null, null],
  "split whole": ["all_gather", null], "split tokens": ["all_to_all", "all_to_all"],
  "partial whole": ["all_reduce", null], "partial tokens": ["reduce_scatter", "all_gather"],
};
const LAPS = { all_reduce: 2, all_gather: 1, reduce_scatter: 1 };
const lying = (cut) => (cut === "columns" ? "split" : "partial");

export function crossings({ first, second, gather, sequence }) {
  const ends = sequence ? "tokens" : "whole", whole = lying(first) === "partial" || gather;
  const changes = [["x", CHANGES[`${ends} ${first}`]]];
  if (whole) changes.push(["z", CHANGES[`${lying(first)} whole`]]);
  changes.push(["z", CHANGES[`${whole ? "whole" : lying(first)} ${second}`]], ["y", CHANGES[`${lying(second)} ${ends}`]]);
  const of = (passing, place, list) => list.filter(([, pair]) => pair[place]).map(([tensor, pair]) => ({ tensor, passing, kind: pair[place] }));
  return [...of("forward", 0, changes), ...of("backward", 1, [...changes].reverse())];
}

const sizeOf = (tensor, { tokens, width, hidden }) => tokens * (tensor === "z" ? hidden : width) * 2;

/* Bytes that each rank sends, in bf16. */
export function sent({ tensor, kind }, shape) {
  const bytes = sizeOf(tensor, shape), { ranks } = shape, laps = LAPS[kind] ?? 1 / ranks;
  return (laps * (ranks - 1) * bytes) / ranks;
}

export function held({ first, gather, sequence }, shape) {
  const { width, hidden, ranks } = shape;
  return {
    weights: (4 * width * hidden) / ranks, "x and y": (2 * sizeOf("x", shape)) / (sequence ? ranks : 1),
    z: sizeOf("z", shape) / (first === "rows" || gather ? 1 : ranks),
  };
}

export const total = (cut, shape) => crossings(cut).reduce((all, one) => all + sent(one, shape), 0);
