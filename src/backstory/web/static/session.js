"use strict";
// What a person does with a session beyond following its links. What they choose stays in this browser.
(() => {
  const BESIDE = "backstory-edits-beside";
  const root = document.documentElement;

  function kept(name) {
    try { return localStorage.getItem(name); } catch { return null; }
  }

  function keep(name, value) {
    try { localStorage.setItem(name, value); } catch { /* it counts for this page alone */ }
  }

  const beside = document.querySelector("button[data-diffs]");

  function showBeside(isBeside) {
    root.classList.toggle("beside", isBeside);
    beside.setAttribute("aria-pressed", String(isBeside));
  }

  if (beside) {
    beside.hidden = false;
    showBeside(kept(BESIDE) === "1");
    beside.addEventListener("click", () => {
      const isBeside = !root.classList.contains("beside");
      keep(BESIDE, isBeside ? "1" : "0");
      showBeside(isBeside);
    });
  }
})();
