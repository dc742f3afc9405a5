/* A profiler's trace: zoomed and panned, an event's self and total time, exposed communication; the reader's own file, too. */
import { factRows } from "../shared/controls.js";
import { h, uid, widgetRoot } from "../shared/dom.js";
import { followed } from "../shared/svg.js";
import { percent } from "../shared/words.js";
import { breakdown, exposedOf, lanes, launches, sets, windowOf } from "./model.js";
import { eventAt, layout, picture, words } from "./picture.js";
import { NotATrace, isStep, onDevice, open, read } from "./reader.js";

/* All that is drawn of a trace. */
function loaded(events) {
  const window = windowOf(events), found = lanes(events);
  return { events, window, found, placed: layout(found), sets: sets(events), launched: launches(events), longest: longest(events) };
}

/* Who opens a trace sees its longest event on the device, or on the host. */
function longest(events) {
  const device = events.filter(onDevice), among = device.length ? device : events.filter((each) => !isStep(each));
  return among.reduce((most, each) => (!most || each.end - each.start > most.end - most.start ? each : most), null) ?? events[0];
}

function facts(trace, event) {
  const took = event.end - event.start, rows = [["kind", event.kind], ["begins at", words(event.start - trace.window[0])], ["total", words(took)]];
  if (!onDevice(event)) return [...rows, ["self", event.apart ? "its parent ends before it" : words(Math.max(0, event.self))]];
  const call = trace.launched.get(event.correlation);
  if (event.kind === "collective") rows.push(["exposed", `${words(exposedOf(event, trace.sets))}, ${percent(exposedOf(event, trace.sets), took)}`]);
  return [...rows, ["launched", call ? `by ${call.name}, ${words(Math.max(0, event.start - call.start))} before it began` : "by a call that the trace does not hold"]];
}

const SHOWN = [["compute", "a kernel runs"], ["communication", "communication, exposed"], ["hidden", "communication, hidden by kernels"],
  ["copies", "a copy or a set alone"], ["idle", "the device does nothing"]];

function parts(trace, view) {
  if (!trace.events.some(onDevice)) return [["in view", words(view[1] - view[0])], ["on a device", "nothing: a trace of the host alone"]];
  const found = breakdown(trace.sets, view);
  return [["in view", words(found.total)], ...SHOWN.map(([name, text]) => [text, `${words(found[name])}, ${percent(found[name], found.total)}`])];
}

function render({ model, el }) {
  let trace = loaded(read(model.get("trace"))), view = [...trace.window], chosen = trace.longest, name = model.get("label");
  const title = h("p", { class: "heading" }), status = h("p", { class: "status", role: "status" });
  const event = h("p", { class: "event" }), about = h("dl"), share = h("dl");
  const place = h("div", { class: "lanes", tabindex: "0", role: "group", onkeydown: pressed,
    "aria-label": "Timeline. Arrow keys: the event before and after, the row above and below. Shift with an arrow: earlier and later. Plus and minus: zoom. 0: all" });
  const wide = followed(place, 1200, () => draw());
  const bounds = () => trace.window[1] - trace.window[0] || 1;

  function look(from, to) {
    const span = Math.max(0.05, Math.min(bounds(), to - from)), start = Math.max(trace.window[0], Math.min(trace.window[1] - span, from));
    view = [start, start + span];
    draw();
  }
  const zoom = (factor, at = (view[0] + view[1]) / 2) => look(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
  const pan = (part) => look(view[0] + part * (view[1] - view[0]), view[1] + part * (view[1] - view[0]));
  const all = () => look(...trace.window);

  function choose(next) {
    if (!next) return;
    chosen = next;
    const span = view[1] - view[0], seen = next.end > view[0] && next.start < view[1];
    if (seen) draw();
    else look((next.start + next.end - span) / 2, (next.start + next.end + span) / 2);
  }
  function beside(by) {
    const row = trace.found.find(({ key }) => key === chosen.key).events.filter((each) => (each.depth ?? 0) === (chosen.depth ?? 0));
    choose(row[row.indexOf(chosen) + by]);
  }
  function rowTo(by) {
    const rows = trace.found.flatMap((lane) => Array.from({ length: lane.rows }, (_, depth) => lane.events.filter((each) => (each.depth ?? 0) === depth)));
    const now = rows.findIndex((row) => row.includes(chosen)), middle = (chosen.start + chosen.end) / 2, away = (each) => Math.abs((each.start + each.end) / 2 - middle);
    const next = rows[now + by];
    if (next) choose(next.reduce((best, each) => (away(each) < away(best) ? each : best)));
  }
  function pressed(key) {
    const does = {
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: all, ArrowUp: () => rowTo(-1), ArrowDown: () => rowTo(1),
      ArrowLeft: () => (key.shiftKey ? pan(-0.25) : beside(-1)), ArrowRight: () => (key.shiftKey ? pan(0.25) : beside(1)),
    }[key.key];
    if (!does || key.ctrlKey || key.metaKey || key.altKey) return;
    key.preventDefault();
    does();
  }

  /* One pointer pans, two zoom, a pointer that does not move chooses. */
  const held = new Map();
  let moved = false;
  const at = (x) => view[0] + ((x - place.getBoundingClientRect().left) / wide.width()) * (view[1] - view[0]);
  place.addEventListener("pointerdown", (down) => {
    held.set(down.pointerId, down.clientX);
    moved = held.size > 1;
  });
  place.addEventListener("pointermove", (move) => {
    if (!held.has(move.pointerId)) return;
    const before = held.get(move.pointerId), step = move.clientX - before;
    if (held.size === 1 && !moved && Math.abs(step) < 4) return;
    moved = true;
    if (!place.hasPointerCapture(move.pointerId)) place.setPointerCapture(move.pointerId);
    held.set(move.pointerId, move.clientX);
    if (held.size === 1) return void pan(-step / wide.width());
    const other = [...held].find(([id]) => id !== move.pointerId)[1], distance = Math.max(8, Math.abs(move.clientX - other));
    zoom(Math.max(8, Math.abs(before - other)) / distance, at(other));
  });
  for (const over of ["pointerup", "pointercancel"]) place.addEventListener(over, (up) => {
    if (over === "pointerup" && held.has(up.pointerId) && !moved) {
      const box = place.getBoundingClientRect();
      choose(eventAt(trace.placed, view, wide.width(), ((up.clientX - box.left) * wide.width()) / box.width, up.clientY - box.top));
    }
    held.delete(up.pointerId);
  });
  place.addEventListener("wheel", (wheel) => {
    if (!wheel.ctrlKey && !wheel.metaKey) return;
    wheel.preventDefault();
    zoom(2 ** (wheel.deltaY / 200), at(wheel.clientX));
  }, { passive: false });

  const id = uid("trace"), input = h("input", { id, type: "file", accept: ".json,.gz,application/json,application/gzip", onchange: () => chosenFile(input.files[0]) });
  async function chosenFile(file) {
    if (!file) return;
    status.textContent = `Reading ${file.name} …`;
    try {
      trace = loaded(await open(file));
      [view, chosen, name] = [[...trace.window], trace.longest, file.name];
      status.textContent = `${file.name}: ${trace.events.length} events, read in this page and sent nowhere.`;
      draw();
    } catch (error) {
      if (!(error instanceof NotATrace)) throw error;
      status.textContent = `${file.name} was not opened. ${error.message}`;
    }
  }

  function draw() {
    title.textContent = name;
    place.replaceChildren(picture(trace.placed, trace.sets.exposed, view, chosen, wide.width(), trace.window[0]));
    place.style.height = `${trace.placed.height}px`;
    event.textContent = `${chosen.name} (${chosen.place})`;
    about.replaceChildren(...factRows(facts(trace, chosen)));
    share.replaceChildren(...factRows(parts(trace, view)));
  }
  const button = (text, onclick) => h("button", { type: "button", onclick }, text);
  el.append(widgetRoot("traces", "A profiler's trace", title,
    h("div", { class: "bar" }, button("Zoom in", () => zoom(0.5)), button("Zoom out", () => zoom(2)), button("Earlier", () => pan(-0.25)), button("Later", () => pan(0.25)),
      button("All", all), button("Previous event", () => beside(-1)), button("Next event", () => beside(1)),
      button("To the event", () => look(chosen.start - (chosen.end - chosen.start), chosen.end + (chosen.end - chosen.start)))),
    place, h("div", { class: "below" }, h("div", {}, event, about), h("div", {}, h("p", { class: "event" }, "In view"), share)),
    h("div", { class: "bar file" }, h("label", { for: id }, "Your own trace (.json, .json.gz)"), input), status,
    h("p", { class: "note" }, "Drag to pan, pinch or hold Ctrl and scroll to zoom, click for an event. Shaded: communication with no kernel beside it.")));
  draw();
  return () => wide.stop();
}

export default { render };
