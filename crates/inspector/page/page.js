// @ts-check
"use strict";

// The script of the report page. It creates text nodes only, so that data on a tape is never parsed as markup.
(() => {
  const ROW = 28;
  const LANE = 64;
  const LABEL = 18;
  /** Bars of pending calls and timers that lie side by side in a lane. */
  const PENDING_LINES = 3;
  const MOST_ZOOM = 4000;

  /** @type {Report} */
  const report = JSON.parse(byId("report").textContent ?? "{}");
  const names = new Map(report.lanes.map((lane) => [lane.realm, lane.realm === 0 ? lane.extension : `${lane.realm} ${lane.extension}`]));
  /** Start of each turn, in order, which maps a time to the axis of turns. */
  const turnStarts = report.rows.filter((row) => row.kind === "turn").map((row) => row.from).sort((a, b) => a - b);
  /** Chunks and verdicts in the order of their occurrence; a verdict follows the chunk that it answers. */
  const moments = [
    ...report.chunks.map((chunk) => ({ tick: chunk.tick, order: 0, chunk, verdict: undefined })),
    ...report.verdicts.map((verdict) => ({ tick: verdict.tick, order: 1, chunk: undefined, verdict })),
  ].sort((a, b) => a.tick - b.tick || a.order - b.order);

  const state = {
    /** @type {Set<number>} */ lanes: new Set(report.lanes.map((lane) => lane.realm)),
    capability: "",
    search: "",
    deniedOnly: false,
    axis: "turn",
    /** @type {number | undefined} Index into `report.rows`. */ selected: undefined,
    moment: moments.length,
    from: 0,
    to: 1,
  };
  /** @type {number[]} Indexes of the rows that pass the filter. */
  let shown = [];
  /** @type {Map<number, number>} Line of each pending row in its lane. */
  const lines = pendingLines();

  /** @param {string} id */
  function byId(id) {
    const element = document.getElementById(id);
    if (!element) throw new Error(`the page has no element ${id}`);
    return element;
  }

  /**
   * @template {keyof HTMLElementTagNameMap} K
   * @param {K} tag
   * @param {string} [className]
   * @param {string} [text]
   */
  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  /** @param {number} us */
  function clock(us) {
    return us < 1e6 ? `${(us / 1e3).toFixed(1)} ms` : `${(us / 1e6).toFixed(3)} s`;
  }

  /** @param {number} number @param {string} noun */
  function count(number, noun) {
    return `${number} ${noun}${number === 1 ? "" : "s"}`;
  }

  /** @param {number} us Returns the number of turns that began before this time. */
  function turnAt(us) {
    let [low, high] = [0, turnStarts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((turnStarts[middle] ?? 0) <= us) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {Row} row @returns {[number, number]} */
  function extent(row) {
    if (state.axis === "time") return [row.from, row.to];
    if (row.kind === "act") return [row.tick + 0.8, row.tick + 0.95];
    if (row.kind === "pending" || row.kind === "model" || row.kind === "tool") return [row.tick, Math.max(row.tick + 0.5, turnAt(row.to))];
    return [row.tick, row.tick + 0.8];
  }

  function whole() {
    return state.axis === "time" ? Math.max(1, report.end) : report.ticks + 1;
  }

  function pendingLines() {
    const lines = new Map();
    /** @type {Map<number, number[]>} */
    const ends = new Map();
    report.rows.forEach((row, index) => {
      if (row.kind !== "pending" && row.kind !== "tool") return;
      const free = ends.get(row.lane) ?? [];
      let line = free.findIndex((end) => end <= row.from);
      if (line < 0) line = free.length < PENDING_LINES ? free.length : index % PENDING_LINES;
      free[line] = row.to;
      ends.set(row.lane, free);
      lines.set(index, line);
    });
    return lines;
  }

  // Facts and filters.

  function facts() {
    const denied = report.rows.filter((row) => row.denied).length;
    const parts = [
      `recorded ${new Date(report.started_ms).toISOString()} by pi ${report.pi}`,
      `policy ${report.policy}`,
      `${count(report.realms, "realm")}, ${count(report.ticks, "turn")}, ${clock(report.end)}`,
      `${count(report.verdicts.length, "verdict")}, ${count(denied, "denied call")}`,
    ];
    if (!report.complete) parts.push("the recording was cut off");
    if (!report.has_ledger) parts.push("decisions of the gate: none joined (--ledger FILE)");
    byId("facts").textContent = parts.join(" · ");
  }

  function filters() {
    for (const lane of report.lanes) {
      const label = make("label");
      const box = make("input");
      box.type = "checkbox";
      box.checked = true;
      box.addEventListener("change", () => {
        if (box.checked) state.lanes.add(lane.realm);
        else state.lanes.delete(lane.realm);
        refresh();
      });
      label.append(box, ` ${names.get(lane.realm)}`);
      byId("lanes").append(label);
    }
    const capabilities = new Set(report.rows.flatMap((row) => row.capability ?? []));
    for (const capability of [...capabilities].sort()) {
      const option = make("option", undefined, capability);
      option.value = capability;
      byId("capability").append(option);
    }
    listen("capability", "change", (value) => (state.capability = value));
    listen("search", "input", (value) => (state.search = value.toLowerCase()));
    listen("axis", "change", (value) => {
      state.axis = value;
      [state.from, state.to] = [0, whole()];
    });
    const denied = /** @type {HTMLInputElement} */ (byId("denied"));
    denied.addEventListener("change", () => {
      state.deniedOnly = denied.checked;
      refresh();
    });
  }

  /**
   * @param {string} id
   * @param {string} event
   * @param {(value: string) => void} take
   */
  function listen(id, event, take) {
    const input = /** @type {HTMLInputElement | HTMLSelectElement} */ (byId(id));
    input.addEventListener(event, () => {
      take(input.value);
      refresh();
    });
  }

  /** @param {Row} row */
  function passes(row) {
    return (
      state.lanes.has(row.lane) &&
      (!state.capability || row.capability === state.capability) &&
      (!state.deniedOnly || row.denied === true) &&
      (!state.search || text(row).includes(state.search))
    );
  }

  /** @type {Map<Row, string>} */
  const texts = new Map();
  /** @param {Row} row */
  function text(row) {
    let found = texts.get(row);
    if (found === undefined) {
      found = `${row.name} ${row.capability ?? ""} ${row.decision?.subject ?? ""} ${JSON.stringify(row.more)}`.toLowerCase();
      texts.set(row, found);
    }
    return found;
  }

  function refresh() {
    shown = [];
    report.rows.forEach((row, index) => {
      if (passes(row)) shown.push(index);
    });
    byId("count").textContent = `${shown.length} of ${report.rows.length}`;
    byId("space").style.height = `${shown.length * ROW}px`;
    drawList();
    drawTimeline();
  }

  // The streamed text.

  function drawReplies() {
    const into = byId("attempts");
    into.replaceChildren();
    /** @type {Map<number, { box: HTMLElement, parts: Map<string, { element: HTMLElement, text: string[] }> }>} */
    const attempts = new Map();
    for (const { chunk, verdict } of moments.slice(0, state.moment)) {
      const number = chunk?.attempt ?? verdict?.attempt ?? 0;
      let attempt = attempts.get(number);
      if (!attempt) {
        const box = make("div", "attempt");
        box.append(make("h3", undefined, `reply ${attempts.size + 1}`));
        into.append(box);
        attempt = { box, parts: new Map() };
        attempts.set(number, attempt);
      }
      if (chunk) {
        const key = `${chunk.source} ${chunk.stream}`;
        let part = attempt.parts.get(key);
        if (!part) {
          if (chunk.source !== "text") {
            attempt.box.append(make("h3", undefined, chunk.source === "tool" ? `arguments of ${chunk.tool ?? "a tool"}` : "thinking"));
          }
          part = { element: make("p", `said ${chunk.source}`), text: [] };
          attempt.box.append(part.element);
          attempt.parts.set(key, part);
        }
        part.text.push(chunk.text);
      } else if (verdict) {
        attempt.box.classList.add("discarded");
        const then = verdict.retry === null ? "the run ended" : `retried with this ${verdict.role} message:\n${verdict.retry}`;
        into.append(make("p", "verdict", `discarded in turn ${verdict.tick} by ${names.get(verdict.lane)}; ${then}`));
      }
    }
    for (const { parts } of attempts.values()) {
      for (const part of parts.values()) part.element.textContent = part.text.join("");
    }
    if (moments.length === 0) into.append(make("p", undefined, "The tape has no reply."));
    into.scrollTop = into.scrollHeight;
    const last = moments[state.moment - 1];
    byId("moment-text").textContent = last ? `${state.moment} of ${moments.length}, turn ${last.tick}` : `0 of ${moments.length}`;
  }

  function slider() {
    const input = /** @type {HTMLInputElement} */ (byId("moment"));
    input.max = String(moments.length);
    input.value = String(moments.length);
    input.addEventListener("input", () => moveTo(Number(input.value)));
    const next = /** @type {HTMLButtonElement} */ (byId("next-verdict"));
    next.disabled = report.verdicts.length === 0;
    next.addEventListener("click", () => {
      const after = moments.findIndex((moment, index) => index >= state.moment && moment.verdict);
      moveTo((after < 0 ? moments.findIndex((moment) => moment.verdict) : after) + 1);
    });
  }

  /** @param {number} moment */
  function moveTo(moment) {
    state.moment = moment;
    /** @type {HTMLInputElement} */ (byId("moment")).value = String(moment);
    drawReplies();
    drawTimeline();
  }

  // The timeline.

  const canvas = /** @type {HTMLCanvasElement} */ (byId("timeline"));

  function visibleLanes() {
    return report.lanes.filter((lane) => state.lanes.has(lane.realm));
  }

  /** @returns {(value: number) => number} Returns the function that maps a value of the axis to the canvas. */
  function scale() {
    const width = canvas.clientWidth;
    return (value) => ((value - state.from) / (state.to - state.from)) * width;
  }

  /** @param {Row} row @param {number} index @returns {[number, number]} Top and height in its lane. */
  function vertical(row, index) {
    if (row.kind === "turn" || row.kind === "model") return [LABEL, 14];
    if (row.kind === "act") return [LABEL, 32];
    if (row.kind === "call") return [LABEL + 3, 8];
    return [LABEL + 18 + (lines.get(index) ?? 0) * 9, 7];
  }

  function drawTimeline() {
    const lanes = visibleLanes();
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, Math.max(1, lanes.length) * LANE];
    canvas.style.height = `${height}px`;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const paint = canvas.getContext("2d");
    if (!paint) return;
    paint.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    paint.font = "12px system-ui, sans-serif";
    const tops = new Map(lanes.map((lane, index) => [lane.realm, index * LANE]));
    for (const lane of lanes) {
      const top = tops.get(lane.realm) ?? 0;
      paint.fillStyle = colour("line");
      paint.fillRect(0, top, width, 1);
      paint.fillStyle = colour("soft");
      paint.fillText(names.get(lane.realm) ?? "", 4, top + 13, width - 8);
    }
    const place = scale();
    for (const index of shown) {
      const row = report.rows[index];
      const top = row && tops.get(row.lane);
      if (!row || top === undefined) continue;
      const [from, to] = extent(row);
      if (to < state.from || from > state.to) continue;
      const [offset, high] = vertical(row, index);
      paint.fillStyle = colour(row.denied || row.failed ? "bad" : row.kind);
      paint.fillRect(place(from), top + offset, Math.max(1.5, place(to) - place(from)), high);
      if (index === state.selected) {
        paint.strokeStyle = colour("focus");
        paint.lineWidth = 2;
        paint.strokeRect(place(from) - 2, top + offset - 2, Math.max(1.5, place(to) - place(from)) + 4, high + 4);
      }
    }
    for (const verdict of report.verdicts) {
      const top = tops.get(verdict.lane);
      if (top === undefined) continue;
      paint.fillStyle = colour("mark");
      paint.fillRect(place(state.axis === "time" ? verdict.at : verdict.tick), top + LABEL - 3, 3, 20);
    }
    const now = moments[state.moment - 1];
    if (now) {
      const at = state.axis === "time" ? (now.chunk ?? now.verdict)?.at ?? 0 : now.tick;
      paint.fillStyle = colour("focus");
      paint.fillRect(place(at), 0, 1, height);
    }
  }

  /** @param {number} factor @param {number} [at] Zooms around a value of the axis. */
  function zoom(factor, at = (state.from + state.to) / 2) {
    const span = Math.min(whole(), Math.max(whole() / MOST_ZOOM, (state.to - state.from) * factor));
    const share = (at - state.from) / (state.to - state.from);
    view(at - span * share, span);
  }

  /** @param {number} from @param {number} span */
  function view(from, span) {
    state.from = Math.max(0, Math.min(whole() - span, from));
    state.to = state.from + span;
    drawTimeline();
  }

  function timeline() {
    canvas.addEventListener("keydown", (event) => {
      const span = state.to - state.from;
      if (event.key === "ArrowLeft") view(state.from - span / 8, span);
      else if (event.key === "ArrowRight") view(state.from + span / 8, span);
      else if (event.key === "+" || event.key === "=") zoom(0.6);
      else if (event.key === "-") zoom(1 / 0.6);
      else if (event.key === "0") view(0, whole());
      else if (event.key === "Enter") {
        const first = shown.find((index) => {
          const row = report.rows[index];
          return row && extent(row)[0] >= state.from;
        });
        if (first !== undefined) select(first, true);
      } else return;
      event.preventDefault();
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const at = state.from + ((state.to - state.from) * event.offsetX) / canvas.clientWidth;
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at);
    });
    canvas.addEventListener("click", (event) => {
      const found = hit(event.offsetX, event.offsetY);
      if (found !== undefined) select(found, true);
    });
    new ResizeObserver(() => drawTimeline()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawTimeline());
  }

  /** @param {number} x @param {number} y Returns the topmost row that is drawn at this position. */
  function hit(x, y) {
    const lanes = visibleLanes();
    const lane = lanes[Math.floor(y / LANE)];
    const place = scale();
    return shown.findLast((index) => {
      const row = report.rows[index];
      if (!row || row.lane !== lane?.realm) return false;
      const [from, to] = extent(row);
      const [offset, high] = vertical(row, index);
      const inLane = y % LANE;
      return x >= place(from) - 3 && x <= Math.max(place(to), place(from) + 3) && inLane >= offset - 2 && inLane <= offset + high + 2;
    });
  }

  // The list, in which only visible rows are elements.

  const list = byId("list");

  function drawList() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
    const last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 10);
    const rows = [];
    for (let at = first; at < last; at++) {
      const index = shown[at] ?? 0;
      const row = report.rows[index];
      if (row) rows.push(option(row, index, at));
    }
    byId("space").replaceChildren(...rows);
    if (state.selected === undefined) list.removeAttribute("aria-activedescendant");
    else list.setAttribute("aria-activedescendant", `row-${state.selected}`);
  }

  /** @param {Row} row @param {number} index @param {number} at */
  function option(row, index, at) {
    const element = make("div", row.failed ? "row failed" : "row");
    element.id = `row-${index}`;
    element.setAttribute("role", "option");
    element.setAttribute("aria-posinset", String(at + 1));
    element.setAttribute("aria-setsize", String(shown.length));
    element.setAttribute("aria-selected", String(index === state.selected));
    element.style.top = `${at * ROW}px`;
    const label = row.kind === "turn" ? row.name : `${row.name}${row.capability ? ` (${row.capability})` : ""}`;
    element.append(
      make("span", "at", `${row.tick} · ${clock(row.from)}`),
      make("span", "name", `${row.denied ? "denied: " : ""}${label}`),
      make("span", "who", names.get(row.lane)),
    );
    element.addEventListener("click", () => select(index, false));
    return element;
  }

  function keys() {
    list.addEventListener("scroll", () => drawList());
    list.addEventListener("keydown", (event) => {
      const at = state.selected === undefined ? -1 : shown.indexOf(state.selected);
      const page = Math.floor(list.clientHeight / ROW);
      const steps = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: shown.length - 1 };
      const to = steps[/** @type {keyof typeof steps} */ (event.key)];
      if (to === undefined || shown.length === 0) return;
      event.preventDefault();
      select(shown[Math.max(0, Math.min(shown.length - 1, to))] ?? 0, true);
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !(event.target instanceof HTMLInputElement)) {
        event.preventDefault();
        byId("search").focus();
      }
    });
  }

  /** @param {number} index @param {boolean} reveal */
  function select(index, reveal) {
    state.selected = index;
    const at = shown.indexOf(index);
    if (reveal && (at * ROW < list.scrollTop || (at + 1) * ROW > list.scrollTop + list.clientHeight)) {
      list.scrollTop = at * ROW - list.clientHeight / 2;
    }
    const row = report.rows[index];
    if (row) details(row);
    drawList();
    drawTimeline();
  }

  /** @param {Row} row */
  function details(row) {
    const table = make("dl");
    const add = (/** @type {string} */ name, /** @type {unknown} */ value) => {
      if (value === undefined || value === null) return;
      const shown = typeof value === "string" ? value : JSON.stringify(value, null, 2);
      table.append(make("dt", undefined, name), make("dd", undefined, shown));
    };
    add("event", row.name);
    add("kind", row.kind);
    add("extension", names.get(row.lane));
    add("turn", row.tick);
    add("begins", clock(row.from));
    add("takes", row.kind === "turn" || row.kind === "act" ? undefined : clock(row.to - row.from));
    add("capability", row.capability);
    if (row.decision) {
      add("gate", `${row.decision.allowed ? "allowed" : "denied"} by ${row.decision.rule}`);
      add("subject", row.decision.subject);
    }
    for (const [name, value] of Object.entries(row.more)) add(name, value);
    byId("details").replaceChildren(table);
  }

  facts();
  filters();
  slider();
  timeline();
  keys();
  state.to = whole();
  refresh();
  drawReplies();
})();
