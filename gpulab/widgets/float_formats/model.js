/* Floating-point formats: patterns to numbers and back, and what becomes of many magnitudes.
   A format is { exponent, mantissa, reserved }; a pattern is its magnitude, the sign bit apart. */

export const bias = (f) => 2 ** (f.exponent - 1) - 1;

/* Pattern of the largest number. */
export const lastPattern = (f) => 2 ** (f.exponent + f.mantissa) - 1 - { ieee: 2 ** f.mantissa, nan: 1, none: 0 }[f.reserved];
export const leastNormal = (f) => 2 ** (1 - bias(f));
export const least = (f) => leastNormal(f) * 2 ** -f.mantissa;
export const largest = (f) => decode(f, lastPattern(f));

export function decode(f, pattern) {
  const size = 2 ** f.mantissa, mantissa = pattern % size, exponent = Math.floor(pattern / size);
  if (pattern > lastPattern(f)) return f.reserved === "ieee" && mantissa === 0 ? Infinity : NaN;
  return exponent ? (1 + mantissa / size) * 2 ** (exponent - bias(f)) : mantissa * least(f);
}

/* The exponent of a double that is neither zero nor subnormal, exactly. */
export function exponentOf(x) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  return ((view.getUint32(0) >>> 20) & 0x7ff) - 1023;
}

function roundEven(y) {
  const below = Math.floor(y), rest = y - below;
  return rest > 0.5 || (rest === 0.5 && below % 2) ? below + 1 : below;
}

/* The pattern that a magnitude is rounded to, ties to even, as if exponents went on for ever. */
function rounded(f, x) {
  const exponent = Math.max(exponentOf(x), 1 - bias(f));
  return roundEven(x / 2 ** (exponent - f.mantissa)) + (exponent + bias(f) - 1) * 2 ** f.mantissa;
}

/* The pattern of a magnitude. Too large: infinity where the format has one, else its largest number. */
export function encode(f, x) {
  if (Number.isNaN(x)) return f.reserved === "none" ? null : lastPattern(f) + (f.reserved === "ieee" ? 1 + 2 ** (f.mantissa - 1) : 1);
  if (x === 0) return 0;
  const last = lastPattern(f), beyond = f.reserved === "ieee" ? last + 1 : last;
  return x === Infinity ? beyond : Math.min(rounded(f, x), beyond);
}

/* From a number of this magnitude to the next one above. */
export const spacing = (f, x) => 2 ** (Math.max(x ? exponentOf(x) : -Infinity, 1 - bias(f)) - f.mantissa);

/* What becomes of a magnitude above zero: "zero", "subnormal", "normal" or "over". */
export function fate(f, x) {
  const pattern = rounded(f, x);
  if (pattern === 0) return "zero";
  if (pattern > lastPattern(f)) return "over";
  return x < leastNormal(f) ? "subnormal" : "normal";
}

/* The power of two that a histogram is moved by before the format sees it. */
export function shift(f, scaling, lossScale) {
  if (scaling === "mx") return exponentOf(largest(f));
  return scaling === "nv" ? 0 : lossScale;
}

/* How many magnitudes of a histogram meet each fate. Exact: every boundary is an edge of a bin. */
export function fates(f, histogram, edges, moved) {
  const found = { zero: 0, subnormal: 0, normal: 0, over: 0 };
  histogram.counts.forEach((count, i) => {
    if (count) found[fate(f, edges[i % edges.length] * 2 ** (histogram.first + Math.floor(i / edges.length) + moved))] += count;
  });
  return found;
}

/* Counts by octave. */
export function octaves(histogram, edges) {
  const sums = new Array(Math.ceil(histogram.counts.length / edges.length)).fill(0);
  histogram.counts.forEach((count, i) => { sums[Math.floor(i / edges.length)] += count; });
  return sums;
}
