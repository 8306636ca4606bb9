"use strict";
// Everything here only loads what a link on the page leads to; without it the links do the same.
(() => {
  const LINE_PX = 24;
  const AHEAD = "1200px";

  async function fetched(address, signal) {
    const answer = await fetch(address, { signal, credentials: "same-origin" });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    return text;
  }

  function nodes(html) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    return holder.content;
  }

  // Of a session inside another each place would have a second name: its links lead to its own page.
  function within(place, entries) {
    if (place.closest("[data-inside], .inside")) for (const each of entries.querySelectorAll("[id]")) each.removeAttribute("id");
    return entries;
  }

  const seen = new IntersectionObserver((entries) => {
    for (const each of entries) if (each.isIntersecting) { seen.unobserve(each.target); load(each.target); }
  }, { rootMargin: AHEAD });

  async function load(place) {
    try {
      if (place.dataset.block) {
        place.replaceChildren(within(place, nodes(await fetched(place.dataset.block))));
        place.style.minHeight = "";
        delete place.dataset.block;
      }
    } catch (why) {
      place.querySelector("a")?.append(` (${why.message})`);
    }
  }

  // Of a long session only the end comes at once. All of it takes the place of that, and what is read stays in view.
  async function loadEarlier(note) {
    try {
      const fresh = new DOMParser().parseFromString(await fetched(note.dataset.earlier), "text/html");
      const entries = note.parentElement, known = [...entries.querySelectorAll(":scope > .block")];
      const top = [...entries.querySelectorAll("article[id]")].find((each) => each.getBoundingClientRect().bottom > 0);
      const before = top?.getBoundingClientRect().top;
      known[0].before(...[...fresh.querySelectorAll(".entries > .block")].map((each) => document.adoptNode(each)));
      for (const each of [note, ...known]) each.remove();
      document.querySelector(".session aside").replaceChildren(...fresh.querySelector(".session aside").childNodes);
      document.dispatchEvent(new CustomEvent("renewed", { detail: fresh }));
      const same = top && document.getElementById(top.id);
      if (same) scrollBy({ top: same.getBoundingClientRect().top - before, behavior: "instant" });
      else goToPlace();
    } catch (why) {
      note.append(` (${why.message})`);
    }
  }

  function watch() {
    for (const each of document.querySelectorAll("[data-block]")) {
      each.style.minHeight = `${Number(each.dataset.lines) * LINE_PX}px`;
      seen.observe(each);
    }
  }

  function goToPlace() {
    const place = document.querySelector(".session")?.dataset.place;
    if (place === undefined || location.hash) return;
    const there = place ? document.getElementById(`r${place}`) || document.getElementById(`b${place}`)
      : [...document.querySelectorAll(".entries > .block")].at(-1);
    if (!there) return;
    if (place) there.classList.add("here");
    for (let each = there; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    if (place) for (const each of there.querySelectorAll(":scope > details")) each.open = true;
    there.scrollIntoView({ block: place ? "start" : "end" });
  }

  document.addEventListener("click", async (event) => {
    const link = event.target.closest?.("a[data-whole]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    try {
      link.parentElement.replaceWith(nodes(await fetched(`${link.href}?part=1`)));
    } catch (why) {
      link.append(` (${why.message})`);
    }
  });

  document.addEventListener("toggle", async (event) => {
    const { inside } = event.target.dataset ?? {};
    if (!inside || !event.target.open) return;
    const holder = document.createElement("div");
    holder.className = "inside";
    event.target.append(holder);
    delete event.target.dataset.inside;
    try {
      holder.append(within(holder, nodes(await fetched(inside))));
      watch();
    } catch (why) {
      holder.textContent = why.message;
    }
  }, true);

  document.addEventListener("renewed", watch);
  watch();
  goToPlace();
  const earlier = document.querySelector("[data-earlier]");
  if (earlier) loadEarlier(earlier);
})();
