"use strict";
/* Buttons that copy a command. */
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const code = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
    }
  });
}

/* The table of suspicious rows: order, filter, pages, and the sample of a row. */
(() => {
  const { sampleView, h } = gemmed;
  const PAGE = 25;
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

  const previousPage = document.getElementById("previous-page");
  const nextPage = document.getElementById("next-page");
  let order = rows, fitting = rows, page = 0;

  function show() {
    const last = Math.max(0, Math.ceil(fitting.length / PAGE) - 1);
    page = Math.min(Math.max(page, 0), last);
    const shown = new Set(fitting.slice(page * PAGE, (page + 1) * PAGE));
    for (const row of rows) row.hidden = !shown.has(row);
    const first = fitting.length ? page * PAGE + 1 : 0;
    count.textContent = `${first} to ${page * PAGE + shown.size} of ${fitting.length} rows` +
      (fitting.length < rows.length ? ` (${rows.length} listed)` : "");
    previousPage.disabled = page === 0;
    nextPage.disabled = page === last;
  }

  function refresh() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    fitting = order.filter((row) => {
      const text = row.textContent.toLowerCase();
      return words.every((word) => text.includes(word)) &&
        (!verdict.value || row.dataset.verdict === verdict.value);
    });
    page = 0;
    show();
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
    order = keyed.map(([, row]) => row);
    body.append(...order);
    refresh();
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

  function step(row, by) {
    const known = fitting.filter((other) => byRow.has(other.dataset.row));
    const at = known.findIndex((other) => other.dataset.row === row);
    return at < 0 ? undefined : known[at + by];
  }

  function go(row) {
    if (row) location.hash = "row-" + row.dataset.row;
  }

  function open(row) {
    const sample = byRow.get(row);
    for (const other of rows) other.classList.toggle("chosen", other.dataset.row === row);
    detail.replaceChildren();
    if (sample) {
      const before = step(row, -1), after = step(row, 1);
      const place = fitting.findIndex((other) => other.dataset.row === row);
      if (place >= 0) { page = Math.floor(place / PAGE); show(); }
      detail.append(
        h("p", { class: "no-print controls" },
          h("button", { type: "button", onclick: () => { location.hash = "suspicious"; } }, "Back to the list"),
          h("button", { type: "button", id: "previous-row", disabled: !before, onclick: () => go(before) }, "Previous row"),
          h("button", { type: "button", id: "next-row", disabled: !after, onclick: () => go(after) }, "Next row")),
        sampleView(sample));
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

  previousPage.addEventListener("click", () => { page -= 1; show(); });
  nextPage.addEventListener("click", () => { page += 1; show(); });
  window.addEventListener("beforeprint", () => { for (const row of fitting) row.hidden = false; });
  window.addEventListener("afterprint", show);
  document.addEventListener("keydown", (event) => {
    if (detail.hidden || event.target.closest("input, select")) return;
    const current = /^#row-(\d+)$/.exec(location.hash);
    if (!current) return;
    if (event.key === "ArrowRight" || event.key === "j") go(step(current[1], 1));
    else if (event.key === "ArrowLeft" || event.key === "k") go(step(current[1], -1));
    else if (event.key === "Escape") location.hash = "suspicious";
  });
  filter.addEventListener("input", refresh);
  verdict.addEventListener("change", refresh);
  window.addEventListener("hashchange", follow);
  refresh();
  follow();
})();
