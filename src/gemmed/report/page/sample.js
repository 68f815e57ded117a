"use strict";
/* One sample with its reasons, for the report and for the review page. Text is only ever set as
   text, so that a cell of a table cannot become a part of the page. */
const gemmed = (() => {
  function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "class") element.className = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
    return element;
  }

  const percent = (share) => {
    if (share === null || share === undefined) return "–";
    if (share > 0.9995) return "> 99.9 %";
    if (share > 0 && share < 0.0005) return "< 0.1 %";
    return (share >= 0.1 && share < 0.995 ? Math.round(100 * share) : (100 * share).toFixed(1)) + " %";
  };
  const kind = (verdict) => verdict.replace("suspicious ", "");
  const identifiers = (ids) => Object.entries(ids).map(([k, v]) => `${k} ${v}`).join(", ");

  function chip(verdict) {
    return h("span", { class: "chip " + kind(verdict) }, verdict);
  }

  function spreadCell(value) {
    if (value === null || value === undefined) return h("td", { class: "num" }, "");
    if (value === "inf") return h("td", { class: "num" }, "all others have one value");
    const size = Math.min(Math.abs(value) / 10, 1) * 50;
    const fill = h("b", {});
    fill.style.width = size + "%";
    fill.style.left = (value < 0 ? 50 - size : 50) + "%";
    const number = (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(1);
    return h("td", { class: "num" },
      h("span", { class: "spread" }, h("i", { "aria-hidden": "true" }, fill), number));
  }

  function stateBars(scores) {
    const parts = [["joint", "any fault"], ["label", "wrong label"], ["measurement", "bad measurement"]];
    return h("div", { class: "states" }, parts.map(([name, text]) => {
      const fill = h("i", {});
      fill.style.width = 100 * (scores[name] || 0) + "%";
      return h("div", {}, text, h("strong", {}, percent(scores[name])),
        h("div", { class: "bar " + name, "aria-hidden": "true" }, fill));
    }));
  }

  function valuesTable(sample) {
    const there = sample.suggested !== null;
    const near = sample.neighbours;
    const head = h("tr", {},
      h("th", { scope: "col" }, "column"),
      h("th", { scope: "col", class: "num" }, "value"),
      h("th", { scope: "col", class: "num" }, "deviation"),
      h("th", { scope: "col" }, "usual in " + sample.label),
      there && h("th", { scope: "col" }, "usual in " + sample.suggested),
      h("th", { scope: "col", class: "num" }, "expected"),
      h("th", { scope: "col", class: "num" }, "deviation from expected"),
      near.map((n) => h("th", { scope: "col", class: "num " + (n.same ? "same" : "other"), title: identifiers(n.ids) },
        "row " + n.row, h("br"), n.label)));
    const rows = sample.columns.map((c, i) => h("tr", { class: c.odd ? "odd" : null },
      h("th", { scope: "row" }, c.name, c.odd && h("span", { class: "muted" }, " odd")),
      h("td", { class: "num" }, c.value === "" ? "no value" : c.value),
      c.share === null ? spreadCell(c.deviations) : h("td", { class: "num" }, "in " + percent(c.share)),
      h("td", { class: "nowrap" }, c.usual),
      there && h("td", { class: "nowrap" }, c.usual_there),
      h("td", { class: "num" }, c.expected),
      spreadCell(c.residual),
      near.map((n) => h("td", { class: "num " + (n.same ? "same" : "other") }, n.values[i]))));
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "values" },
      h("table", { class: "values" },
        h("caption", {}, "Its values, what is usual among trusted rows (5 to 95 %), what is expected from the other columns, and the nearest trusted rows" +
          (there ? ` of ${sample.label} and of ${sample.suggested}.` : " of its class and of others.")),
        h("thead", {}, head), h("tbody", {}, rows)),
      sample.further_columns > 0 && h("p", { class: "muted" }, `${sample.further_columns} further columns, less odd than these.`));
  }

  /* A long name without its middle: the ends tell names apart. */
  function short(name, most) {
    const half = Math.floor((most - 1) / 2);
    return name.length > most ? name.slice(0, half) + "…" + name.slice(-half) : name;
  }

  const space = "http://www.w3.org/2000/svg";

  function shape(tag, attributes, text) {
    const element = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  /* One column: a row of bars for each group of rows, the value of the sample marked in all. */
  function distribution(d) {
    const groups = Object.entries(d.groups);
    const width = 320, left = 4, line = 46, plot = width - 2 * left;
    const bottom = groups.length * line;
    const n = d.is_category ? d.values.length : groups[0][1].length;
    const step = plot / n;
    const svg = shape("svg", { viewBox: `0 0 ${width} ${bottom + 18}`, role: "img",
      "aria-label": `${d.name}: values of trusted rows by class` });
    groups.forEach(([name, heights], i) => {
      const base = (i + 1) * line - 2;
      heights.forEach((height, j) => {
        const size = 28 * height / 100;
        const marked = d.is_category && j === d.mark;
        svg.append(shape("rect", { class: marked ? "mark flagged" : "mark", x: left + j * step + 0.5,
          y: base - size, width: Math.max(step - 1, 1), height: size }));
      });
      svg.append(shape("line", { class: "axis", x1: left, y1: base, x2: width - left, y2: base }));
    });
    if (!d.is_category && d.mark !== null) {
      const x = left + d.mark * plot;
      svg.append(shape("line", { class: "value-line", x1: x, y1: 0, x2: x, y2: bottom }));
    }
    groups.forEach(([name], i) => {  // after the line, so that it does not strike through a name
      svg.append(shape("text", { class: "muted", x: left, y: (i + 1) * line - 34 }, short(name, 44)));
    });
    const ends = d.is_category ? [d.values[d.mark]] : d.values;
    svg.append(shape("text", { class: d.is_category ? "" : "muted", x: left, y: bottom + 13 }, d.is_category ? "this row: " + ends[0] : ends[0]));
    if (ends.length > 1) svg.append(shape("text", { class: "muted", x: width - left, y: bottom + 13, "text-anchor": "end" }, ends[1]));
    return h("figure", {}, h("figcaption", {}, d.name), svg);
  }

  function wave(peaks) {
    const svg = document.createElementNS(space, "svg");
    const path = document.createElementNS(space, "path");
    const up = peaks.map((p, i) => `${i},${100 - p}`);
    const down = peaks.map((p, i) => `${i},${100 + p}`).reverse();
    path.setAttribute("d", `M0,100 L${up.join(" ")} L${down.join(" ")} Z`);
    svg.setAttribute("viewBox", `0 0 ${peaks.length - 1} 200`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("class", "wave");
    svg.setAttribute("aria-hidden", "true");
    svg.append(path);
    return svg;
  }

  function soundPart(sound) {
    const audio = h("audio", { controls: true, preload: "none", src: sound.audio });
    const now = h("div", { class: "now", hidden: true });
    const picture = sound.spectrogram && h("div", { class: "spectrogram" },
      h("img", { src: sound.spectrogram, alt: sound.alt }), now);
    const length = sound.duration;
    for (const place of picture ? sound.places : []) {
      const mark = h("div", { class: "place", title: place.text });
      mark.style.left = 100 * place.start / length + "%";
      mark.style.width = 100 * Math.max(place.end - place.start, 0.004 * length) / length + "%";
      picture.append(mark);
    }
    audio.addEventListener("timeupdate", () => {
      if (!length) return;
      const at = audio.currentTime - sound.start;
      if (sound.end !== null && audio.currentTime > sound.end) audio.pause();
      now.hidden = false;
      now.style.left = Math.min(100, Math.max(0, 100 * at / length)) + "%";
    });
    audio.addEventListener("play", () => {
      const at = audio.currentTime;
      if (at < sound.start || (sound.end !== null && at >= sound.end)) audio.currentTime = sound.start;
    });
    return h("section", { class: "sound", "aria-label": "recording" },
      h("h3", {}, "Recording"),
      sound.wave.length > 1 ? wave(sound.wave) : null, picture, sound.audio ? audio : null,
      sound.notes.length ? h("ul", {}, sound.notes.map((text) => h("li", {}, text))) : null);
  }

  function sampleView(sample) {
    const ids = identifiers(sample.ids);
    return h("article", { class: "sample" },
      h("div", { class: "sample-head" },
        h("h2", {}, "Row " + sample.row), ids && h("span", { class: "muted" }, ids), chip(sample.verdict)),
      h("p", { class: "given" }, "Label ", h("b", {}, sample.label),
        sample.suggested !== null && [" – suggested ", h("b", {}, sample.suggested),
          sample.probability !== null && ` (${percent(sample.probability)} without this row)`]),
      sample.scores.joint === null ? h("p", { class: "muted" }, "Not part of the last fit.") : stateBars(sample.scores),
      sample.sentences.length ? [h("h3", {}, "Why"), h("ul", { class: "why" }, sample.sentences.map((t) => h("li", {}, t)))] : null,
      sample.sound ? soundPart(sample.sound) : null,
      sample.change.length ? [h("h3", {}, "What would change the verdict"), h("ul", {}, sample.change.map((t) => h("li", {}, t)))] : null,
      sample.distributions && sample.distributions.length ? [h("h3", {}, "Least usual columns"),
        h("p", { class: "muted" }, "Trusted rows by class. The marked value is that of this row."),
        h("div", { class: "distributions" }, sample.distributions.map(distribution))] : null,
      sample.columns.length ? [h("h3", {}, "Values"), valuesTable(sample)] : null);
  }

  return { h, chip, percent, sampleView, identifiers, short };
})();
