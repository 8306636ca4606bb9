"use strict";
// What a person does with a session beyond following its links. What they choose stays in this browser.
(() => {
  const BESIDE = "backstory-edits-beside";
  const TOP_PX = 90;
  const root = document.documentElement;
  const said = document.querySelector(".tools .said");
  let outline, seqs, current = -1, isDue = false;

  function readOutline() {
    outline = [...document.querySelectorAll(".outline [data-seq]")];
    seqs = outline.map((each) => Number(each.dataset.seq));
    current = -1;
  }

  function kept(name) {
    try { return localStorage.getItem(name); } catch { return null; }
  }

  function keep(name, value) {
    try { localStorage.setItem(name, value); } catch { /* it counts for this page alone */ }
  }

  readOutline();

  // edits ------------------------------------------------------------------------------------------------------------

  const beside = document.querySelector("button[data-diffs]");

  function showBeside(isBeside) {
    root.classList.toggle("beside", isBeside);
    beside.setAttribute("aria-pressed", String(isBeside));
  }

  function turnBeside() {
    const isBeside = !root.classList.contains("beside");
    keep(BESIDE, isBeside ? "1" : "0");
    showBeside(isBeside);
  }

  // where one is -----------------------------------------------------------------------------------------------------

  function placeAtTop() {
    const focused = document.activeElement?.closest(".entries article[id]");
    const room = focused?.getBoundingClientRect();
    if (room && room.bottom > TOP_PX && room.top < innerHeight && !focused.closest(".inside")) return focused;
    const entries = document.querySelector(".entries");
    const left = entries.getBoundingClientRect().left + 40;
    // Between two entries of a block that was read, the block would say where it begins.
    for (let y = TOP_PX; y < innerHeight; y += 20) {
      const found = document.elementFromPoint(left, y)?.closest(".entries article[id], .entries section[data-block]");
      if (found && !found.closest(".inside")) return found;
    }
    return null;
  }

  function seqOf(place) {
    return place ? Number.parseInt(place.id.slice(1), 10) : 0;
  }

  function promptAt(seq) {
    let found = -1;
    for (let n = 0; n < seqs.length && seqs[n] <= seq; n++) found = n;
    return found;
  }

  function markOnMap(seq) {
    let here;
    for (const each of document.querySelectorAll(".map [data-seq]")) {
      each.classList.remove("at");
      if (Number(each.dataset.seq) <= seq) here = each;
    }
    here?.classList.add("at");
  }

  function markCurrent() {
    isDue = false;
    const seq = seqOf(placeAtTop());
    markOnMap(seq);
    const found = promptAt(seq);
    if (found === current) return;
    outline[current]?.removeAttribute("aria-current");
    current = found;
    const link = outline[current];
    if (!link) return;
    link.setAttribute("aria-current", "true");
    const aside = link.closest("aside");
    if (getComputedStyle(aside).position !== "sticky") return;
    const { top, bottom } = link.getBoundingClientRect(), room = aside.getBoundingClientRect();
    if (top < room.top || bottom > room.bottom) aside.scrollTop += top - room.top - room.height / 3;
  }

  function goTo(place) {
    place.scrollIntoView({ block: "start" });
    if (!place.hasAttribute("tabindex")) place.tabIndex = -1;
    place.focus({ preventScroll: true });
    markCurrent();
  }

  function goToPrompt(number) {
    const link = outline[number];
    if (!link) return;
    const place = document.getElementById(`r${seqs[number]}`);
    if (place) goTo(place); else link.click();
  }

  function stepPrompt(by) {
    const top = placeAtTop(), seq = seqOf(top), at = promptAt(seq);
    goToPrompt(by > 0 ? at + 1 : at >= 0 && seqs[at] < seq ? at : at - 1);
  }

  function stepFailure(by) {
    const top = placeAtTop();
    const all = [...document.querySelectorAll(".entries article.error, .entries .end.error")].filter((each) => !each.closest(".inside"));
    const behind = (each) => top && each !== top && Boolean(top.compareDocumentPosition(each) & (by > 0 ? 4 : 2)) && !each.contains(top);
    const found = by > 0 ? all.find(behind) : all.filter(behind).pop();
    if (found) { goTo(found); return; }
    const failed = outline.map((each, n) => (each.closest(".failed") ? n : -1)).filter((n) => n >= 0 && (by > 0 ? n > current : n < current));
    if (failed.length) goToPrompt(by > 0 ? failed[0] : failed.at(-1)); else say("No other failure.");
  }

  // to others --------------------------------------------------------------------------------------------------------

  function say(words) {
    if (said) said.textContent = words;
  }

  async function copy(address) {
    say("Reading …");
    try {
      const answer = await fetch(address, { credentials: "same-origin" });
      const text = await answer.text();
      if (!answer.ok) throw new Error("That cannot be copied.");
      await navigator.clipboard.writeText(text);
      say(`Copied. ${answer.headers.get("Masked") ?? ""}`);
    } catch (why) {
      say(`Not copied: ${why.message}`);
    }
  }

  function copyPart(isTurn) {
    const link = placeAtTop()?.querySelector("a.seq");
    if (link) copy(`${link.href}/markdown${isTurn ? "?of=turn" : ""}`);
  }

  // The field for a prompt, with the record that the prompt is to follow. False where there is no such field.
  function promptAfter(seq) {
    const field = document.querySelector(".prompt-field");
    const after = field?.querySelector("[name=after]");
    if (!after) return false;
    after.value = seq;
    after.closest("details").open = true;
    field.scrollIntoView({ block: "end" });
    field.querySelector("textarea").focus({ preventScroll: true });
    return true;
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-after], [data-copy-part]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const seq = link.dataset.after;
    if (seq === undefined) copy(link.href); else if (link.closest(".inside") || !promptAfter(seq)) return;
    event.preventDefault();
  });

  // keys -------------------------------------------------------------------------------------------------------------

  const whole = document.querySelector("[data-copy]");
  const keys = document.querySelector("dialog.keys");
  const ACTIONS = {
    j: () => stepPrompt(1), k: () => stepPrompt(-1), e: () => stepFailure(1), E: () => stepFailure(-1), d: turnBeside,
    "?": () => keys.showModal(),
  };
  if (whole) Object.assign(ACTIONS, { y: () => copyPart(false), Y: () => copyPart(true), f: () => placeAtTop()?.querySelector("[data-after]")?.click() });

  if (beside) {
    for (const each of document.querySelectorAll(".tools button[hidden]")) each.hidden = false;
    showBeside(kept(BESIDE) === "1");
    beside.addEventListener("click", turnBeside);
    document.querySelector("[data-keys]").addEventListener("click", ACTIONS["?"]);
    whole?.addEventListener("click", () => copy(whole.dataset.copy));
    document.addEventListener("keydown", (event) => {
      const writes = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "") || keys.open;
      if (writes || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(ACTIONS, event.key)) return;
      event.preventDefault();
      ACTIONS[event.key]();
    });
    const soon = () => { if (!isDue) { isDue = true; requestAnimationFrame(markCurrent); } };
    for (const name of ["scroll", "resize"]) addEventListener(name, soon, { passive: true });
    // Entries that come above the window move what is in it, and nobody scrolled.
    new ResizeObserver(soon).observe(document.querySelector(".entries"));
    // What a session that runs has beside it is replaced as it grows.
    document.addEventListener("renewed", () => { readOutline(); markCurrent(); });
    markCurrent();
    document.addEventListener("click", (event) => {
      const link = event.target.closest?.(".outline [data-seq], .map [data-seq]");
      const place = link && document.getElementById(`r${link.dataset.seq}`);
      if (!place || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      goTo(place);
    });
  }

  // paper ------------------------------------------------------------------------------------------------------------

  const opened = [];
  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll(".entries details:not([open]):not(.subagent):not(.whole)")) { opened.push(each); each.open = true; }
  });
  addEventListener("afterprint", () => { for (const each of opened.splice(0)) each.open = false; });
  if (document.querySelector("[data-print]")) addEventListener("load", () => print());
})();
