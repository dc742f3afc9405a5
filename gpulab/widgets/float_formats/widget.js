/* A number's bits in a format, and what the format keeps of real gradients. */
import { h, uid, widgetRoot } from "../shared/dom.js";
import { bias, decode, encode, fates, largest, lastPattern, least, leastNormal, shift, spacing } from "./model.js";
import { histogramPicture } from "./picture.js";

const TRAITS = ["fmt", "number", "data", "scaling", "loss_scale"];
const SCALINGS = { none: "no blocks", mx: "MX: 32 numbers share a power of two", nv: "NV: 16 numbers share an FP8 scale" };
const AXIS = { none: "magnitude, loss scale included", mx: "magnitude over the block's scale", nv: "magnitude over the block's scale" };

const shown = (f, value) => {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  return String(Number(value.toPrecision(Math.ceil((f.mantissa + 1) * 0.302) + 3))).replace("-", "−").replace("e+", "e");
};
const thousands = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");
const percent = (part, whole) => {
  const share = (100 * part) / whole;
  return part && share < 0.01 ? "under 0.01 %" : `${share.toFixed(share && share < 1 ? 2 : 1)} %`;
};

function bitGroups(f, negative, pattern, flip) {
  const all = f.exponent + f.mantissa;
  const bit = (place) => Math.floor(pattern / 2 ** place) % 2;
  const button = (kind, place, value, text, toggle) => h("button", { type: "button", class: kind, "data-place": place, "aria-label": `${text}: ${value}`, onclick: toggle }, String(value));
  const run = (kind, from, count) => h("span", { class: "bits", role: "group", "aria-label": kind },
    ...Array.from({ length: count }, (_, i) => from - i).map((place) => button(kind, `${kind}${place}`, bit(place), `${kind} bit worth 2 to the ${place - (kind === "exponent" ? f.mantissa : 0)}`,
      () => flip(negative, pattern + (bit(place) ? -1 : 1) * 2 ** place, `${kind}${place}`))));
  const sign = h("span", { class: "bits", role: "group", "aria-label": "sign" },
    button("sign", "sign", negative ? 1 : 0, "sign bit", () => flip(!negative, pattern, "sign")));
  return [[sign, "sign"], [run("exponent", all - 1, f.exponent), "exponent"], [run("mantissa", f.mantissa - 1, f.mantissa), "mantissa"]]
    .map(([bits, name]) => h("div", { class: "field" }, bits, h("span", { class: "note" }, name)));
}

function meaning(f, negative, pattern) {
  const size = 2 ** f.mantissa, exponent = Math.floor(pattern / size), mantissa = pattern % size;
  if (pattern > lastPattern(f)) return f.reserved === "ieee" && !mantissa ? "all ones in the exponent, no mantissa: infinity" : "not a number";
  const sign = negative ? "−" : "";
  if (exponent) return `${sign}(1 + ${mantissa}/${size}) × 2^(${exponent} − ${bias(f)})`;
  return `${sign}${mantissa}/${size} × 2^(1 − ${bias(f)}), ${pattern ? "subnormal" : "zero"}`;
}

function render({ model, el }) {
  const formats = model.get("formats"), edges = model.get("edges"), counts = model.get("counts");
  const put = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
    draw();
  };
  const choice = (name, text, options) => {
    const id = uid(name), offered = options.map(([value, label]) => h("option", { value }, label));
    const select = h("select", { id, onchange: () => put({ [name]: select.value }) }, ...offered);
    return { select, offered, node: h("div", { class: "choice" }, h("label", { for: id }, text), select) };
  };
  const fmt = choice("fmt", "format", Object.keys(formats).map((key) => [key, key]));
  fmt.select.addEventListener("change", () => { if (!formats[model.get("fmt")].scalings.includes(model.get("scaling"))) put({ scaling: "none" }); });
  const data = choice("data", "gradients of", Object.keys(counts).map((key) => [key, key]));
  const scaling = choice("scaling", "blocks", Object.entries(SCALINGS));
  const typed = h("input", { type: "text", inputmode: "decimal", id: uid("number"), onchange: () => put({ number: typed.value }) });
  const line = h("input", { type: "range", min: 0, step: 1, "aria-label": "number, in steps of the format",
    oninput: () => { const f = formats[model.get("fmt")]; put({ number: String((negativeNow() ? -1 : 1) * decode(f, Number(line.value))) }); } });
  const factor = h("output", { class: "mono" });
  const loss = h("input", { type: "range", min: 0, max: 32, step: 1, "aria-label": "loss scale, power of two", oninput: () => put({ loss_scale: Number(loss.value) }) });
  const lossNode = h("label", { class: "slider" }, h("span", {}, "loss scale"), loss, factor);
  const fields = h("div", { class: "fields" }), facts = h("dl"), table = h("dl");
  const kept = h("p", { role: "status", class: "verdict" }), told = h("p", { role: "status", class: "verdict" });
  const picture = h("div", { class: "picture", role: "group", "aria-label": "Histogram of gradients", tabindex: 0 });
  const value = () => Number(model.get("number").trim().replace("−", "-").replace(/^([+-]?)inf(inity)?$/i, "$1Infinity") || NaN);
  const negativeNow = () => value() < 0 || Object.is(value(), -0);

  function flip(negative, pattern, focus) {
    const f = formats[model.get("fmt")], next = decode(f, pattern);
    put({ number: Number.isNaN(next) ? "NaN" : (negative ? "-" : "") + String(next) });
    fields.querySelector(`[data-place="${focus}"]`)?.focus();
  }
  function drawNumber(f, name) {
    const wanted = value(), magnitude = Math.abs(wanted), pattern = encode(f, magnitude);
    if (document.activeElement !== typed) typed.value = model.get("number");
    line.max = lastPattern(f) + (f.reserved === "ieee" ? 1 : 0);
    const at = pattern ?? 0, holds = pattern === null ? NaN : (negativeNow() ? -1 : 1) * decode(f, at);
    if (!Number.isNaN(holds)) line.value = at;
    line.setAttribute("aria-valuetext", shown(f, holds));
    fields.replaceChildren(...bitGroups(f, negativeNow(), at, flip));
    const off = Math.abs((holds - wanted) / wanted);
    const how = Number.isNaN(wanted) ? "is not a number" : holds === wanted ? "is kept exactly"
      : !Number.isFinite(holds) ? "is too large: infinity" : holds === 0 ? "is too small: zero"
      : magnitude > largest(f) ? `is too large: ${shown(f, holds)}` : `becomes ${shown(f, holds)}, off by ${percent(off, 1)}`;
    kept.textContent = `In ${name}, ${model.get("number") || "nothing"} ${how}.`;
    const bits = 1 + f.exponent + f.mantissa;
    const pairs = [["stands for", pattern === null ? `${name} has no NaN` : meaning(f, negativeNow(), at)],
      ["pattern", `0x${(at + (negativeNow() ? 2 ** (bits - 1) : 0)).toString(16).toUpperCase().padStart(Math.ceil(bits / 4), "0")}`],
      ["to the next number", Number.isFinite(holds) ? shown({ mantissa: 1 }, spacing(f, Math.abs(holds))) : "none"]];
    facts.replaceChildren(...pairs.flatMap(([key, text]) => [h("dt", {}, key), h("dd", {}, text)]));
    const stored = f.stored === bits ? `${bits} bits` : `${bits} bits of a number that is stored in ${f.stored}`;
    const limits = [["size", stored], ["largest", shown(f, largest(f))], ["least normal", shown(f, leastNormal(f))], ["least above zero", shown(f, least(f))],
      ["from 1 to the next", `2^−${f.mantissa}`]];
    table.replaceChildren(...limits.flatMap(([key, text]) => [h("dt", {}, key), h("dd", {}, text)]));
    return Number.isFinite(magnitude) && magnitude;
  }
  function drawGradients(f, name, number) {
    const how = model.get("scaling"), which = counts[model.get("data")], histogram = which[how];
    const moved = shift(f, how, model.get("loss_scale")), found = fates(f, histogram, edges, moved);
    const all = found.zero + found.subnormal + found.normal + found.over;
    loss.value = model.get("loss_scale");
    loss.disabled = how !== "none";
    factor.textContent = how === "none" ? `2^${model.get("loss_scale")}` : "–";
    loss.setAttribute("aria-valuetext", `2 to the ${model.get("loss_scale")}`);
    const beyond = f.reserved === "ieee" ? "overflow to infinity" : "are clipped to the largest";
    told.textContent = `${name}: of ${thousands(all)} gradients that are not zero, ${percent(found.zero, all)} become zero, `
      + `${percent(found.subnormal, all)} are subnormal and lose digits, ${percent(found.over, all)} ${beyond}.`;
    picture.replaceChildren(histogramPicture(f, histogram, edges, moved, how === "none" ? number : null, AXIS[how], told.textContent));
  }
  function draw() {
    const name = model.get("fmt"), f = formats[name];
    fmt.select.value = name;
    data.select.value = model.get("data");
    for (const option of scaling.offered) option.disabled = !f.scalings.includes(option.value);
    scaling.select.value = model.get("scaling");
    const number = drawNumber(f, name);
    drawGradients(f, name, number);
  }
  for (const name of TRAITS) model.on(`change:${name}`, draw);
  el.append(widgetRoot("floats", "Float formats",
    h("div", { class: "settings" }, fmt.node, h("div", { class: "choice" }, h("label", { for: typed.id }, "number"), typed)),
    fields, h("div", { class: "line" }, line), kept, h("div", { class: "both" }, facts, table),
    h("div", { class: "settings" }, data.node, scaling.node, lossNode),
    picture, told,
    h("p", { class: "note" }, "Rounded to the nearest, ties to even. Gradients of the trained TinyVLA for one batch, computed in float32; bars are octaves.")));
  draw();
  return () => { for (const name of TRAITS) model.off(`change:${name}`, draw); };
}

export default { render };
