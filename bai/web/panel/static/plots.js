// @ts-check
// Plots: how a cluster went over time, and what a session uses while somebody looks. Data becomes text and
// lines, never HTML.
(() => {
  "use strict";

  const UPlot = /** @type {any} */ (window).uPlot;
  /** Lines that lie on each other are both seen, also by who sees no colours. */
  const DASHES = [[], [8, 4], [2, 3], [8, 3, 2, 3], [2, 3], [], [8, 4], []];
  const LINES = DASHES.length;
  const REFRESH = 60000;
  const LOOK = 5000;
  const KEPT = 400;
  const HEIGHT = 190;

  /**
   * @param {string} tag
   * @param {Record<string, string>} [attributes]
   * @param {string} [text]
   * @returns {HTMLElement}
   */
  function element(tag, attributes = {}, text = "") {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  }

  /** @typedef {{label: string, values: (number | null)[]}} Line */
  /** @typedef {"%" | "s" | "B" | "cores" | ""} Unit */

  // --- Words

  /** @type {[number, string][]} */
  const TIMES = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

  /** @param {number} value */
  const short = (value) => String(Math.round(value * 10) / 10);

  /**
   * @param {number | null | undefined} value
   * @param {Unit} unit
   * @returns {string}
   */
  function words(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "%") return `${short(value)} %`;
    if (unit === "s") {
      const [length, name] = TIMES.find(([each]) => Math.abs(value) >= each) ?? [1, "s"];
      return `${short(value / length)} ${name}`;
    }
    if (unit === "B") {
      const power = value > 0 ? Math.min(Math.floor(Math.log2(value) / 10), SIZES.length - 1) : 0;
      return `${short(value / 1024 ** power)} ${SIZES[power]}`;
    }
    return unit === "cores" ? String(Math.round(value * 100) / 100) : short(value);
  }

  const ROUND = [1, 2, 5].flatMap((digit) => Array.from({ length: 13 }, (_, power) => digit * 10 ** power)).sort((a, b) => a - b);
  /** @type {Record<Unit, number[]>} */
  const STEPS = {
    "": ROUND,
    "%": ROUND,
    cores: [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, ...ROUND],
    s: [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, ...ROUND.map((days) => days * 86400)],
    B: Array.from({ length: 52 }, (_, power) => 2 ** power),
  };

  /**
   * @param {number} seconds
   * @param {number} step
   */
  function clock(seconds, step) {
    const at = new Date(seconds * 1000);
    const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
    const day = `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
    if (step >= 86400) return day;
    return step < 60 ? `${time}:${two(at.getSeconds())}` : time;
  }

  // --- Colours: what the style sheet says now, light or dark

  /** @type {Record<string, string>} */
  let colours = {};

  function readColours() {
    const probe = element("span", { class: "plot-probe", hidden: "" });
    document.body.append(probe);
    colours = {};
    for (const name of ["text", "grid", ...DASHES.map((_, at) => `line-${at}`)]) {
      probe.className = `plot-probe plot-${name}`;
      colours[name] = getComputedStyle(probe).color;
    }
    probe.remove();
  }

  // --- One picture

  class Picture {
    /**
     * @param {HTMLElement} place
     * @param {Unit} unit
     */
    constructor(place, unit) {
      this.place = place;
      this.unit = unit;
      /** @type {any} */
      this.plot = null;
      this.labels = "";
      /** @type {any[]} */
      this.data = [];
      this.sized = new ResizeObserver(() => {
        if (!this.plot) this.build();
        else if (this.width() > 0) this.plot.setSize({ width: this.width(), height: HEIGHT });
      });
      this.sized.observe(place);
    }

    width() {
      return Math.floor(this.place.clientWidth);
    }

    /**
     * @param {number[]} times
     * @param {Line[]} lines
     */
    show(times, lines) {
      const labels = JSON.stringify(lines.map((line) => line.label));
      this.data = [times, ...lines.slice(0, LINES).map((line) => line.values)];
      if (this.plot && labels === this.labels) {
        this.plot.setData(this.data);
        return;
      }
      this.labels = labels;
      this.lines = lines.slice(0, LINES);
      this.build();
    }

    /** Anew: for other lines, or in other colours. */
    build() {
      this.plot?.destroy();
      this.plot = null;
      if (!this.lines?.length || this.width() <= 0) return;
      const axis = { stroke: colours.text, grid: { stroke: colours.grid, width: 1 }, ticks: { stroke: colours.grid, width: 1 }, font: "11px system-ui, sans-serif" };
      const series = this.lines.map((line, at) => ({
        label: line.label,
        stroke: colours[`line-${at}`],
        width: 1.75,
        dash: DASHES[at],
        points: { size: 4 },
        value: (/** @type {any} */ _, /** @type {number | null} */ value, /** @type {number} */ ___, /** @type {number | null} */ index) =>
          words(index === null ? this.last(at + 1) : value, this.unit),
      }));
      const options = {
        width: this.width(),
        height: HEIGHT,
        cursor: { drag: { x: true, y: false }, points: { size: 6 } },
        scales: { y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, this.top(most)] } },
        axes: [
          { ...axis, size: 34, values: (/** @type {any} */ _, /** @type {number[]} */ all, /** @type {any} */ __, /** @type {any} */ ___, /** @type {number} */ step) => all.map((each) => clock(each, step)) },
          { ...axis, size: 64, incrs: STEPS[this.unit], values: (/** @type {any} */ _, /** @type {number[]} */ all) => all.map((each) => words(each, this.unit)) },
        ],
        series: [{ label: "at", value: (/** @type {any} */ _, /** @type {number | null} */ at) => (at ? `${clock(at, 86400)} ${clock(at, 60)}` : "latest") }, ...series],
      };
      this.plot = new UPlot(options, this.data, this.place);
    }

    /** @param {number} at */
    last(at) {
      return this.data[at]?.findLast((/** @type {number | null} */ value) => value !== null);
    }

    /** @param {number} most */
    top(most) {
      if (this.unit === "%") return Math.max(100, most);
      return most > 0 ? most * 1.1 : 1;
    }
  }

  /** @type {Set<Picture>} */
  const pictures = new Set();

  /**
   * @param {HTMLElement} place
   * @param {Unit} unit
   */
  function picture(place, unit) {
    const made = new Picture(place, unit);
    pictures.add(made);
    return made;
  }

  function recolour() {
    readColours();
    for (const each of pictures) {
      if (each.place.isConnected) each.build();
      else pictures.delete(each);
    }
  }

  // --- Over time

  /** @type {WeakMap<Element, Picture>} */
  const drawn = new WeakMap();

  /** @param {HTMLElement} all */
  async function drawPlots(all) {
    const answer = await fetch(all.dataset.plots ?? "");
    if (!answer.ok) return;
    /** @type {{times: number[], plots: Record<string, {unit: Unit, lines: Line[]}>}} */
    const { times, plots } = await answer.json();
    for (const place of /** @type {HTMLElement[]} */ (Array.from(all.querySelectorAll("[data-plot]")))) {
      const found = plots[place.dataset.plot ?? ""];
      if (!found) continue;
      let made = drawn.get(place);
      if (!made) {
        made = picture(place, found.unit);
        drawn.set(place, made);
        place.classList.add("drawn");
        const table = place.parentElement?.querySelector("details");
        if (table) table.open = false;
      }
      made.show(times, found.lines);
    }
  }

  // --- A session now

  /** @typedef {{name: string, node: string, at: number, cpu: number | null, cores: number | null, memory: number | null, limit: number | null, gpus: {name: string, busy: number | null, memory: number | null}[]}} Kernel */
  /** @type {[string, string, Unit][]} */
  const LOOKS = [["cpu", "Cores in use", "cores"], ["memory", "Memory", "B"], ["busy", "GPUs busy", "%"], ["gpuMemory", "Memory of GPUs", "B"]];

  class Use {
    /** @param {HTMLElement} place */
    constructor(place) {
      this.place = place;
      /** @type {number[]} */
      this.times = [];
      /** @type {Map<string, Map<string, (number | null)[]>>} */
      this.history = new Map(LOOKS.map(([key]) => [key, new Map()]));
      /** @type {Map<string, Kernel>} */
      this.before = new Map();
      this.state = element("p", { class: "hint", role: "status" }, "asking");
      this.plots = element("div", { class: "plots" });
      this.body = element("tbody");
      /** @type {Map<string, [HTMLElement, Picture]>} */
      this.pictures = new Map();
      const table = element("table");
      table.append(element("caption", { class: "hidden" }, "Use now"), this.head(), this.body);
      this.table = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Use now", hidden: "" });
      this.table.append(table);
      place.replaceChildren(this.state, this.plots, this.table);
    }

    head() {
      const row = element("tr");
      for (const [name, kind] of [["container", ""], ["node", ""], ["cores", "amount"], ["memory", "amount"], ["GPU", ""], ["busy", "amount"], ["its memory", "amount"]]) {
        row.append(element("th", kind ? { scope: "col", class: kind } : { scope: "col" }, name));
      }
      const head = element("thead");
      head.append(row);
      return head;
    }

    /** Asks as long as the page has a place for it, and only while it is seen. */
    async run() {
      while (this.place.isConnected) {
        if (!document.hidden) await this.look();
        await new Promise((resolve) => setTimeout(resolve, LOOK));
      }
    }

    async look() {
      try {
        const answer = await fetch(this.place.dataset.use ?? "");
        if (!answer.ok) throw new Error(String(answer.status));
        /** @type {{why: string, kernels: Kernel[], total: number}} */
        const found = await answer.json();
        const more = found.total - found.kernels.length;
        this.say(found.why || (more > 0 ? `and ${more} more containers` : ""));
        this.add(found.kernels);
      } catch {
        this.say("no contact");
      }
    }

    /** @param {string} text */
    say(text) {
      if (this.state.textContent !== text) this.state.textContent = text;
      this.state.hidden = !text;
    }

    /** @param {Kernel[]} kernels */
    add(kernels) {
      const newest = Math.max(0, ...kernels.map((kernel) => kernel.at));
      if (!kernels.length || newest <= (this.times.at(-1) ?? 0)) return;
      this.times.push(newest);
      /** @type {Map<string, number | null>} */
      const cores = new Map(kernels.map((kernel) => [kernel.name, this.rate(kernel)]));
      for (const kernel of kernels) {
        const several = kernels.length > 1 ? `${kernel.name} ` : "";
        this.note("cpu", kernel.name, cores.get(kernel.name) ?? null);
        this.note("memory", kernel.name, kernel.memory);
        for (const gpu of kernel.gpus) {
          this.note("busy", several + gpu.name, gpu.busy);
          this.note("gpuMemory", several + gpu.name, gpu.memory);
        }
        this.before.set(kernel.name, kernel);
      }
      this.trim();
      this.draw();
      this.list(kernels, cores);
    }

    /**
     * Cores between the last two looks: what counts in seconds is a rate.
     * @param {Kernel} kernel
     */
    rate(kernel) {
      const last = this.before.get(kernel.name);
      if (!last || last.cpu === null || kernel.cpu === null || kernel.at <= last.at) return null;
      return Math.max(0, kernel.cpu - last.cpu) / (kernel.at - last.at);
    }

    /**
     * @param {string} key
     * @param {string} label
     * @param {number | null} value
     */
    note(key, label, value) {
      const lines = /** @type {Map<string, (number | null)[]>} */ (this.history.get(key));
      const values = lines.get(label) ?? [];
      while (values.length < this.times.length - 1) values.push(null);
      values.push(value);
      lines.set(label, values);
    }

    trim() {
      const many = this.times.length - KEPT;
      if (many > 0) this.times.splice(0, many);
      for (const lines of this.history.values()) {
        for (const [label, values] of lines) {
          while (values.length < this.times.length + Math.max(0, many)) values.push(null);
          if (many > 0) values.splice(0, many);
          if (values.every((value) => value === null) && this.times.length > 1) lines.delete(label);
        }
      }
    }

    draw() {
      for (const [key, title, unit] of LOOKS) {
        const lines = Array.from(this.history.get(key) ?? [], ([label, values]) => ({ label, values }));
        if (!lines.some((line) => line.values.some((value) => value !== null))) continue;
        let [place, made] = this.pictures.get(key) ?? [];
        if (!place || !made) {
          const box = element("section", { class: "plot-box" });
          box.style.order = String(LOOKS.findIndex((each) => each[0] === key));
          place = element("div", { class: "plot drawn", role: "img", "data-look": key });
          box.append(element("h3", {}, title), place);
          this.plots.append(box);
          made = picture(place, unit);
          this.pictures.set(key, [place, made]);
        }
        place.setAttribute("aria-label", `${title}: ${lines.slice(0, LINES).map((line) => `${line.label} ${words(line.values.at(-1), unit)}`).join(", ")}`);
        made.show(this.times.slice(), lines.slice(0, LINES).map((line) => ({ label: line.label, values: line.values.slice() })));
      }
    }

    /**
     * @param {Kernel[]} kernels
     * @param {Map<string, number | null>} cores
     */
    list(kernels, cores) {
      const rows = kernels.flatMap((kernel) => {
        const own = [kernel.name, kernel.node, this.part(cores.get(kernel.name), kernel.cores, "cores"), this.part(kernel.memory, kernel.limit, "B")];
        if (!kernel.gpus.length) return [[...own, "", "", ""]];
        return kernel.gpus.map((gpu, at) => [...(at ? ["", "", "", ""] : own), gpu.name, words(gpu.busy, "%"), words(gpu.memory, "B")]);
      });
      this.body.replaceChildren(...rows.map((cells) => {
        const row = element("tr");
        row.append(...cells.map((text, at) => element("td", [2, 3, 5, 6].includes(at) ? { class: "amount" } : {}, text)));
        return row;
      }));
      this.table.hidden = false;
    }

    /**
     * @param {number | null | undefined} used
     * @param {number | null} given
     * @param {Unit} unit
     */
    part(used, given, unit) {
      return given ? `${words(used, unit)} of ${words(given, unit)}` : words(used, unit);
    }
  }

  // --- Pages

  /** After a page came, and after news. */
  function dress() {
    for (const place of /** @type {HTMLElement[]} */ (Array.from(document.querySelectorAll("[data-use]:not([data-asked])")))) {
      place.dataset.asked = "";
      new Use(place).run();
    }
    for (const all of /** @type {HTMLElement[]} */ (Array.from(document.querySelectorAll("[data-plots]")))) {
      drawPlots(all).catch(() => {});
    }
  }

  function refresh() {
    if (!document.hidden) dress();
  }

  readColours();
  new MutationObserver(recolour).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  document.addEventListener("htmx:afterSwap", refresh);
  document.addEventListener("visibilitychange", refresh);
  setInterval(refresh, REFRESH);
  dress();
})();
