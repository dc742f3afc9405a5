/* What torch says of the view: legality, contiguity, overlap, and what view(...) would do. */
import { address, asStridedError, indices, isChannelsLast, isContiguous, numel, tuple, view } from "./layout.js";
import { h, uid } from "../shared/dom.js";

const python = (truth) => (truth ? "True" : "False");

function overlap({ size, stride, offset }) {
  const all = indices(size).map((index) => address(index, stride, offset));
  const distinct = new Set(all).size;
  return all.length === distinct ? `${all.length} elements in ${distinct} cells` : `${all.length} elements share ${distinct} cells`;
}

function rows(state) {
  const { size, stride } = state;
  const facts = [["x.is_contiguous()", python(isContiguous(size, stride))], ["elements and cells", overlap(state)]];
  if (size.length === 4)
    facts.splice(1, 0, ["x.is_contiguous(memory_format=torch.channels_last)", python(isChannelsLast(size, stride))]);
  return facts.flatMap(([name, value]) => [h("dt", {}, name.startsWith("x.") ? h("code", {}, name) : name), h("dd", { class: "mono" }, value)]);
}

/* "2, -1" as numbers, or null. */
export function parseShape(text) {
  const parts = text.replace(/^[\s(]+|[\s),]+$/g, "").split(/\s*,\s*/);
  if (parts.length === 1 && parts[0] === "") return [];
  return parts.every((p) => /^-?\d{1,4}$/.test(p)) ? parts.map(Number) : null;
}

function viewAnswer(state, text) {
  const shape = parseShape(text);
  if (!shape) return [h("span", { class: "bad" }, "Write whole numbers with commas, such as 2, -1.")];
  const result = view(state.size, state.stride, shape);
  if (result.error) return [h("span", { class: "bad" }, "RuntimeError: "), result.error];
  return [h("span", { class: "good" }, "a view: "), `shape ${tuple(result.size)}, strides ${tuple(result.stride)}, same storage`];
}

export function facts() {
  let state;
  const id = uid("view");
  const call = h("p", { class: "call mono" });
  const error = h("p", { class: "error", role: "status" });
  const list = h("dl");
  const shape = h("input", { type: "text", id, value: "-1", inputmode: "text", autocomplete: "off", spellcheck: "false" });
  const answer = h("output", { for: id, class: "answer" });
  const tryView = () => answer.replaceChildren(...viewAnswer(state, shape.value));
  shape.addEventListener("input", tryView);
  const trial = h("div", { class: "trial" }, h("label", { for: id, class: "mono" }, "x.view("), shape, h("span", { class: "mono" }, ")"), answer);
  function draw(next) {
    state = next;
    const { size, stride, offset, cells } = state;
    call.textContent = `x = torch.as_strided(torch.arange(${cells}), ${tuple(size)}, ${tuple(stride)}, ${offset})`;
    const message = asStridedError(size, stride, offset, cells);
    const text = message ? `RuntimeError: ${message}` : "";
    if (error.textContent !== text) error.textContent = text;
    error.classList.toggle("bad", Boolean(message));
    list.replaceChildren(...rows(state));
    list.hidden = trial.hidden = Boolean(message);
    tryView();
  }
  return { call, node: h("div", { class: "facts" }, error, list, trial), draw };
}
