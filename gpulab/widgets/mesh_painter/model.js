/* Coordinates and groups of ranks in a mesh, as gpulab.parallel.mesh_groups and DeviceMesh have them. */

/* `sizes`: pairs of a dimension and its size, the outermost first. */
export function strides(sizes) {
  const found = {};
  let stride = 1;
  for (const [name, size] of [...sizes].reverse()) {
    found[name] = stride;
    stride *= size;
  }
  return found;
}

export function coordinate(sizes, rank) {
  const step = strides(sizes);
  return Object.fromEntries(sizes.map(([name, size]) => [name, Math.floor(rank / step[name]) % size]));
}

/* The ranks that differ from this one in one dimension alone, itself included. */
export function group(sizes, name, rank) {
  const step = strides(sizes)[name], size = Object.fromEntries(sizes)[name], first = rank - step * coordinate(sizes, rank)[name];
  return Array.from({ length: size }, (_, i) => first + step * i);
}

/* The most nodes that one group of a dimension lies on. */
export function mostNodes(sizes, name, world, node) {
  const spread = Array.from({ length: world }, (_, rank) => new Set(group(sizes, name, rank).map((one) => Math.floor(one / node))).size);
  return Math.max(...spread);
}
