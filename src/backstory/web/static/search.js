"use strict";
// Ctrl-K opens a search over any page. Hits appear while a person types; an older answer never replaces a newer one.
(() => {
  const PAUSE_MS = 120;
  const part = (tag, values = {}, ...inside) => {
    const made = Object.assign(document.createElement(tag), values);
    made.append(...inside);
    return made;
  };

  // Show the hits of what is typed in a form. ``shown``: called with the words when they are there.
  function searchAsTyped(form, hits, shown) {
    let last, timer;
    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(async () => {
        last?.abort();
        const mine = last = new AbortController();
        const asked = new URLSearchParams(new FormData(form));
        try {
          const answer = await fetch(`/search?${asked}&part=1`, { signal: mine.signal, credentials: "same-origin" });
          const html = await answer.text();
          if (mine !== last) return;
          if (answer.ok) hits.replaceChildren(nodes(html));
          else hits.textContent = nodes(html).querySelector(".refused")?.textContent ?? `${answer.status}`;
          shown(asked);
        } catch (why) {
          if (mine === last && why.name !== "AbortError") hits.textContent = why.message;
        }
      }, PAUSE_MS);
    });
  }

  function nodes(html) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    return holder.content;
  }

  const form = document.querySelector("form[data-live]");
  if (form) {
    searchAsTyped(form, document.querySelector(".hits"), (asked) => {
      history.replaceState(null, "", `${form.dataset.live}?${asked}`);
    });
  }

  let dialog, field, hits, told, chosen = -1;

  function made() {
    field = part("input", { type: "text", name: "q", autocomplete: "off", placeholder: "Search everything" });
    field.setAttribute("aria-label", "Search everything that was said");
    hits = part("div", { className: "hits" });
    told = part("p", { className: "unseen" });
    told.setAttribute("aria-live", "polite");
    const keys = part("p", { className: "note", textContent: "↑ ↓ choose · Enter opens, or shows all hits · Esc closes" });
    const asks = part("form", { action: "/search", className: "query" }, field);
    asks.setAttribute("role", "search");
    dialog = part("dialog", { className: "finder" }, asks, keys, told, hits);
    dialog.setAttribute("aria-label", "Search");
    document.body.append(dialog);
    searchAsTyped(asks, hits, () => { chosen = -1; told.textContent = hits.querySelector(".count")?.textContent ?? ""; });
    asks.addEventListener("submit", (event) => {
      const link = links()[chosen];
      if (!link) return;
      event.preventDefault();
      dialog.close();
      location.assign(link.href);
    });
    field.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || event.isComposing) return;
      event.preventDefault();
      choose(Math.max(-1, Math.min(chosen + step, links().length - 1)));
    });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }

  const links = () => [...hits.querySelectorAll("a[data-hit]")];

  function choose(place) {
    const all = links();
    all[chosen]?.classList.remove("chosen");
    chosen = place;
    const link = all[chosen];
    link?.classList.add("chosen");
    link?.scrollIntoView({ block: "nearest" });
    told.textContent = link ? `${chosen + 1} of ${all.length}: ${link.textContent.trim()}` : "";
  }

  document.addEventListener("keydown", (event) => {
    const writes = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    const asks = (event.ctrlKey || event.metaKey) && event.key === "k";
    if (!asks && !(event.key === "/" && !writes && !event.ctrlKey && !event.metaKey && !event.altKey)) return;
    event.preventDefault();
    const own = document.querySelector(".query input[name=q]");
    if (own && own !== field) { own.focus(); own.select(); return; }
    if (!dialog) made();
    if (!dialog.open) dialog.showModal();
    field.focus();
    field.select();
  });
})();
