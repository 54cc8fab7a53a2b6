// @ts-check
/* A session's terminal: xterm.js, joined to the server by a WebSocket. What comes from there is bytes for the
   screen alone; it names no title, fills no clipboard and opens no link. */
(() => {
  "use strict";
  const { Terminal, FitAddon } = /** @type {any} */ (window);

  const PROTOCOL = "bai-terminal";
  const ON_ITS_WAY = 32768;
  const PIECE = 8192;
  const SHOWN_EVERY = 16384;
  const PATIENCE = 60000;
  const FINAL = { 4401: "Your login may open no terminals any more.", 4409: "It was opened on another page." };
  /** Commands of programs for what is around a terminal: title, links, clipboard, notifications, files. */
  const UNHEARD = [0, 1, 2, 7, 8, 9, 50, 52, 99, 133, 633, 777, 1337];
  const encoder = new TextEncoder();

  class SessionTerminal {
    /** @param {HTMLElement} place */
    constructor(place) {
      this.address = place.dataset.terminal ?? "";
      this.form = /** @type {HTMLFormElement} */ (place.querySelector("form"));
      this.screen = /** @type {HTMLElement} */ (place.querySelector(".terminal-screen"));
      this.note = /** @type {HTMLElement} */ (place.querySelector(".terminal-note"));
      /** @type {WebSocket | null} */
      this.socket = null;
      /** Bytes, since the beginning: that have come, that are on the screen, that the server knows to be. */
      this.came = this.shown = this.told = 0;
      /** Before it, what comes was written for a page that is no more: it is not to be answered. */
      this.answeredFrom = 0;
      /** Keys that the program has not got, those that were sent first. */
      this.typed = new Uint8Array(0);
      this.taken = this.sent = 0;
      this.lostAt = 0;
      this.welcome = "";
      this.form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.begin();
      });
      this.button("leave").addEventListener("click", () => this.leave());
      // Before, a browser would send the form itself, with its token in the address.
      this.button("open").disabled = false;
      if (this.id) this.connect();
    }

    get id() {
      return sessionStorage.getItem(`terminal ${this.address}`) ?? "";
    }

    /** @param {string} id */
    set id(id) {
      if (id) sessionStorage.setItem(`terminal ${this.address}`, id);
      else sessionStorage.removeItem(`terminal ${this.address}`);
    }

    /** @param {string} name */
    button(name) {
      return /** @type {HTMLButtonElement} */ (this.form.elements.namedItem(name));
    }

    /** @param {string} name */
    value(name) {
      return /** @type {HTMLInputElement | HTMLSelectElement} */ (this.form.elements.namedItem(name)).value;
    }

    /**
     * @param {string} text
     * @param {"" | "bad"} [state]
     */
    say(text, state = "") {
      this.note.textContent = text;
      this.note.dataset.state = state;
    }

    /** @param {boolean} open */
    show(open) {
      this.button("leave").hidden = !open;
      this.button("open").hidden = open;
      for (const name of ["kernel", "program"]) this.button(name).disabled = open;
    }

    draw() {
      if (this.terminal) return;
      this.screen.hidden = false;
      const { color, backgroundColor, fontFamily } = getComputedStyle(this.screen);
      this.terminal = new Terminal({
        theme: { foreground: color, background: backgroundColor, cursor: color },
        fontFamily,
        fontSize: 14,
        scrollback: 5000,
        linkHandler: { activate: () => {}, allowNonHttpProtocols: false },
      });
      for (const number of UNHEARD) this.terminal.parser.registerOscHandler(number, () => true);
      this.fit = new FitAddon.FitAddon();
      this.terminal.loadAddon(this.fit);
      this.terminal.open(this.screen);
      this.terminal.attachCustomKeyEventHandler((/** @type {KeyboardEvent} */ event) => this.onKey(event));
      this.terminal.onData((/** @type {string} */ text) => this.type(encoder.encode(text)));
      this.terminal.onBinary((/** @type {string} */ text) =>
        this.type(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
      this.terminal.onResize((/** @type {{rows: number, cols: number}} */ size) => this.tell({ kind: "resize", ...asked(size) }));
      this.fit.fit();
      new ResizeObserver(() => this.fit.fit()).observe(this.screen);
    }

    /** @param {KeyboardEvent} event */
    onKey(event) {
      if (event.key !== "F6" || !event.shiftKey) return true;
      if (event.type === "keydown") this.button("leave").focus();
      return false;
    }

    /** Another program. */
    begin() {
      this.id = "";
      this.came = this.shown = this.told = this.answeredFrom = this.taken = this.sent = this.lostAt = 0;
      this.typed = new Uint8Array(0);
      this.terminal?.reset();
      this.connect();
    }

    connect() {
      this.draw();
      this.show(true);
      this.say(this.lostAt ? "The connection was lost; trying again." : "Connecting.", this.lostAt ? "bad" : "");
      const size = asked(this.terminal);
      const known = this.lostAt ? this.came : null;
      const first = this.id
        ? { kind: "resume", id: this.id, known, ...size }
        : { kind: "open", kernel: this.value("kernel"), program: this.value("program"), ...size };
      const scheme = location.protocol === "https:" ? "wss:" : "ws:";
      const socket = new WebSocket(`${scheme}//${location.host}${this.address}`, [PROTOCOL, `form.${this.value("token")}`]);
      socket.binaryType = "arraybuffer";
      socket.addEventListener("open", () => socket.send(JSON.stringify(first)));
      socket.addEventListener("message", (event) => this.socket === socket && this.onMessage(event.data));
      socket.addEventListener("close", (event) => this.socket === socket && this.onClose(event));
      this.socket = socket;
    }

    /** @param {string | ArrayBuffer} data */
    onMessage(data) {
      if (typeof data !== "string") return this.write(new Uint8Array(data));
      const message = JSON.parse(data);
      if (message.kind === "opened") this.onOpened(message);
      else if (message.kind === "taken") this.onTaken(message.bytes);
      else if (message.kind === "refused") this.final(message.why, "bad");
      else if (message.kind === "ended") {
        const code = message.code === null ? "" : ` with ${message.code}`;
        this.final(message.why ? `It ended: ${message.why}` : `It ended${code}.`, message.why ? "bad" : "");
      }
    }

    /** @param {{id: string, start: number, end: number, received: number}} message */
    onOpened({ id, start, end, received }) {
      if (!this.lostAt) {
        this.terminal.reset();
        this.typed = new Uint8Array(0);
        this.taken = received;
        this.answeredFrom = this.id ? end : 0;
      }
      this.welcome = this.lostAt ? "Connected again." : "Connected.";
      this.id = id;
      this.came = this.shown = this.told = start;
      this.drop(received);
      this.sent = received;
      this.lostAt = 0;
      this.tell({ kind: "resize", ...asked(this.terminal) });
      this.send();
      this.greet();
    }

    /** Keys count from here on: not before what was written earlier is on the screen. */
    greet() {
      if (!this.welcome || this.shown < this.answeredFrom) return;
      this.say(this.welcome);
      this.welcome = "";
      this.terminal.focus();
    }

    /** @param {Uint8Array} bytes */
    write(bytes) {
      this.came += bytes.length;
      const upTo = this.came;
      this.terminal.write(bytes, () => {
        this.shown = Math.max(this.shown, upTo);
        this.greet();
        if (this.shown - this.told < SHOWN_EVERY && this.shown < this.came) return;
        this.told = this.shown;
        this.tell({ kind: "shown", bytes: this.shown });
      });
    }

    /** @param {Uint8Array} bytes */
    type(bytes) {
      if (!this.id || this.shown < this.answeredFrom) return;
      const all = new Uint8Array(this.typed.length + bytes.length);
      all.set(this.typed);
      all.set(bytes, this.typed.length);
      this.typed = all;
      this.send();
    }

    /** Keys, as many at a time as may be on their way. */
    send() {
      while (this.isOpen && this.sent - this.taken < ON_ITS_WAY) {
        const begin = this.sent - this.taken;
        const piece = this.typed.slice(begin, Math.min(begin + PIECE, ON_ITS_WAY));
        if (!piece.length) return;
        this.socket?.send(piece);
        this.sent += piece.length;
      }
    }

    /** @param {number} count Of bytes, since the beginning, that have arrived. */
    drop(count) {
      if (count <= this.taken) return;
      this.typed = this.typed.slice(count - this.taken);
      this.taken = count;
    }

    /** @param {number} count */
    onTaken(count) {
      this.drop(count);
      this.send();
    }

    get isOpen() {
      return this.socket?.readyState === WebSocket.OPEN && this.id !== "";
    }

    /** @param {object} message */
    tell(message) {
      if (this.isOpen) this.socket?.send(JSON.stringify(message));
    }

    leave() {
      const { id } = this;
      this.tell({ kind: "leave" });
      this.final(id ? "Closed." : "");
    }

    /**
     * Nothing more comes of this one.
     * @param {string} text
     * @param {"" | "bad"} [state]
     */
    final(text, state = "") {
      this.id = this.welcome = "";
      this.lostAt = 0;
      const { socket } = this;
      this.socket = null;
      if (socket?.readyState === WebSocket.CONNECTING) socket.close();
      this.show(false);
      this.say(text, state);
    }

    /** @param {CloseEvent} event */
    onClose(event) {
      const words = FINAL[/** @type {keyof typeof FINAL} */ (event.code)];
      if (words) return this.final(words, "bad");
      if (event.code === 4404) return this.final(this.lostAt ? "It has ended meanwhile." : "", this.lostAt ? "bad" : "");
      if (!this.id) return this.final("It could not be opened: load the page again.", "bad");
      this.lostAt ||= Date.now();
      this.welcome = "";
      const waited = Date.now() - this.lostAt;
      if (waited > PATIENCE) return this.final("The connection was lost.", "bad");
      this.say("The connection was lost; trying again.", "bad");
      setTimeout(() => this.id && this.connect(), Math.min(5000, 300 + waited / 2));
    }
  }

  /** @param {{rows: number, cols: number}} size */
  function asked({ rows, cols }) {
    const within = (/** @type {number} */ side) => Math.max(1, Math.min(1000, side));
    return { rows: within(rows), columns: within(cols) };
  }

  /** @type {WeakSet<Element>} */
  const begun = new WeakSet();

  function begin() {
    for (const place of document.querySelectorAll("[data-terminal]")) {
      if (begun.has(place)) continue;
      begun.add(place);
      new SessionTerminal(/** @type {HTMLElement} */ (place));
    }
  }

  begin();
  // News of a session that runs by now bring one to a page that had none.
  document.addEventListener("htmx:afterSwap", begin);
})();
