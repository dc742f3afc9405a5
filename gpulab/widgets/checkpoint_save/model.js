/* The system calls of a save, and what is on the disk when they stop after any of them.
   A call is a pair: what is called, and the file. A file is a version and how many of its chunks are there. */

export const FINAL = "state.pt", TEMPORARY = "state.pt.tmp";
const METADATA = ["truncate", "create", "unlink", "rename"];

export function calls(protocol, chunks) {
  const target = protocol === "overwrite" ? FINAL : TEMPORARY;
  const written = [[protocol === "overwrite" ? "truncate" : "create", target], ...Array.from({ length: chunks }, () => ["write", target])];
  switch (protocol) {
    case "overwrite": return written;
    case "delete": return [...written, ["fsync", TEMPORARY], ["unlink", FINAL], ["rename", FINAL], ["fsync", "folder"]];
    case "rename": return [...written, ["rename", FINAL]];
    default: return [...written, ["fsync", TEMPORARY], ["rename", FINAL], ["fsync", "folder"]];
  }
}

function apply(files, [call, file]) {
  if (call === "truncate" || call === "create") files[file] = { version: "new", chunks: 0 };
  else if (call === "write" && files[file]) files[file].chunks += 1;
  else if (call === "unlink") delete files[file];
  else if (call === "rename") {
    files[FINAL] = files[TEMPORARY];
    delete files[TEMPORARY];
  }
}

/* What the operating system shows after the first `moment` calls: all a killed process leaves. */
export function filesAfter(protocol, chunks, moment) {
  const files = { [FINAL]: { version: "old", chunks } };
  for (const call of calls(protocol, chunks).slice(0, moment)) apply(files, call);
  return files;
}

/* What a load finds: `old`, `new`, `torn` or `missing`. */
export function found(file, chunks) {
  if (!file) return "missing";
  return file.chunks === chunks ? file.version : "torn";
}

/* All that a load may find after a power cut. Changes of names reach the disk in their order, the bytes of a file in any, at any
   time, unless an fsync came between: of the file for its bytes, of the folder for its names. */
function afterPowerCut(protocol, chunks, moment) {
  const done = calls(protocol, chunks).slice(0, moment), names = done.filter(([call]) => METADATA.includes(call));
  const synced = (file) => done.some(([call, of]) => call === "fsync" && of === file);
  const written = done.filter(([call]) => call === "write").length;
  const least = synced(TEMPORARY) ? written : 0, seen = new Set();
  for (let kept = synced("folder") ? names.length : 0; kept <= names.length; kept++) {
    for (let bytes = least; bytes <= written; bytes++) {
      const files = { [FINAL]: { version: "old", chunks } };
      for (const name of names.slice(0, kept)) apply(files, name);
      for (const file of Object.values(files)) if (file.version === "new") file.chunks = bytes;
      // Bytes over the old ones, before the file was cut to nothing.
      const mixed = protocol === "overwrite" && !kept && bytes;
      seen.add(mixed ? (bytes === chunks ? "new" : "torn") : found(files[FINAL], chunks));
    }
  }
  return [...seen].sort();
}

export function outcomes(protocol, accident, chunks, moment) {
  if (accident === "power") return afterPowerCut(protocol, chunks, moment);
  return [found(filesAfter(protocol, chunks, moment)[FINAL], chunks)];
}

export const safe = (results) => results.every((result) => result === "old" || result === "new");
