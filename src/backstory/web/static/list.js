"use strict";
// The list goes on as it is scrolled. Rows far from view leave the page, and are read again when they come near.
(() => {
  const NEAR = "1200px";
  const FAR = "3000px";
  const table = document.querySelector("table.sessions");
  if (!table) return;

  async function rowsOf(address) {
    const answer = await fetch(`${address}&part=1`, { credentials: "same-origin" });
    const text = await answer.text();
    if (!answer.ok) throw new Error(answer.statusText);
    const holder = document.createElement("template");
    holder.innerHTML = `<table><tbody>${text}</tbody></table>`;
    return [...holder.content.querySelectorAll("tr")];
  }

  const more = new IntersectionObserver((entries) => {
    for (const each of entries) if (each.isIntersecting) { more.unobserve(each.target); next(each.target); }
  }, { rootMargin: NEAR });

  async function next(row) {
    const link = row.querySelector("a");
    try {
      const part = document.createElement("tbody");
      part.dataset.rows = link.href;
      part.append(...await rowsOf(link.href));
      const before = row.parentElement;
      row.remove();
      before.after(part);
      watch(part);
    } catch (why) {
      link.append(` (${why.message})`);
    }
  }

  // Those that are out of view lose their rows, but for a row of their height.
  const away = new IntersectionObserver((entries) => {
    for (const each of entries) if (!each.isIntersecting) leave(each.target);
  }, { rootMargin: FAR });
  const back = new IntersectionObserver((entries) => {
    for (const each of entries) if (each.isIntersecting) comeBack(each.target);
  }, { rootMargin: FAR });

  function leave(part) {
    if (!part.dataset.rows || part.dataset.left || part.querySelector("[data-more], :checked, :focus")) return;
    const row = document.createElement("tr");
    row.style.height = `${part.getBoundingClientRect().height}px`;
    part.dataset.left = "1";
    part.replaceChildren(row);
    away.unobserve(part);
    back.observe(part);
  }

  async function comeBack(part) {
    back.unobserve(part);
    try {
      const rows = await rowsOf(part.dataset.rows);
      // What follows is there already.
      part.replaceChildren(...rows.filter((row) => !row.querySelector("[data-more]")));
      delete part.dataset.left;
      away.observe(part);
    } catch {
      back.observe(part);
    }
  }

  function watch(part) {
    const row = part.querySelector("[data-more]")?.closest("tr");
    if (row) more.observe(row);
    if (part.dataset.rows) away.observe(part);
  }

  watch(table.tBodies[0]);
})();
