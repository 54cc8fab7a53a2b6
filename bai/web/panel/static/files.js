// @ts-check
// Sends files to the folder that a page shows, one after the other. Data becomes text, never HTML.
(() => {
  "use strict";

  const form = /** @type {HTMLFormElement | null} */ (document.querySelector("form[data-upload]"));
  const list = document.querySelector(".uploads");
  const field = /** @type {HTMLInputElement | null | undefined} */ (form?.querySelector("input[type=file]"));
  const token = /** @type {HTMLInputElement | null | undefined} */ (form?.querySelector("input[name=token]"));
  const button = form?.querySelector("button");
  if (!form || !list || !field || !token || !button) return;

  /**
   * @param {string} tag
   * @param {string} [text]
   */
  function element(tag, text = "") {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  }

  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

  /** @param {number} count */
  function size(count) {
    const unit = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
    return `${(count / 2 ** (10 * unit)).toFixed(unit ? 1 : 0)} ${UNITS[unit]}`;
  }

  /** @param {string} text */
  function refusal(text) {
    try {
      return String(JSON.parse(text).detail);
    } catch {
      return "the server did not take it";
    }
  }

  /**
   * @param {File} file
   * @returns {Promise<boolean>} whether it is there
   */
  function send(file) {
    const row = element("li");
    const bar = /** @type {HTMLProgressElement} */ (element("progress"));
    const state = element("span", "waits");
    const stop = /** @type {HTMLButtonElement} */ (element("button", "Cancel"));
    bar.max = Math.max(1, file.size);
    bar.value = 0;
    bar.ariaLabel = `Progress of ${file.name}`;
    stop.type = "button";
    stop.className = "button small";
    state.className = "state";
    row.append(element("span", file.name), bar, state, stop);
    list?.append(row);
    return new Promise((resolve) => {
      const request = new XMLHttpRequest();
      /**
       * @param {boolean} done
       * @param {string} words
       */
      function end(done, words) {
        row.dataset.state = done ? "done" : "failed";
        state.textContent = words;
        stop.remove();
        resolve(done);
      }
      request.upload.addEventListener("progress", (event) => {
        bar.value = event.loaded;
        state.textContent = `${size(event.loaded)} of ${size(file.size)}`;
      });
      request.addEventListener("load", () => {
        const done = request.status === 204;
        if (done) bar.value = bar.max;
        end(done, done ? `${size(file.size)} sent` : refusal(request.responseText));
      });
      request.addEventListener("error", () => end(false, "the server ended it"));
      request.addEventListener("abort", () => end(false, "cancelled"));
      stop.addEventListener("click", () => request.abort());
      const address = new URL(form?.dataset.upload ?? "", location.href);
      const query = address.search ? `${address.search}&` : "?";
      request.open("POST", `${address.pathname}${query}name=${encodeURIComponent(file.name)}`);
      request.setRequestHeader("Bai-Form-Token", token?.value ?? "");
      request.setRequestHeader("Content-Type", "application/octet-stream");
      request.send(file);
    });
  }

  const there = () =>
    new Set(Array.from(document.querySelectorAll("td[data-name]"), (each) => each.getAttribute("data-name")));

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const files = Array.from(field.files ?? []);
    const old = files.filter((each) => there().has(each.name)).map((each) => each.name);
    if (old.length && !confirm(`Replace ${old.join(", ")}?`)) return;
    button.disabled = true;
    let done = true;
    for (const file of files) done = (await send(file)) && done;
    button.disabled = false;
    form.reset();
    if (done) location.reload();
  });
  form.hidden = false;
})();
