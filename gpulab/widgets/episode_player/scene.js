/* The world from above, as the camera frames it: objects, the arm, the way of its tip. */

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function object({ shape, place: [x, y], colour }) {
  const bar = (width, height) => svg("rect", { x: x - width / 2, y: y - height / 2, width, height, fill: colour });
  if (shape === "block") return [bar(10, 10)];
  if (shape === "cross") return [bar(12, 3), bar(3, 12)];
  return [svg("circle", { cx: x, cy: y, r: 4.5, fill: "none", stroke: colour, "stroke-width": 3 })];
}

const points = (places) => places.map((place) => place.join(",")).join(" ");

/* Distance of the tip to the middle of the named object after `step` actions, in pixels. */
export function away({ tips, goal }, step) {
  return Math.hypot(tips[step][0] - goal[0], tips[step][1] - goal[1]);
}

export function inWords(episode, step) {
  const { told, objects, tips } = episode;
  return `${objects.map(({ name }) => name).join(", ")} and the arm. Told "${told}", after ${step} of ${tips.length - 1} actions the tip is ${away(episode, step).toFixed(1)} pixels from the object that is meant.`;
}

export function scene(episode, step) {
  const { size, base, goal, elbows, tips, objects, tolerance } = episode, [x, y] = tips[step];
  const root = svg("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": inWords(episode, step), class: "scene" });
  root.append(
    svg("rect", { x: 0, y: 0, width: size, height: size, fill: "#e8e8e8" }),
    ...objects.flatMap(object),
    svg("circle", { cx: goal[0], cy: goal[1], r: tolerance, class: "goal" }),
    svg("polyline", { points: points(tips.slice(0, step + 1)), class: "way" }),
    svg("polyline", { points: points([base, elbows[step], tips[step]]), class: "arm" }),
    svg("circle", { cx: x, cy: y, r: 3, fill: "#141414" }),
    svg("circle", { cx: x, cy: y, r: 1.5, fill: "#ffffff" }),
  );
  return root;
}
