/* The calls in their order, cut where the accident is, and the files that are there then. */
import { h } from "../shared/dom.js";

export const callWords = ([call, file]) => ({ truncate: "open, cut to 0", create: "create .tmp", write: "write", unlink: "unlink", rename: "rename" }[call]
  ?? (file === "folder" ? "fsync folder" : "fsync file"));

/* `judged`: whether a save that stops after so many calls leaves something to load, from 0 calls on. */
export function timeline(all, moment, judged, go) {
  const stop = (k) => h("button", { type: "button", class: `stop ${judged[k] ? "good" : "bad"}`, "aria-pressed": String(k === moment),
    "aria-label": `Stop after ${k} of ${all.length} calls: ${judged[k] ? "safe" : "not safe"}`, onclick: () => go(k) }, judged[k] ? "✓" : "✗");
  const box = (call, i) => h("span", { class: `call ${i < moment ? "done" : ""}` }, callWords(call));
  return h("div", { class: "timeline" }, stop(0), ...all.flatMap((call, i) => [h("span", { class: "pair" }, box(call, i), stop(i + 1))]));
}

/* A file as a row of chunks. */
export function fileRow(name, file, chunks) {
  const cells = Array.from({ length: chunks }, (_, i) => h("span", { class: `chunk ${file && i < file.chunks ? file.version : "none"}` }, file && i < file.chunks ? file.version : ""));
  return h("div", { class: "file" }, h("code", {}, name), h("span", { class: "chunks" }, ...(file ? cells : [h("span", { class: "absent" }, "not there")])));
}
