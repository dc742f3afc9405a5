/* The folklore page: the table of claims is searched and filtered where it stands. Without a script it stands whole. */
document.addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector("table.gpulab-claims.whole");
  if (!table) return;
  const rows = [...table.tBodies[0].rows];
  const titles = Object.fromEntries(
    [...document.querySelectorAll(".bd-links a.reference.internal")].map((link) => [new URL(link.href).pathname, link.textContent.trim()]));
  const titleOf = (chapter) => Object.entries(titles).find(([path]) => path.endsWith(`/${chapter}.html`))?.[1] ?? chapter;
  const kinds = (name) => [...new Set(rows.flatMap((row) => row.dataset[name].split(",")))];

  const form = document.createElement("form");
  form.className = "claims-filter";
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Claims");
  const field = (label, control) => {
    const wrap = document.createElement("label");
    wrap.append(label, control);
    form.append(wrap);
    return control;
  };
  const choice = (label, name, values, told = (value) => value) => {
    const select = document.createElement("select");
    select.name = name;
    select.append(new Option("all", ""), ...values.map((value) => new Option(told(value), value)));
    return field(label, select);
  };
  const words = document.createElement("input");
  words.type = "search";
  words.name = "words";
  field("Words", words);
  const chosen = [
    choice("Verdict", "verdict", kinds("verdict").sort()),
    choice("Settled", "settled", kinds("settled").sort()),
    choice("Chapter", "chapter", kinds("chapter"), titleOf),
  ];
  const count = document.createElement("output");
  form.append(count);
  table.closest(".cell_output, .output")?.before(form);

  const texts = rows.map((row) => row.textContent.toLowerCase());
  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, at) => {
      const fits = wanted.every((word) => texts[at].includes(word))
        && chosen.every((select) => !select.value || row.dataset[select.name].split(",").includes(select.value));
      row.hidden = !fits;
      shown += fits;
    });
    count.textContent = `${shown} of ${rows.length} claims`;
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
});
