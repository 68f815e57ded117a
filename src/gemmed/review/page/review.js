"use strict";
/* One suspicious sample after another. Nothing is shown as marked before the server has confirmed
   that the mark is on disk. */
(() => {
  const { h, sampleView, percent } = gemmed;
  const $ = (id) => document.getElementById(id);
  const words = { right: "right", wrong: "wrong", bad: "bad measurement", unsure: "unsure" };
  let state = null;
  let current = null;
  let busy = false;
  const seen = [];
  let place = -1;
  let listed = 0;

  async function ask(path, body) {
    const options = body === undefined ? {} : {
      method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
    };
    let answer;
    try {
      answer = await fetch(path, options);
    } catch {
      throw new Error("The server does not answer: start gemmed review again. Confirmed marks are stored.");
    }
    let data = {};
    try { data = await answer.json(); } catch { /* not JSON: the status says it */ }
    if (!answer.ok) throw new Error(data.problem || `The server refused (${answer.status}).`);
    return data;
  }

  function say(text, problem) {
    const box = $("message");
    box.textContent = text || "";
    box.hidden = !text;
    box.classList.toggle("problem", Boolean(problem));
  }

  const ranking = () => $("ranking").value;
  const reviewer = () => $("reviewer").value.trim();

  function showState(found) {
    state = found;
    const parts = Object.entries(state.kinds).filter(([, n]) => n).map(([kind, n]) => `${n} ${words[kind]}`);
    if (state.disputed) parts.push(`${state.disputed} disputed`);
    $("counts").textContent = `${state.marked} of ${state.rows} rows marked, ${state.flagged} flagged` +
      (parts.length ? ` (${parts.join(", ")})` : "");
    $("done").style.width = Math.min(100, 100 * state.marked / Math.max(state.flagged, 1)) + "%";
    showChecks(state.checks);
    if (state.changed) say("The table's file has changed since the review began: export is refused. Stop gemmed review and start it again with --changed match.", true);
  }

  function showChecks(checks) {
    $("checks").hidden = $("draws").hidden = $("draws").disabled = !checks;
    if (!checks) return;
    const share = (name, ends) => ends && `${name} ${percent(ends[0])} (95 %: ${percent(ends[1])} to ${percent(ends[2])})`;
    const parts = [share("wrong labels", checks.shares.wrong), share("bad measurements", checks.shares.bad)].filter(Boolean);
    $("checks").textContent = `Checked: ${checks.answered} of ${checks.planned} random checks. ` +
      (parts.length ? parts.join(", ") + ". " : "") + checks.sentence;
  }

  function showActions() {
    const others = state.classes.filter((name) => name !== current.given);
    const suggested = current.suggested !== null && current.suggested !== current.given ? current.suggested
      : others.length === 1 ? others[0] : null;
    current.wrong = suggested;
    $("classes").replaceChildren(...others.map((name) => {
      const number = state.classes.indexOf(name) + 1;
      return h("button", {
        type: "button", class: "mark wrong" + (name === current.suggested ? " suggested" : ""),
        "data-label": name, onclick: () => mark("wrong", name),
      }, name === suggested ? h("kbd", {}, "W") : number <= 9 ? h("kbd", {}, String(number)) : null, ` Wrong: ${name}`);
    }));
  }

  function showMarks() {
    if (!current.marks.length) return null;
    return h("p", { class: "marks-before" }, current.marks.map((m, i) => [
      i ? "; " : "Marked ", h("strong", {}, words[m.kind] + (m.label ? `, rather ${m.label}` : "")),
      ` by ${m.reviewer}, ${new Date(m.at).toLocaleString()}`]).flat());
  }

  async function show(row, remember = true) {
    $("sample").classList.add("waiting");
    try {
      current = await ask(`/api/sample/${row}`);
    } catch (error) {
      say(error.message, true);
      return;
    } finally {
      $("sample").classList.remove("waiting");
    }
    if (remember) {
      seen.length = place + 1;
      seen.push(row);
      place = seen.length - 1;
    }
    const rank = current.ranks[ranking()];
    const view = sampleView(current);
    view.querySelector(".sample-head").append(h("span", { class: "muted" },
      rank ? `${rank} of ${state.rows} by ${$("ranking").selectedOptions[0].textContent}` : "left out of the last fit"));
    const marks = showMarks();
    if (marks) view.prepend(marks);
    $("sample").replaceChildren(view);
    $("sample").dataset.row = row;
    showActions();
    history.replaceState(null, "", "#row-" + row);
    window.scrollTo(0, 0);
    $("sample").focus({ preventScroll: true });
  }

  async function next(after) {
    const query = new URLSearchParams({ ranking: ranking() });
    if (after) query.set("after", after);
    const found = await ask("/api/next?" + query);
    if (found.row === null) say("Every row has a mark.");
    else await show(found.row);
  }

  async function guarded(work) {
    if (busy) return;
    busy = true;
    try {
      await work();
    } catch (error) {
      say(error.message, true);
    } finally {
      busy = false;
    }
  }

  const mark = (kind, label) => guarded(async () => {
    if (!current) return;
    if (!reviewer()) {
      $("reviewer").focus();
      throw new Error("Who are you? Fill in your name: every mark says who made it.");
    }
    const row = current.row;
    const answer = await ask("/api/mark", { row, mark: kind, label: label ?? null, reviewer: reviewer() });
    say("");
    showState(answer.state);
    await next(row);
  });

  const undo = () => guarded(async () => {
    const answer = await ask("/api/undo", { reviewer: reviewer() });
    showState(answer.state);
    if (answer.row === null) say("There is no mark of yours to undo.");
    else {
      await show(answer.row);
      say(`The mark of row ${answer.row} is undone.`);
    }
  });

  const back = () => guarded(async () => {
    if (place > 0) {
      place -= 1;
      await show(seen[place], false);
    }
  });

  const forward = () => guarded(async () => {
    say("");
    if (place < seen.length - 1) {
      place += 1;
      await show(seen[place], false);
    } else await next(current && current.row);
  });

  async function followRefit() {
    for (;;) {
      const progress = await ask("/api/refit");
      if (!progress.running) {
        $("refit").disabled = false;
        if (progress.error) throw new Error("The fit failed, the last one stays: " + progress.error);
        return;
      }
      say(`Fitting: ${progress.stage} (${progress.step} of ${progress.steps}), ${progress.seconds} s. You can go on.`);
      await new Promise((done) => setTimeout(done, 250));
    }
  }

  async function refit() {
    $("refit").disabled = true;
    try {
      await ask("/api/refit", {});
      await followRefit();
      showState(await ask("/api/state"));
      seen.length = 0;
      place = -1;
      await next(null);
      say("Fitted with your marks: the list is in its new order. " + state.sentence);
      if (!$("list").hidden) await list(true);
    } catch (error) {
      say(error.message, true);
    } finally {
      $("refit").disabled = false;
    }
  }

  async function list(anew) {
    if (anew) { listed = 0; $("rows").replaceChildren(); }
    const query = new URLSearchParams({ ranking: ranking(), start: listed, count: 60 });
    const found = await ask("/api/queue?" + query);
    $("rows").append(...found.items.map((item) => h("li", { class: current && item.row === current.row ? "now" : null },
      h("button", { type: "button", onclick: () => guarded(() => show(item.row)) }, "row " + item.row),
      ` ${percent(item.score)}`, item.mark && ` – ${words[item.mark]}`)));
    listed += found.items.length;
    $("more").hidden = listed >= found.total;
  }

  function toggle(box, button) {
    $(box).hidden = !$(box).hidden;
    $(button).setAttribute("aria-expanded", String(!$(box).hidden));
    return !$(box).hidden;
  }

  const help = () => toggle("help", "help-button");
  const openList = () => { if (toggle("list", "list-button")) guarded(() => list(true)); };

  function play() {
    const audio = document.querySelector("#sample audio");
    if (!audio) return;
    if (audio.paused) audio.play().catch(() => say("The browser cannot play this file.", true));
    else audio.pause();
  }

  $("right").onclick = () => mark("right");
  $("bad-mark").onclick = () => mark("bad");
  $("unsure").onclick = () => mark("unsure");
  $("undo").onclick = undo;
  $("back").onclick = back;
  $("next").onclick = forward;
  $("refit").onclick = refit;
  $("help-button").onclick = help;
  $("list-button").onclick = openList;
  $("more").onclick = () => guarded(() => list(false));
  $("export").onclick = () => { $("export-box").hidden = false; $("written").textContent = ""; $("write").focus(); };
  $("close-export").onclick = () => { $("export-box").hidden = true; };
  $("write").onclick = () => guarded(async () => {
    const done = await ask("/api/export", { bad: $("bad").value });
    $("written").textContent = `${done.corrected} labels corrected, ${done.bad} rows marked as bad: ${done.table}. Log: ${done.log}.` +
      (done.disputed ? ` ${done.disputed} rows are disputed; the latest mark counts.` : "");
  });
  $("ranking").onchange = () => guarded(async () => {
    localStorage.setItem("gemmed-ranking", ranking());
    seen.length = 0;
    place = -1;
    await next(null);
    if (!$("list").hidden) await list(true);
  });
  $("reviewer").onchange = () => localStorage.setItem("gemmed-reviewer", reviewer());

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Enter" || event.key === "Escape") event.target.blur();
      return;
    }
    const onButton = event.target.matches("button, audio, summary");
    const number = Number(event.key);
    const actions = {
      r: () => mark("right"),
      w: () => (current.wrong === null ? say("Which class? Use its number.", true) : mark("wrong", current.wrong)),
      b: () => mark("bad"), u: () => mark("unsure"), z: undo,
      escape: () => { for (const box of ["help", "list", "export-box"]) $(box).hidden = true; },
      arrowright: forward, n: forward, arrowleft: back, p: back, l: openList, "?": help,
    };
    const action = actions[event.key.toLowerCase()];
    if (event.key === " " && !onButton) {
      event.preventDefault();
      play();
    } else if (action && current) {
      event.preventDefault();
      action();
    } else if (number >= 1 && number <= state.classes.length && current) {
      const label = state.classes[number - 1];
      if (label === current.given) mark("right");
      else mark("wrong", label);
    }
  });
  document.addEventListener("visibilitychange", () => {
    // Another tab may have marked meanwhile.
    if (!document.hidden && state) ask("/api/state").then(showState).catch(() => {});
  });

  guarded(async () => {
    showState(await ask("/api/state"));
    $("reviewer").value = localStorage.getItem("gemmed-reviewer") || state.reviewer || "";
    const stored = localStorage.getItem("gemmed-ranking");
    if (stored) $("ranking").value = stored;
    if (state.checks && !state.checks.reached) $("ranking").value = "draws";
    else if (!$("ranking").value || (!state.checks && stored === "draws")) $("ranking").value = "joint";
    const wanted = /^#row-(\d+)$/.exec(location.hash);
    if (wanted) await show(Number(wanted[1]));
    else await next(null);
  }).then(async () => {
    // Beside the review: keys count from the first sample on.
    const progress = await ask("/api/refit");
    if (progress.running) refitRunning();
  }).catch((error) => say(error.message, true));

  async function refitRunning() {
    $("refit").disabled = true;
    try { await followRefit(); showState(await ask("/api/state")); } catch (error) { say(error.message, true); }
    $("refit").disabled = false;
  }
})();
