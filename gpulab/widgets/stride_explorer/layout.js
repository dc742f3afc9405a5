/* How PyTorch lays a strided tensor over a storage. Sizes, strides and offsets count
   elements, never bytes. Each function answers as torch does, errors included. */

export const numel = (size) => size.reduce((product, n) => product * n, 1);

export function contiguousStride(size) {
  const stride = new Array(size.length).fill(1);
  for (let d = size.length - 2; d >= 0; d--) stride[d] = stride[d + 1] * Math.max(size[d + 1], 1);
  return stride;
}

/* Storage index of the element at `index`: offset + sum(index * stride). */
export function address(index, stride, offset) {
  return index.reduce((sum, i, d) => sum + i * stride[d], offset);
}

/* Every index of a tensor, the last dimension fastest. */
export function indices(size) {
  return size.reduce(
    (prefixes, n) => prefixes.flatMap((p) => Array.from({ length: n }, (_, i) => [...p, i])),
    [[]],
  );
}

function packed(size, stride, order) {
  let expected = 1;
  for (const d of order) {
    if (size[d] === 1) continue;
    if (stride[d] !== expected) return false;
    expected *= size[d];
  }
  return true;
}

export function isContiguous(size, stride) {
  return numel(size) === 0 || packed(size, stride, size.map((_, d) => d).reverse());
}

export function isChannelsLast(size, stride) {
  return size.length === 4 && packed(size, stride, [1, 3, 2, 0]);
}

/* Storage elements that a view needs: one past its last address, 0 if it has no elements. */
export function cellsNeeded(size, stride, offset) {
  if (numel(size) === 0) return 0;
  return 1 + address(size.map((n) => n - 1), stride, offset);
}

const list = (numbers) => `[${numbers.join(", ")}]`;

/* The message of torch.as_strided's RuntimeError, or null when the view is legal. */
export function asStridedError(size, stride, offset, cells, itemsize = 8) {
  if (stride.some((s) => s < 0))
    return `as_strided: Negative strides are not supported at the moment, got strides: ${list(stride)}`;
  if (offset < 0) return `Tensor: invalid storage offset ${offset}`;
  const needed = cellsNeeded(size, stride, offset);
  if (needed <= cells) return null;
  return `setStorage: sizes ${list(size)}, strides ${list(stride)}, storage offset ${offset}, ` +
    `and itemsize ${itemsize} requiring a storage size of ${needed * itemsize} ` +
    `are out of bounds for storage of size ${cells * itemsize}`;
}

/* A shape with at most one -1, resolved: {size} or {error}. */
export function resolveShape(shape, count) {
  const bad = shape.findIndex((n) => n < -1);
  const unknown = shape.indexOf(-1);
  const second = shape.indexOf(-1, unknown + 1);
  if (unknown >= 0 && second > 0 && (bad < 0 || second < bad))
    return { error: "only one dimension can be inferred" };
  if (bad >= 0)
    return { error: `invalid shape dimension ${shape[bad]} at index ${bad} of shape ${list(shape)}` };
  const known = numel(shape.filter((n) => n !== -1));
  if (unknown < 0 ? known !== count : known === 0 ? count !== 0 : count % known !== 0)
    return { error: `shape '${list(shape)}' is invalid for input of size ${count}` };
  if (unknown >= 0 && known === 0)
    return {
      error: `cannot reshape tensor of 0 elements into shape ${list(shape)} because the ` +
        "unspecified dimension size -1 can be any value and is ambiguous",
    };
  return { size: shape.map((n) => (n === -1 ? count / known : n)) };
}

/* Maximal runs of dimensions with stride[i] = stride[i+1] * size[i+1], innermost first:
   {numel, step}. Dimensions of size 1 never break a run, as their stride is never used. */
export function runs(size, stride) {
  const found = [];
  for (let d = size.length - 1; d >= 0; d--) {
    const run = found.at(-1);
    if (run && (size[d] === 1 || stride[d] === run.numel * run.step)) run.numel *= size[d];
    else found.push({ numel: size[d], step: stride[d] });
  }
  return found;
}

/* Strides of the same elements under `newSize`, or null when no strides describe them. */
export function viewStride(size, stride, newSize) {
  if (numel(size) === 0) return String(size) === String(newSize) ? stride : contiguousStride(newSize);
  const result = new Array(newSize.length).fill(1);
  let d = newSize.length - 1;
  for (const { numel: total, step } of runs(size, stride)) {
    let filled = 1;
    while (d >= 0 && (filled < total || newSize[d] === 1)) {
      result[d] = filled * step;
      filled *= newSize[d--];
    }
    if (filled !== total) return null;
  }
  return result;
}

/* x.view(shape): {size, stride} or {error}, the text of torch's RuntimeError. */
export function view(size, stride, shape) {
  const resolved = resolveShape(shape, numel(size));
  if (resolved.error) return resolved;
  const found = viewStride(size, stride, resolved.size);
  if (found) return { size: resolved.size, stride: found };
  return {
    error: "view size is not compatible with input tensor's size and stride (at least one " +
      "dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
  };
}

/* Python's text of a tuple: (), (6,), (2, 3). */
export const tuple = (numbers) => `(${numbers.join(", ")}${numbers.length === 1 ? "," : ""})`;
