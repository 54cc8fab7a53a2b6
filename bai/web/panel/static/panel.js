// @ts-check
// What pages do by themselves: themes, keys, times, news, logs. Data becomes text, never HTML.
(() => {
  "use strict";

  const htmx = /** @type {any} */ (window).htmx;
  const idiomorph = /** @type {any} */ (window).Idiomorph;

  /**
   * @param {string} selector
   * @param {ParentNode} [within]
   * @returns {HTMLElement[]}
   */
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));

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

  const LONGEST_WAIT = 30000;

  // --- Theme

  const THEMES = ["system", "light", "dark"];
  const theme = () => document.documentElement.dataset.theme ?? "system";

  /** @param {HTMLElement} button */
  function nameTheme(button) {
    const words = theme() === "system" ? "as the system" : theme();
    button.title = button.ariaLabel = `Theme: ${words}`;
  }

  /** @param {HTMLElement} button */
  function switchTheme(button) {
    const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
    if (next === "system") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem("bai-theme");
    } else {
      document.documentElement.dataset.theme = next;
      localStorage.setItem("bai-theme", next);
    }
    nameTheme(button);
  }

  // --- Times

  /** @type {[number, string][]} */
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

  /**
   * How long ago, or in how long, in one unit.
   * @param {number} seconds
   * @returns {string}
   */
  function relative(seconds) {
    const size = Math.abs(seconds);
    if (size < 5) return "now";
    const [unit, name] = UNITS.find(([length]) => size >= length) ?? [1, "s"];
    const words = `${Math.floor(size / unit)} ${name}`;
    return seconds > 0 ? `${words} ago` : `in ${words}`;
  }

  // The clock of a simulation goes on at its own pace from what it was when the page came.
  const came = Date.now();
  const { now: simulated, pace } = document.body.dataset;
  const now = () => (simulated === undefined ? Date.now() : Number(simulated) + (Date.now() - came) * Number(pace));

  function showTimes() {
    for (const each of /** @type {HTMLTimeElement[]} */ (all("time[datetime]"))) {
      const at = Date.parse(each.dateTime);
      if (Number.isNaN(at)) continue;
      const words = relative((now() - at) / 1000);
      if (each.textContent !== words) each.textContent = words;
      if (!each.title) each.title = `${new Date(at).toLocaleString()} (${each.dateTime})`;
    }
  }

  // --- Copying

  function offerCopies() {
    if (!navigator.clipboard) return;
    for (const code of all("pre.code")) {
      if (code.parentElement?.classList.contains("codebox")) continue;
      const box = element("div", { class: "codebox" });
      const button = element("button", { type: "button", class: "button small copy" }, "Copy");
      code.replaceWith(box);
      box.append(code, button);
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(code.textContent ?? "");
        button.textContent = "Copied";
        setTimeout(() => (button.textContent = "Copy"), 1500);
      });
    }
  }

  // --- Keys

  /** @param {EventTarget | null} target */
  const takesText = (target) =>
    target instanceof HTMLElement &&
    (target.isContentEditable || target.matches("input, select, textarea, [data-keys]"));

  const help = () => /** @type {HTMLDialogElement | null} */ (document.getElementById("help"));

  /**
   * The focus goes to the first link of the next row.
   * @param {number} step
   */
  function moveRow(step) {
    const links = all("main tbody tr").flatMap((row) => row.querySelector("a") ?? []);
    const row = document.activeElement?.closest("tr");
    const at = links.findIndex((link) => link.closest("tr") === row);
    const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step;
    links[next]?.focus();
    links[next]?.scrollIntoView({ block: "nearest" });
  }

  /** @type {Record<string, () => void>} */
  const ACTIONS = {
    "/": () => document.getElementById("search")?.focus(),
    "?": () => help()?.showModal(),
    j: () => moveRow(1),
    k: () => moveRow(-1),
  };
  let waitsForPage = 0;

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    if (event.key === "Escape") {
      all("details.menu[open]").forEach((menu) => menu.removeAttribute("open"));
      if (takesText(event.target)) /** @type {HTMLElement} */ (event.target).blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || takesText(event.target) || help()?.open) return;
    if (Date.now() < waitsForPage) {
      waitsForPage = 0;
      const link = all("nav a[data-key]").find((each) => each.dataset.key === event.key);
      if (link) {
        event.preventDefault();
        link.click();
        return;
      }
    }
    if (event.key === "g") waitsForPage = Date.now() + 1500;
    const action = ACTIONS[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  }

  // --- News: the stream says that something changed, and the page asks for itself again

  /** @type {EventSource | null} */
  let stream = null;
  let retryAfter = 1000;

  /**
   * @param {string} state
   * @param {string} words
   */
  function showContact(state, words) {
    const place = document.getElementById("live");
    if (!place || place.dataset.state === state) return;
    place.dataset.state = state;
    place.textContent = words;
  }

  const ask = () => htmx.trigger("#live", "news");

  /**
   * A tab that nobody sees has no stream: browsers allow few connections to a server.
   * @param {string} address
   * @param {boolean} isAgain
   */
  function listen(address, isAgain) {
    stream?.close();
    stream = document.hidden ? null : new EventSource(address);
    if (!stream) return;
    stream.addEventListener("changed", ask);
    stream.addEventListener("open", () => {
      showContact("live", "live");
      if (isAgain) ask();
      isAgain = true;
      retryAfter = 1000;
    });
    stream.addEventListener("error", (event) => {
      showContact("lost", "no contact");
      if (event.target !== stream || stream?.readyState !== EventSource.CLOSED) return;
      setTimeout(() => listen(address, true), retryAfter);
      retryAfter = Math.min(retryAfter * 2, LONGEST_WAIT);
    });
  }

  function hearNews() {
    const address = document.getElementById("live")?.dataset.live;
    if (!address) return;
    listen(address, false);
    document.addEventListener("visibilitychange", () => listen(address, true));
    document.addEventListener("htmx:beforeSwap", (event) => {
      if (event.target !== document.getElementById("main")) return;
      const { xhr } = /** @type {CustomEvent} */ (event).detail;
      const came = new URL(xhr.responseURL || location.href).pathname;
      if (came === location.pathname && xhr.status !== 401) return;
      event.preventDefault();
      location.reload();
    });
  }

  /** What a visitor did to a page stays when news comes. */
  function keepWhatIsOpen() {
    const { callbacks } = idiomorph.defaults;
    idiomorph.defaults.ignoreActiveValue = true;
    callbacks.beforeNodeMorphed = (/** @type {Node} */ old, /** @type {Node} */ fresh) => {
      if (!(old instanceof HTMLElement) || !(fresh instanceof HTMLElement)) return true;
      if (old instanceof HTMLTimeElement) return old.dateTime !== /** @type {HTMLTimeElement} */ (fresh).dateTime;
      const kept = old.dataset.follow ?? old.dataset.keep;
      return kept === undefined || kept !== (fresh.dataset.follow ?? fresh.dataset.keep);
    };
    callbacks.beforeAttributeUpdated = (/** @type {string} */ name, /** @type {Element} */ old) => {
      if (name === "open") return !old.matches("details, dialog");
      if (name === "value" && old instanceof HTMLInputElement) return old.value === old.defaultValue;
      return !(name === "title" && old instanceof HTMLTimeElement);
    };
  }

  // --- Logs

  const MOST_LINES = 20000;
  const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)/g;
  const UNSAFE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

  /**
   * A line as a terminal would leave it, other control characters visible.
   * @param {string} line
   * @returns {string}
   */
  function readable(line) {
    const plain = line.replace(ESCAPES, "").replace(/\r+$/, "");
    return plain
      .slice(plain.lastIndexOf("\r") + 1)
      .replace(UNSAFE, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
  }

  class Log {
    /** @param {HTMLElement} place */
    constructor(place) {
      this.place = place;
      this.lines = element("pre", { class: "log-lines", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Log" });
      this.state = element("span", { class: "state", role: "status" });
      this.count = element("span", { "aria-live": "polite" });
      this.query = /** @type {HTMLInputElement} */ (
        element("input", { type: "search", placeholder: "Find in the log", "aria-label": "Find in the log" })
      );
      this.follows = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox" }));
      /** @type {HTMLElement[]} */
      this.hits = [];
      this.at = -1;
      this.rest = "";
      this.wait = 1000;
      this.build();
    }

    build() {
      const label = element("label");
      label.append(this.follows, "follow");
      this.follows.checked = true;
      const bar = element("div", { class: "log-bar" });
      bar.append(this.query, this.stepButton("↑", "Previous match", -1), this.stepButton("↓", "Next match", 1));
      bar.append(this.count, label, this.state);
      this.place.classList.add("log");
      this.place.replaceChildren(bar, this.lines);
      let typed = 0;
      this.query.addEventListener("input", () => {
        clearTimeout(typed);
        typed = window.setTimeout(() => this.find(), 200);
      });
      this.query.addEventListener("keydown", (event) => {
        if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
      });
      this.follows.addEventListener("change", () => this.toEnd());
      this.lines.addEventListener("scroll", () => {
        const { scrollHeight, scrollTop, clientHeight } = this.lines;
        this.follows.checked = scrollHeight - scrollTop - clientHeight < 24;
      });
    }

    /**
     * @param {string} text
     * @param {string} label
     * @param {number} by
     */
    stepButton(text, label, by) {
      const button = element("button", { type: "button", class: "button small", "aria-label": label }, text);
      button.addEventListener("click", () => this.step(by));
      return button;
    }

    /** Reads until the log has ended or the page has no place for it any more. */
    async run() {
      while (this.place.isConnected) {
        try {
          await this.read();
          this.state.textContent = "the log has ended";
          return;
        } catch (error) {
          this.state.textContent = `no contact, again in ${Math.round(this.wait / 1000)} s`;
        }
        await new Promise((resolve) => setTimeout(resolve, this.wait));
        this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
      }
    }

    /** One answer; what was shown before is replaced by its beginning. */
    async read() {
      const stop = new AbortController();
      const answer = await fetch(this.place.dataset.follow ?? "", { signal: stop.signal });
      if (!answer.ok || !answer.body) {
        if (answer.status === 401) location.reload();
        throw new Error(String(answer.status));
      }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      this.state.textContent = "live";
      this.lines.replaceChildren();
      this.rest = "";
      this.find();
      for (;;) {
        const { done, value } = await reader.read();
        if (!this.place.isConnected) stop.abort();
        if (done) break;
        this.wait = 1000;
        this.add(value);
      }
      if (this.rest) this.add("\n");
    }

    /** @param {string} text */
    add(text) {
      const parts = (this.rest + text).split("\n");
      this.rest = (parts.pop() ?? "").slice(-65536);
      const fresh = parts.slice(-MOST_LINES).map((line) => element("span", {}, readable(line)));
      this.lines.append(...fresh);
      const tooMany = this.lines.childElementCount - MOST_LINES;
      for (let left = tooMany; left > 0; left -= 1) this.lines.firstElementChild?.remove();
      if (this.query.value) this.mark(fresh);
      this.toEnd();
    }

    toEnd() {
      if (this.follows.checked) this.lines.scrollTop = this.lines.scrollHeight;
    }

    find() {
      for (const hit of this.hits) hit.classList.remove("hit", "now");
      this.hits = [];
      this.at = -1;
      this.mark(/** @type {HTMLElement[]} */ (Array.from(this.lines.children)));
      if (this.hits.length) this.step(-1);
    }

    /** @param {HTMLElement[]} lines */
    mark(lines) {
      const wanted = this.query.value.toLowerCase();
      const shown = this.hits.filter((hit) => hit.isConnected);
      this.at = shown.indexOf(this.hits[this.at]);
      const found = lines.filter((line) => wanted && line.textContent?.toLowerCase().includes(wanted));
      for (const line of found) line.classList.add("hit");
      this.hits = shown.concat(found);
      this.tell();
    }

    /** @param {number} by */
    step(by) {
      if (!this.hits.length) return;
      this.hits[this.at]?.classList.remove("now");
      const count = this.hits.length;
      this.at = this.at < 0 ? (by > 0 ? 0 : count - 1) : (this.at + by + count) % count;
      this.follows.checked = false;
      this.hits[this.at].classList.add("now");
      this.lines.scrollTop = this.hits[this.at].offsetTop - this.lines.clientHeight / 2;
      this.tell();
    }

    tell() {
      const total = this.hits.length;
      this.count.textContent = !this.query.value ? "" : total ? `${this.at + 1} of ${total}` : "none";
    }
  }

  // --- Pages

  /** After a page came, and after news. */
  function dress() {
    showTimes();
    offerCopies();
    for (const place of all("[data-follow]:not(.log)")) new Log(place).run();
  }

  /** An answer to what a form had before would take away what is typed now. */
  function keepWhatIsTyped() {
    /** @param {Event} event */
    const form = (event) => /** @type {HTMLElement} */ (event.target).closest("form[hx-post]");
    const typed = new WeakSet();
    document.addEventListener("input", (event) => typed.add(form(event) ?? event));
    document.addEventListener("htmx:beforeSend", (event) => typed.delete(form(event) ?? event));
    document.addEventListener("htmx:beforeSwap", (event) => {
      const { detail } = /** @type {CustomEvent} */ (event);
      if (typed.has(detail.requestConfig.elt)) detail.shouldSwap = false;
    });
  }

  function start() {
    for (const button of all("[data-theme-switch]")) {
      button.hidden = false;
      nameTheme(button);
      button.addEventListener("click", () => switchTheme(button));
    }
    for (const button of all("[data-help]")) {
      button.hidden = false;
      button.addEventListener("click", () => help()?.showModal());
    }
    document.addEventListener("keydown", onKey);
    document.addEventListener("click", (event) => {
      for (const menu of all("details.menu[open]")) {
        if (!menu.contains(/** @type {Node} */ (event.target))) menu.removeAttribute("open");
      }
    });
    keepWhatIsTyped();
    document.addEventListener("htmx:afterSwap", dress);
    keepWhatIsOpen();
    hearNews();
    dress();
    setInterval(showTimes, 10000);
  }

  start();
})();
