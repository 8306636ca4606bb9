"use strict";
// A session that runs grows on its page, and the list says which run. A page that nobody looks at asks for nothing.
(() => {
  const NEAR_END_PX = 80;
  const AGAIN_MS = 5000;
  const CHANGES_MS = 3000;

  async function page(address) {
    const answer = await fetch(address, { credentials: "same-origin" });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    return new DOMParser().parseFromString(text, "text/html");
  }

  function whileSeen(begin, end) {
    document.addEventListener("visibilitychange", () => document.hidden ? end() : begin());
    if (!document.hidden) begin();
  }

  // a session --------------------------------------------------------------------------------------------------------

  function follow(growing) {
    const entries = growing.parentElement;
    const writing = entries.querySelector(".writing");
    const trouble = entries.querySelector(".trouble");
    const toEnd = document.createElement("button");
    const stored = { seq: Number(growing.dataset.seq), turn: Number(growing.dataset.turn) };
    const path = growing.dataset.live.replace(/\/live$/, "");
    let source, last = "", timer, done = Promise.resolve(), isOver = false;

    toEnd.className = "to-end";
    toEnd.type = "button";
    toEnd.textContent = "New entries below ↓";
    toEnd.hidden = true;
    toEnd.addEventListener("click", goToEnd);
    document.body.append(toEnd);
    addEventListener("scroll", () => { if (isAtEnd()) toEnd.hidden = true; }, { passive: true });

    function isAtEnd() {
      return innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR_END_PX;
    }

    function goToEnd() {
      toEnd.hidden = true;
      scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
    }

    // Whoever reads the end goes on reading it; whoever reads elsewhere stays there.
    function changed(change, isNew = true) {
      const wasAtEnd = isAtEnd();
      change();
      if (wasAtEnd) goToEnd();
      else if (isNew) toEnd.hidden = false;
    }

    function say(text) {
      trouble.textContent = text;
      trouble.hidden = !text;
    }

    function openIn(within) {
      return [...within.querySelectorAll("article[id] details[open], .entry[id] details[open]")]
        .map((each) => each.closest("[id]").id);
    }

    function reopen(within, ids) {
      for (const each of ids) {
        const found = within.querySelector(`#${CSS.escape(each)} details`);
        if (found) found.open = true;
      }
    }

    // The page as it is now: blocks that did not change stay as they are, with what was opened in them.
    async function renew() {
      const fresh = await page(path);
      const now = fresh.querySelector(".growing");
      const top = [...entries.querySelectorAll("article[id]")].find((each) => each.getBoundingClientRect().bottom > 0);
      const before = top?.getBoundingClientRect().top;
      const open = openIn(entries);
      const wanted = [...fresh.querySelectorAll(".entries > .block")].map((each) => {
        const known = document.getElementById(each.id);
        return known && known.dataset.last === each.dataset.last ? known : document.adoptNode(each);
      });
      for (const each of [...entries.querySelectorAll(":scope > .block")]) if (!wanted.includes(each)) each.remove();
      let at = entries.querySelector(":scope > .block") ?? growing;
      for (const each of wanted) {
        if (each === at) at = at.nextElementSibling;
        else entries.insertBefore(each, at);
      }
      reopen(entries, open);
      document.querySelector(".session aside").replaceChildren(...fresh.querySelector(".session aside").childNodes);
      const steering = fresh.getElementById("steering"), known = document.getElementById("steering");
      if (steering && !known) entries.append(document.adoptNode(steering));
      if (!steering) known?.remove();
      stored.seq = Number(now.dataset.seq);
      stored.turn = Number(now.dataset.turn);
      const same = top && document.getElementById(top.id);
      if (same && before !== undefined) scrollBy({ top: same.getBoundingClientRect().top - before, behavior: "instant" });
      document.dispatchEvent(new CustomEvent("renewed", { detail: fresh }));
    }

    const takes = {
      async base({ seq, turn }) {
        const wasAtEnd = isAtEnd();
        if (seq > stored.seq || turn > stored.turn) await renew();
        growing.replaceChildren();
        takes.writing({ text: "" });
        if (wasAtEnd) goToEnd();
      },
      entry({ number, seq, turn, html }) {
        if (seq === null ? turn <= stored.turn : seq <= stored.seq) return;
        const name = `g${number}`;
        const known = document.getElementById(name);
        const made = document.createElement("div");
        made.className = "entry";
        made.id = name;
        made.innerHTML = html;
        changed(() => {
          if (!known) return growing.append(made);
          const open = openIn(growing);
          known.replaceWith(made);
          reopen(growing, open);
        }, !known);
      },
      writing({ text }) {
        changed(() => { writing.textContent = text; writing.hidden = !text; }, Boolean(text));
      },
      more({ text }) {
        changed(() => writing.append(text));
      },
      note({ text }) {
        const made = document.createElement("p");
        made.className = "note";
        made.textContent = text;
        changed(() => growing.append(made));
      },
      steering({ id, words }) {
        const known = document.querySelector(`[data-steering="${CSS.escape(id)}"]`);
        if (known) known.textContent = words;
      },
      trouble({ text }) { say(text); },
      async begun() { await renew(); },
      ended({ text }) {
        isOver = true;
        close();
        say(text || "The pages were ended. To see more, run again: backstory web");
      },
    };

    function open() {
      if (source || isOver) return;
      clearTimeout(timer);
      source = new EventSource(`${growing.dataset.live}?last=${encodeURIComponent(last)}`);
      for (const [kind, take] of Object.entries(takes)) {
        source.addEventListener(kind, (event) => {
          if (event.lastEventId) last = event.lastEventId;
          done = done.then(() => take(JSON.parse(event.data))).catch((why) => say(why.message));
        });
      }
      source.addEventListener("error", () => {
        say("The pages do not answer now.");
        if (source?.readyState !== EventSource.CLOSED) return;
        close();
        timer = setTimeout(open, AGAIN_MS);
      });
      source.addEventListener("open", () => say(""));
    }

    function close() {
      source?.close();
      source = undefined;
      clearTimeout(timer);
    }

    addEventListener("pagehide", close);
    addEventListener("pageshow", () => { if (!document.hidden) open(); });
    whileSeen(open, close);
  }

  // the list ---------------------------------------------------------------------------------------------------------

  function watchList(table) {
    let known = table.dataset.changes, timer;

    async function look() {
      try {
        const answer = await fetch("/changes", { credentials: "same-origin" });
        const now = await answer.text();
        if (answer.ok && now !== known) {
          take((await page(location.href)).querySelector("table.sessions"));
          known = now;
        }
      } catch {
        // The next look may find them again.
      }
      if (!document.hidden) timer = setTimeout(look, CHANGES_MS);
    }

    // The first rows anew, the others as they were loaded.
    function take(fresh) {
      if (!fresh) return;
      const address = (row) => row.querySelector("a")?.getAttribute("href");
      const rows = [...fresh.tBodies[0].rows].filter((each) => !each.classList.contains("more"));
      const come = new Set(rows.map(address));
      const [body] = table.tBodies;
      const focused = document.activeElement?.getAttribute("href");
      const chosen = new Set([...table.querySelectorAll("tr:has(:checked)")].map(address));
      for (const each of table.querySelectorAll("tbody tr")) if (come.has(address(each))) each.remove();
      body.prepend(...rows);
      for (const each of rows) if (chosen.has(address(each))) each.querySelector("input").checked = true;
      if (focused) body.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    }

    whileSeen(() => { clearTimeout(timer); timer = setTimeout(look, CHANGES_MS); }, () => clearTimeout(timer));
  }

  const growing = document.querySelector(".growing");
  if (growing) follow(growing);
  const table = document.querySelector("table.sessions[data-changes]");
  if (table) watchList(table);
})();
