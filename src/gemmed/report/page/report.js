"use strict";
/* The table of suspicious rows: order, filter, and the sample of a row. */
(() => {
  const { sampleView, h } = gemmed;
  const data = JSON.parse(document.getElementById("samples").textContent);
  const byRow = new Map(data.map((sample) => [String(sample.row), sample]));
  const table = document.getElementById("rows");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const filter = document.getElementById("filter");
  const verdict = document.getElementById("verdict");
  const count = document.getElementById("count");
  const detail = document.getElementById("detail");

  function refresh() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word)) &&
        (!verdict.value || row.dataset.verdict === verdict.value);
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${rows.length} rows shown`;
  }

  function sort(header, descending) {
    const column = header.cellIndex;
    const key = (row) => {
      const text = row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const number = Number(text);
      return text !== "" && !Number.isNaN(number) ? number : text;
    };
    const keyed = rows.map((row) => [key(row), row]);
    keyed.sort(([a], [b]) => {
      if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
      return typeof a === "number" ? -1 : 1;
    });
    if (descending) keyed.reverse();
    body.append(...keyed.map(([, row]) => row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  }

  for (const button of table.tHead.querySelectorAll("button")) {
    button.addEventListener("click", () => {
      const header = button.closest("th");
      const first = header.classList.contains("num") ? "descending" : "ascending";
      const now = header.getAttribute("aria-sort");
      sort(header, now ? now !== "descending" : first === "descending");
    });
  }

  function open(row) {
    const sample = byRow.get(row);
    for (const other of rows) other.classList.toggle("chosen", other.dataset.row === row);
    detail.replaceChildren();
    if (sample) {
      detail.append(h("button", { class: "no-print", onclick: () => { location.hash = "suspicious"; } }, "Back to the list"), sampleView(sample));
      detail.hidden = false;
      detail.focus();
      detail.scrollIntoView({ block: "start" });
    } else {
      detail.hidden = true;
    }
  }

  function follow() {
    const found = /^#row-(\d+)$/.exec(location.hash);
    if (found) open(found[1]);
    else detail.hidden = true;
  }

  filter.addEventListener("input", refresh);
  verdict.addEventListener("change", refresh);
  window.addEventListener("hashchange", follow);
  refresh();
  follow();
})();
