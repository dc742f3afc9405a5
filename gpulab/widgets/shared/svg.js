/* One element of a picture. */
export function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/* The jagged end of a bar that is cut off at x, as high as it is: there is more of it. */
export function torn(x, y, height) {
  const teeth = Array.from({ length: 5 }, (_, i) => `${x - (i % 2 ? 9 : 2)},${y + (i * height) / 4}`);
  return svg("polygon", { points: [...teeth, `${x + 1},${y + height}`, `${x + 1},${y}`].join(" "), class: "torn" });
}

/* A picture is drawn anew when its place gets another width; without a layout, in a still, it is 640 wide. */
export function followed(place, most, draw) {
  let width = 0;
  const observer = globalThis.ResizeObserver && new ResizeObserver(() => {
    const now = Math.min(most, place.clientWidth);
    if (now && now !== width) {
      width = now;
      draw();
    }
  });
  observer?.observe(place);
  return { width: () => width || 640, stop: () => observer?.disconnect() };
}
