/* Random views and questions about them. A puzzle is plain data: no page is needed. */
import { address, contiguousStride, isContiguous, numel, tuple, viewStride } from "./layout.js";

const below = (random, n) => Math.floor(random() * n);
const pick = (random, items) => items[below(random, items.length)];
const colons = (d, text) => [...new Array(d).fill(":"), text].join(", ");

function permute(x, random) {
  const order = x.size.map((_, d) => d);
  for (let d = order.length - 1; d > 0; d--) {
    const other = below(random, d + 1);
    [order[d], order[other]] = [order[other], order[d]];
  }
  return { ...x, size: order.map((d) => x.size[d]), stride: order.map((d) => x.stride[d]), code: `${x.code}.permute(${order.join(", ")})` };
}

function stepped(x, random) {
  const d = below(random, x.size.length);
  return { ...x, size: x.size.with(d, Math.ceil(x.size[d] / 2)), stride: x.stride.with(d, x.stride[d] * 2), code: `${x.code}[${colons(d, "::2")}]` };
}

function tail(x, random) {
  const d = below(random, x.size.length);
  if (x.size[d] < 2) return x;
  return { ...x, size: x.size.with(d, x.size[d] - 1), offset: x.offset + x.stride[d], code: `${x.code}[${colons(d, "1:")}]` };
}

function expanded(x, random) {
  const n = 2 + below(random, 2);
  return { ...x, size: [n, ...x.size], stride: [0, ...x.stride], code: `${x.code}.expand(${[n, ...x.size].join(", ")})` };
}

function randomView(random) {
  const size = pick(random, [[3, 4], [4, 3], [2, 6], [2, 3, 4], [3, 2, 2], [4, 4], [2, 2, 3]]);
  const cells = numel(size);
  let x = { size, stride: contiguousStride(size), offset: 0, cells, code: `torch.arange(${cells}).view(${size.join(", ")})` };
  const count = 1 + below(random, 2);
  for (let i = 0; i < count; i++) x = pick(random, [permute, permute, stepped, tail, ...(x.size.length < 3 ? [expanded] : [])])(x, random);
  return x;
}

const product = (x, index) => [x.offset, ...index.map((i, d) => `${i}·${x.stride[d]}`)].join(" + ");

function whereIs(x, random) {
  const index = x.size.map((n) => below(random, n));
  const answer = address(index, x.stride, x.offset);
  return { kind: "address", index, answer,
    prompt: `Which storage index holds \`x[${index.join(", ")}]\`?`,
    why: `offset + sum of index · stride = ${product(x, index)} = ${answer}.` };
}

function isItContiguous(x) {
  const answer = isContiguous(x.size, x.stride);
  const wanted = tuple(contiguousStride(x.size));
  const why = answer
    ? `Contiguous strides for ${tuple(x.size)} are ${wanted}. Strides of dimensions of size 1 and the offset do not count.`
    : `Contiguous strides for ${tuple(x.size)} would be ${wanted}; x has ${tuple(x.stride)}.`;
  return { kind: "contiguous", answer, prompt: "What does `x.is_contiguous()` return?", why };
}

/* The first pair of neighbours, from the right, that cannot be one dimension. */
function breakOf(x) {
  const wide = x.size.map((n, d) => d).filter((d) => x.size[d] !== 1);
  for (let k = wide.length - 1; k > 0; k--) {
    const [outer, inner] = [wide[k - 1], wide[k]];
    if (x.stride[outer] !== x.stride[inner] * x.size[inner]) return { outer, inner };
  }
  return null;
}

function canItFlatten(x) {
  const count = numel(x.size);
  const answer = viewStride(x.size, x.stride, [count]) !== null;
  const broken = breakOf(x);
  const why = broken
    ? `To merge dims ${broken.outer} and ${broken.inner}, stride[${broken.outer}] = ${x.stride[broken.outer]} would have to be ` +
      `stride[${broken.inner}] · size[${broken.inner}] = ${x.stride[broken.inner]} · ${x.size[broken.inner]} = ${x.stride[broken.inner] * x.size[broken.inner]}.`
    : "Each stride is the size times the stride to its right (sizes of 1 aside), so one stride describes them all.";
  return { kind: "viewable", answer, prompt: `Does \`x.view(${count})\` succeed?`, why };
}

export function puzzle(random) {
  const x = randomView(random);
  return { ...x, ...pick(random, [whereIs, whereIs, isItContiguous, canItFlatten])(x, random) };
}
