"use strict";
/* One suspicious sample after another. Nothing is shown as marked before the server has confirmed
   that the mark is on disk. */
(() => {
  const { h, sampleView, percent, short } = gemmed;
  const $ = (id) => document.getElementById(id);
  const words = { right: "right", wrong: "wrong", bad: "bad measurement", unsure: "unsure" };
  let state = null;
  let current = null;
  let busy = false;
  const seen = [];
  let place = -1;
  let listed = 0;
  let listTurn = 0;
  let offerTurn = 0;
  const boxes = ["help", "list", "bulk-box", "export-box"];
  const MOST_BUTTONS = 9;
  const MOST_LIKELY = 2;

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
  const counted = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
  const reviewer = () => $("reviewer").value.trim();

  function showState(found) {
    state = found;
    const parts = Object.entries(state.kinds).filter(([, n]) => n).map(([kind, n]) => `${n} ${words[kind]}`);
    if (state.accepted) parts.push(`${state.accepted} of these accepted without a look`);
    if (state.disputed) parts.push(`${state.disputed} disputed`);
    $("counts").textContent = `${state.marked} of ${counted(state.rows, "row")} marked` +
      (parts.length ? ` (${parts.join(", ")})` : "") + `; ${counted(state.flagged_left, "flagged row")} left`;
    $("done").style.width = Math.min(100, 100 * state.marked / Math.max(state.marked + state.flagged_left, 1)) + "%";
    showChecks(state.checks);
    $("signal").hidden = !state.signal;
    $("signal").textContent = state.signal;
    $("agreement").hidden = !state.agreement.length;
    $("agreement").textContent = state.agreement.join(" ");
    if (!$("class-names").childElementCount) $("class-names").append(...state.classes.map((name) => h("option", { value: name })));
    $("typed").hidden = state.classes.length <= MOST_BUTTONS;
    if (state.changed) say("The table's file has changed since the review began: export is refused. Stop gemmed review and start it again with --changed match.", true);
  }

  function showChecks(checks) {
    $("checks").hidden = !checks;
    $("checks-order").hidden = $("checks-order").disabled = !checks;
    if (!checks) return;
    const figure = (name, ends, title) => h("div", { title }, h("span", { class: "muted" }, name),
      h("strong", {}, ends ? percent(ends[0]) : "–"),
      h("span", { class: "muted" }, ends ? `${percent(ends[1])} to ${percent(ends[2])}` : "no draw yet"));
    const each = `From random draws of ${checks.drawn_from}. ${percent(checks.level)} interval on its own, valid at every look.`;
    const ofFlagged = checks.drawn_from === "flagged rows" ? ", of flagged rows" : "";
    $("figures").replaceChildren(
      h("div", {}, h("span", { class: "muted" }, "checked"),
        h("strong", { id: "answered" }, `${checks.answered} of ${checks.planned}`),
        h("span", { class: "muted" }, "random draws" + (checks.picked ? `, ${checks.picked} picked` : ""))),
      figure("wrong labels" + ofFlagged, checks.shares.wrong, each),
      figure("bad measurements" + ofFlagged, checks.shares.bad, each),
      checks.flagged ? figure("flags that are right", checks.precision, `Of the ${checks.flagged} rows that the first fit flagged. ${each}`) : "");
    const done = checks.answered + checks.picked;
    $("gauge").style.width = (checks.reached ? 100 : 100 * done / Math.max(done + checks.more, 1)) + "%";
    $("checks").classList.toggle("reached", checks.reached);
    $("goal").textContent = checks.sentence;
  }

  /* With many classes only the likeliest ones have a button; others are typed. */
  function shownClasses(others) {
    if (state.classes.length <= MOST_BUTTONS) return others;
    const chance = (name) => current.held_out === null ? 0 : current.held_out[state.classes.indexOf(name)] || 0;
    const first = (name) => (name === current.suggested ? 2 : chance(name));
    return [...others].sort((a, b) => first(b) - first(a)).slice(0, MOST_LIKELY);
  }

  function showActions() {
    const others = state.classes.filter((name) => name !== current.given);
    const suggested = current.suggested !== null && current.suggested !== current.given ? current.suggested
      : others.length === 1 ? others[0] : null;
    current.wrong = suggested;
    $("class-name").value = "";
    $("classes").replaceChildren(...shownClasses(others).map((name) => {
      const number = state.classes.indexOf(name) + 1;
      const key = name === suggested ? "W" : state.classes.length <= MOST_BUTTONS ? String(number) : null;
      return h("button", {
        type: "button", class: "mark wrong" + (name === current.suggested ? " suggested" : ""),
        "data-label": name, title: name, "aria-label": `Wrong: ${name}`, onclick: () => mark("wrong", name),
      }, key && h("kbd", {}, key), h("span", { class: "wide" }, " Wrong: "), short(name, 20));
    }));
  }

  /* The class that a typed text means: its name, or the only one that begins with it or has it. */
  function typedClass(text) {
    const wanted = text.trim().toLowerCase();
    const names = state.classes.map((name) => [name, name.toLowerCase()]);
    for (const fits of [(n) => n === wanted, (n) => n.startsWith(wanted), (n) => n.includes(wanted)]) {
      const found = names.filter(([, name]) => fits(name)).map(([name]) => name);
      if (found.length === 1) return found[0];
      if (found.length > 1) throw new Error(`Which class: ${found.slice(0, 8).join(", ")}${found.length > 8 ? ", …" : ""}?`);
    }
    throw new Error(`No class is called "${text.trim()}".`);
  }

  function markTyped() {
    const text = $("class-name").value;
    if (!text.trim()) return;
    try {
      const label = typedClass(text);
      $("class-name").blur();
      if (label === current.given) mark("right");
      else mark("wrong", label);
    } catch (error) {
      say(error.message, true);
    }
  }

  function showMarks() {
    if (!current.marks.length) return null;
    return h("p", { class: "marks-before" }, current.marks.map((m, i) => [
      i ? "; " : m.how === "bulk" ? "Accepted without a look: " : "Marked ",
      h("strong", {}, words[m.kind] + (m.label ? `, ${m.label} instead` : "")),
      ` by ${m.reviewer}, ${new Date(m.at).toLocaleString()}`]).flat());
  }

  /* How the row got here, in small letters: a draw counts in the shares, a picked row does not. */
  function origin() {
    const parts = [];
    if (current.how === "draw") parts.push(`random draw ${current.place}`);
    else if (current.how === "pick") parts.push(ranking() === "checks" ? "likely fault, not a draw" : "picked, not a draw");
    const rank = current.ranks[ranking()];
    if (rank) parts.push(`${rank} of ${state.rows} by ${$("ranking").selectedOptions[0].textContent}`);
    else if (!Object.keys(current.ranks).length) parts.push("left out of the last fit");
    return h("span", { class: "muted origin", "data-how": current.how || null }, parts.join(" · "));
  }

  function otherColumns() {
    const cells = Object.entries(current.texts);
    if (!cells.length) return null;
    return h("dl", { class: "facts texts" }, cells.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]).flat());
  }

  function neighbourSounds() {
    const near = current.neighbours.filter((n) => n.sound);
    if (!near.length) return null;
    return h("section", { class: "near-sounds", "aria-label": "nearest trusted recordings" },
      h("h3", {}, "Nearest trusted recordings"),
      h("ul", {}, near.map((n) => {
        const audio = h("audio", { controls: true, preload: "none", src: n.sound.audio });
        audio.addEventListener("play", () => {
          const at = audio.currentTime;
          if (at < n.sound.start || (n.sound.end !== null && at >= n.sound.end)) audio.currentTime = n.sound.start;
        });
        audio.addEventListener("timeupdate", () => { if (n.sound.end !== null && audio.currentTime > n.sound.end) audio.pause(); });
        return h("li", { class: n.same ? "same" : "other" }, h("span", {}, h("b", {}, n.label), ` row ${n.row}`), audio);
      })));
  }

  async function show(row, remember = true) {
    $("sample").classList.add("waiting");
    try {
      current = await ask(`/api/sample/${row}?` + new URLSearchParams({ reviewer: reviewer() }));
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
    const view = sampleView(current);
    view.querySelector(".sample-head").append(origin());
    const texts = otherColumns();
    if (texts) view.querySelector(".given").after(texts);
    const near = neighbourSounds();
    if (near) view.querySelector(".sound").after(near);
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
    const query = new URLSearchParams({ ranking: ranking(), reviewer: reviewer() });
    if (after) query.set("after", after);
    const found = await ask("/api/next?" + query);
    if (found.row === null) {
      say({ again: "No row is left for a second opinion.", disputed: "No row is disputed." }[ranking()] || "Every row has a mark.");
      if (!current) $("sample").replaceChildren(h("p", { class: "muted" }, "Nothing to show in this order."));
    }
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
    listAgain();
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
      listAgain();
    } catch (error) {
      say(error.message, true);
    } finally {
      $("refit").disabled = false;
    }
  }

  async function list(anew) {
    const turn = ++listTurn;
    const start = anew ? 0 : listed;
    const query = new URLSearchParams({ ranking: ranking(), start, count: 60, search: $("search").value, reviewer: reviewer() });
    const found = await ask("/api/queue?" + query);
    if (turn !== listTurn) return;  // a later request will be shown
    if (anew) $("rows").replaceChildren();
    const how = { draw: "drawn", pick: "picked", bulk: "accepted" };
    $("rows").append(...found.items.map((item) => h("tr", { class: current && item.row === current.row ? "now" : null },
      h("td", {}, h("button", { type: "button", class: "link", onclick: () => guarded(() => show(item.row)) }, "row " + item.row),
        h("span", { class: "muted" }, " " + gemmed.identifiers(item.ids))),
      h("td", {}, item.label), h("td", {}, item.suggested), h("td", {}, item.verdict),
      h("td", { class: "num" }, percent(item.score)),
      h("td", {}, item.mark && words[item.mark] + (item.new ? `: ${item.new}` : ""), item.disputed && " (disputed)",
        item.how && h("span", { class: "muted" }, " " + how[item.how])))));
    listed = start + found.items.length;
    $("found").textContent = counted(found.total, "row");
    $("more").hidden = listed >= found.total;
  }

  function toggle(box, button) {
    $(box).hidden = !$(box).hidden;
    $(button).setAttribute("aria-expanded", String(!$(box).hidden));
    return !$(box).hidden;
  }

  function closeAll() {
    for (const box of boxes) $(box).hidden = true;
    for (const button of ["list-button", "help-button"]) $(button).setAttribute("aria-expanded", "false");
    $("sample").focus({ preventScroll: true });
  }

  /* What accepting all suggestions above the confidence would do, with the errors it would make. */
  let offered = null;
  async function offer() {
    const confidence = Number($("confidence").value) / 100;
    const turn = ++offerTurn;
    offered = null;
    $("accept").disabled = true;
    const found = await ask("/api/bulk?" + new URLSearchParams({ confidence }));
    if (turn !== offerTurn) return;  // a later confidence was asked for meanwhile
    offered = { confidence, shown: found.suggestions };
    $("accept").disabled = !found.suggestions;
    $("accept").textContent = `Accept ${counted(found.suggestions, "label")}`;
    const by = found.checks ? `${found.checks} random checks of such rows` : "by the model, not checked";
    const most = found.most_errors === null ? "" : `, with 95 % confidence at most ${Math.ceil(found.most_errors)}`;
    $("offer").textContent = found.suggestions
      ? `About ${found.expected_errors.toFixed(1)} of them are expected to be errors${most} (${by}).` : "No suggestion has this confidence.";
  }

  const accept = () => guarded(async () => {
    if (!reviewer()) throw new Error("Who are you? Fill in your name: every mark says who made it.");
    const answer = await ask("/api/bulk", { ...offered, reviewer: reviewer() });
    showState(answer.state);
    await offer();
    say(`${counted(answer.accepted, "label")} accepted without a look. Undo takes them back.`);
  });

  const help = () => toggle("help", "help-button");
  /* Beside the review: keys count while the list loads. */
  const listAgain = () => { if (!$("list").hidden) list(true).catch((error) => say(error.message, true)); };
  const openList = () => { toggle("list", "list-button"); listAgain(); };

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
  $("close-list").onclick = closeAll;
  $("search").oninput = listAgain;
  /* Not guarded, which would drop a new confidence while the answer to the last one is awaited. */
  const offerAgain = () => offer().catch((error) => say(error.message, true));
  $("bulk").onclick = () => { $("bulk-box").hidden = false; $("confidence").focus(); offerAgain(); };
  $("confidence").onchange = offerAgain;
  $("close-bulk").onclick = closeAll;
  $("accept").onclick = accept;
  $("class-name").onkeydown = (event) => { if (event.key === "Enter") { event.preventDefault(); markTyped(); } };
  document.addEventListener("play", (event) => {
    for (const audio of document.querySelectorAll("audio")) if (audio !== event.target) audio.pause();
  }, true);
  $("export").onclick = () => { $("export-box").hidden = false; $("written").textContent = ""; $("write").focus(); };
  $("close-export").onclick = closeAll;
  $("write").onclick = () => guarded(async () => {
    const done = await ask("/api/export", { bad: $("bad").value });
    $("written").textContent = `${counted(done.corrected, "label")} corrected, ${counted(done.bad, "row")} marked as bad: ${done.table}. Log: ${done.log}.` +
      (done.checks ? ` Figures of the checks: ${done.checks}.` : "") +
      (done.disputed ? ` ${counted(done.disputed, "row")} disputed; the latest mark counts.` : "");
  });
  $("ranking").onchange = () => guarded(async () => {
    localStorage.setItem("gemmed-ranking", ranking());
    seen.length = 0;
    place = -1;
    await next(null);
    listAgain();
  });
  $("reviewer").onchange = () => localStorage.setItem("gemmed-reviewer", reviewer());

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.key === "Escape") {
      event.target.blur();
      $("class-name").value = "";
      closeAll();
      return;
    }
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Enter" && event.target.id !== "class-name") event.target.blur();
      return;
    }
    const onButton = event.target.matches("button, audio, summary");
    const many = state && state.classes.length > MOST_BUTTONS;
    const typing = () => { if (many) $("class-name").focus(); };
    const number = Number(event.key);
    const actions = {
      r: () => mark("right"),
      w: () => (current.wrong === null ? say(many ? "Which class? Press C and type its name." : "Which class? Use its number.", true) : mark("wrong", current.wrong)),
      b: () => mark("bad"), u: () => mark("unsure"), z: undo, c: typing,
      arrowright: forward, n: forward, arrowleft: back, p: back, l: openList, "?": help,
    };
    const action = actions[event.key.toLowerCase()];
    if (event.key === " " && !onButton) {
      event.preventDefault();
      play();
    } else if (action && current) {
      event.preventDefault();
      action();
    } else if (current && many && /^[0-9]$/.test(event.key)) {
      typing();  // the digit goes into the field
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
    if (state.checks && !state.checks.reached) $("ranking").value = "checks";
    else if (!["joint", "label", "measurement"].includes($("ranking").value)) $("ranking").value = "joint";
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
