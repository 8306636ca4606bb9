"use strict";
// A session in a file: finds words in it, folds, and opens what an address names. It asks nobody for anything.
(() => {
  const PAUSE_MS = 150;
  const MARKS_MOST = 1000;
  const form = document.querySelector(".seek");
  const field = form.querySelector("input");
  const said = form.querySelector("output");
  let words = null, hits = [], at = -1, timer;

  function openAround(node) {
    for (let each = node; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
  }

  function goToPlace() {
    const there = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!there) return;
    openAround(there);
    if (there.tagName === "ARTICLE") there.querySelector("details")?.setAttribute("open", "");
    there.scrollIntoView();
  }

  function* textsOf(place) {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) yield walker.currentNode;
  }

  function rangesIn(place) {
    const found = [];
    for (const text of textsOf(place)) {
      for (const match of text.data.matchAll(words)) {
        const range = new Range();
        range.setStart(text, match.index);
        range.setEnd(text, match.index + match[0].length);
        found.push(range);
        if (found.length >= MARKS_MOST) return found;
      }
    }
    return found;
  }

  function forget() {
    CSS.highlights?.delete("found");
    document.querySelector("article.here")?.classList.remove("here");
  }

  function show(number) {
    forget();
    at = number;
    said.textContent = hits.length ? `${at + 1} of ${hits.length}` : words ? "no hit" : "";
    if (!hits.length) return;
    const place = hits[at];
    const ranges = rangesIn(place);
    place.classList.add("here");
    openAround(ranges[0]?.startContainer.parentElement ?? place);
    if (ranges.length && CSS.highlights) CSS.highlights.set("found", new Highlight(...ranges));
    (ranges[0]?.startContainer.parentElement ?? place).scrollIntoView({ block: "center" });
  }

  function seek() {
    const typed = field.value.trim();
    words = typed ? new RegExp(typed.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\s+/g, "\\s+"), "giu") : null;
    hits = [];
    if (words) {
      for (const each of document.querySelectorAll(".entries article")) {
        words.lastIndex = 0;
        if (words.test(each.textContent)) hits.push(each);
      }
    }
    show(hits.length ? 0 : -1);
  }

  function step(by) {
    if (hits.length) show((at + by + hits.length) % hits.length);
  }

  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(seek, PAUSE_MS); });
  form.addEventListener("submit", (event) => { event.preventDefault(); step(1); });
  form.addEventListener("click", (event) => {
    const { step: by, fold } = event.target.dataset;
    if (by) step(Number(by));
    if (fold !== undefined) {
      for (const each of document.querySelectorAll(".entries details:not(.whole)")) each.open = Boolean(fold);
    }
  });
  document.addEventListener("keydown", (event) => {
    const writes = document.activeElement === field;
    if (((event.ctrlKey || event.metaKey) && event.key === "k") || (event.key === "/" && !writes)) {
      event.preventDefault();
      field.focus();
      field.select();
    } else if (writes && event.key === "Enter" && event.shiftKey) {
      event.preventDefault();
      step(-1);
    } else if (writes && event.key === "Escape") {
      field.value = "";
      seek();
    }
  });
  addEventListener("hashchange", goToPlace);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) goToPlace();
  });

  form.hidden = false;
  goToPlace();
})();
