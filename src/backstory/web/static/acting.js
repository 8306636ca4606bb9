"use strict";
// A form is sent without leaving the page. Without this it leads to the page that comes of it.
(() => {
  async function sent(form) {
    const fields = new URLSearchParams(new FormData(form));
    fields.set("part", "1");
    const answer = await fetch(form.action, { method: "POST", body: fields, credentials: "same-origin" });
    const text = await answer.text();
    if (!(answer.headers.get("content-type") ?? "").startsWith("text/html")) throw new Error(text);
    const holder = document.createElement("template");
    holder.innerHTML = text;
    return [holder.content.querySelector(".prompt-field"), answer.headers.get("location")];
  }

  function said(field, words) {
    let line = field.querySelector("[role=status]");
    if (!line) {
      line = document.createElement("p");
      line.setAttribute("role", "status");
      field.prepend(line);
    }
    line.className = "note";
    line.textContent = words;
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target.closest?.("form[data-act]");
    if (!form) return;
    event.preventDefault();
    const field = form.closest(".prompt-field");
    if (field.ariaBusy === "true") return;
    field.ariaBusy = "true";
    said(field, form.matches(".cancel") ? "stopping …" : "sending …");
    try {
      const typed = field.querySelector("textarea").value;
      const [fresh, where] = await sent(form);
      if (where) {
        location.assign(where);
        return;
      }
      // What was typed while the prompt was sent was not sent: it stays.
      const now = field.querySelector("textarea").value;
      if (form.matches(".cancel") || now !== typed) fresh.querySelector("textarea").value = now;
      field.replaceWith(fresh);
      fresh.querySelector("textarea").focus({ preventScroll: true });
      document.dispatchEvent(new CustomEvent("acted"));
    } catch (why) {
      field.ariaBusy = "false";
      said(field, `It was not sent: ${why.message}`);
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches?.(".prompt-field textarea")) {
      event.target.form.requestSubmit();
    }
  });

  // The session runs now, or no more: what may be done is another. What was typed and chosen stays.
  document.addEventListener("renewed", (event) => {
    const field = document.querySelector(".prompt-field"), fresh = event.detail?.querySelector(".prompt-field");
    if (!field || !fresh || field.ariaBusy === "true") return;
    const chosen = field.querySelector(".ways :checked")?.value;
    for (const part of [".ways", ".waits"]) field.querySelector(part)?.replaceWith(fresh.querySelector(part));
    for (const way of field.querySelectorAll(".ways input")) if (way.value === chosen) way.checked = true;
    const known = field.querySelector("form.cancel"), now = fresh.querySelector("form.cancel");
    if (known && !now) known.remove();
    if (!known && now) field.append(now);
  });
})();
