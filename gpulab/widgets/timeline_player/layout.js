/* Where each kernel, copy and wait of an Observation stands: lanes of bars, and the bars as
   steps in time. Times are microseconds. The lanes are those of gpulab.plots.device. */

const UNITS = ["KiB", "MiB", "GiB"];

/* One decimal as Python writes it: a tie goes to the even digit, where toFixed rounds up. */
function oneDecimal(value) {
  const tenths = Math.floor(value * 10), rest = value * 10 - tenths;
  return ((rest > 0.5 || (rest === 0.5 && tenths % 2) ? tenths + 1 : tenths) / 10).toFixed(1);
}

export function formatBytes(count) {
  if (count < 1024) return `${count} B`;
  let unit = -1;
  do { count /= 1024; unit++; } while (count >= 1024 && unit < UNITS.length - 1);
  return `${oneDecimal(count)} ${UNITS[unit]}`;
}

export const queueName = (number) =>
  number === -1 ? "host" : number === 0 ? "default stream" : `stream ${number}`;

const lineKey = (line) => (line ? JSON.stringify([line.file, line.number, line.text, line.function]) : "");
const useKey = (op, line) => `${op} ${lineKey(line)}`;
const bar = (record, label, raced = false) =>
  ({ start: record.start_us, end: record.end_us, label, raced, line: record.line });

export function lanes({ kernels, copies, waits, races }) {
  const found = [];
  if (waits.length) found.push({ name: "host waits", bars: waits.map((wait) => bar(wait, wait.reason)) });
  const raced = new Set(races.map((race) => useKey(race.second_op, race.second_line)));
  for (const stream of [...new Set(kernels.map((kernel) => kernel.stream))].sort((a, b) => a - b)) {
    const own = kernels.filter((kernel) => kernel.stream === stream);
    found.push({ name: queueName(stream), bars: own.map((kernel) =>
      bar(kernel, kernel.name.replace(/^aten\./, ""), raced.has(useKey(kernel.name, kernel.line)))) });
  }
  for (const kind of ["HtoD", "DtoH"]) {
    const own = copies.filter((copy) => copy.kind === kind);
    if (own.length) found.push({ name: `copy ${kind}`, bars: own.map((copy) => bar(copy, formatBytes(copy.bytes))) });
  }
  return found;
}

/* First start and last end of all bars. */
export function extent(found) {
  const bars = found.flatMap((lane) => lane.bars);
  return { begin: Math.min(...bars.map((b) => b.start)), end: Math.max(...bars.map((b) => b.end)) };
}

/* Every bar once, by its start; a tie goes to the upper lane. */
export function steps(found) {
  return found
    .flatMap((lane, row) => lane.bars.map((b, at) => ({ ...b, lane: lane.name, row, at })))
    .sort((a, b) => a.start - b.start || a.row - b.row || a.at - b.at);
}

/* What else is under way when a step starts. */
export function beside(all, step) {
  return all.filter((other) => other !== step && other.start <= step.start && step.start < other.end);
}

/* The step of a race's second use, or -1 when that is the host's own and has no bar. */
export function raceStep(all, race) {
  const label = race.second_op.replace(/^aten\./, "");
  const lane = race.second_op.startsWith("copy ") ? race.second_op : queueName(race.second_stream);
  return all.findIndex((step) =>
    step.lane === lane && lineKey(step.line) === lineKey(race.second_line) &&
    (lane === race.second_op || step.label === label));
}
