/* Numbers and lists as people read them. */

/* `1 block`, `2 blocks`. */
export const many = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;

export const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

/* Of nothing it is 0 %. */
export const percent = (part, whole = 1) => `${whole ? Math.round((100 * part) / whole) : 0} %`;

/* Three digits, and all of a number's whole ones. */
export const three = (value) => (value >= 999.5 ? String(Math.round(value)) : value.toPrecision(3));

/* `989 T`, before a unit such as `FLOP` or `B`. */
export function metric(value) {
  const [size, prefix] = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([least]) => value >= least) ?? [1, ""];
  return `${three(value / size)} ${prefix}`;
}

/* `512 KiB`, `12.6 GiB`: bytes in the largest binary unit of which there is one. */
export function binary(bytes) {
  const [size, unit] = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([least]) => bytes >= least) ?? [1, "B"];
  return `${three(bytes / size).replace(/\.0+$/, "")} ${unit}`;
}

/* `6.48 ms`. */
export function timeWords(seconds) {
  const [size, unit] = [[1, "s"], [1e-3, "ms"]].find(([least]) => seconds >= least) ?? [1e-6, "µs"];
  return `${three(seconds / size)} ${unit}`;
}
