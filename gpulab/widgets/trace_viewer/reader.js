/* Chrome traces as Kineto writes them: the rules of gpulab.traces.reader. Times are microseconds since the first event. */

const KINDS = {
  operator: "operation", cpu_op: "operation", user_annotation: "annotation",
  runtime: "call", cuda_runtime: "call", cuda_driver: "call", hip_runtime: "call",
  kernel: "kernel", memcpy: "copy", gpu_memcpy: "copy", memset: "set", gpu_memset: "set",
};
const ON_DEVICE = new Set(["kernel", "copy", "set", "collective"]);
const STEP = /^ProfilerStep#\d+$/, COLLECTIVE = /nccl|rccl/i;

export class NotATrace extends Error {}
export const onDevice = ({ kind }) => ON_DEVICE.has(kind);
export const isStep = (event) => !onDevice(event) && STEP.test(event.name);

function whole(value) {
  if (typeof value === "string") return /-?\d+$/.test(value) ? Number(/-?\d+$/.exec(value)[0]) : null;
  return typeof value === "number" && Number.isFinite(value) ? Math.trunc(value) : null;
}

function time(raw, field) {
  const value = raw[field];
  if (typeof value !== "number" || !Number.isFinite(value) || (field === "dur" && value < 0)) {
    throw new NotATrace(`The event “${raw.name}” has no ${field} that is a time.`);
  }
  return value;
}

function event(raw, first) {
  const name = String(raw.name ?? ""), args = raw.args ?? {}, start = time(raw, "ts") - first;
  let kind = KINDS[String(raw.cat).toLowerCase()];
  if (kind === "operation" && STEP.test(name)) kind = "annotation";
  if (kind === "kernel" && COLLECTIVE.test(name)) kind = "collective";
  const made = { name, kind, start, end: start + time(raw, "dur"), correlation: whole(args.correlation) };
  if (!onDevice(made)) return { ...made, place: `thread ${raw.tid}`, key: `host ${raw.pid} ${raw.tid}` };
  const stream = whole(args.stream ?? raw.tid), device = whole(args.device ?? raw.pid);
  return { ...made, place: `stream ${stream}`, key: `device ${device} ${stream}` };
}

/* The events of a parsed file, by their start, the longer first. */
export function read(document) {
  const listed = Array.isArray(document) ? document : document?.traceEvents;
  if (!Array.isArray(listed)) throw new NotATrace("This JSON is no Chrome trace: it has no list called traceEvents.");
  const raw = listed.filter((each) => each?.ph === "X" && Object.hasOwn(KINDS, String(each.cat ?? "").toLowerCase()));
  if (!raw.length) throw new NotATrace(`None of its ${listed.length} events is a profiler's: no operation, call, kernel or copy.`);
  const first = raw.reduce((least, each) => Math.min(least, time(each, "ts")), Infinity);
  return raw.map((each) => event(each, first)).sort((a, b) => a.start - b.start || b.end - a.end);
}

async function unzipped(bytes) {
  try {
    return await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  } catch {
    throw new NotATrace("The gzip file is cut off or broken.");
  }
}

/* The events of a file that the reader chose: .json or .json.gz, told by its first bytes. */
export async function open(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const text = bytes[0] === 0x1f && bytes[1] === 0x8b ? await unzipped(bytes) : new TextDecoder().decode(bytes);
  let document;
  try {
    document = JSON.parse(text);
  } catch {
    throw new NotATrace("The file is no JSON. A trace whose writing was interrupted ends in the middle.");
  }
  return read(document);
}
