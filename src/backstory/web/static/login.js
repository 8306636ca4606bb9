"use strict";
// A browser that waits asks again, while somebody looks, until a person lets it in.
(() => {
  const AGAIN_MS = 2000;
  const code = document.querySelector("[data-code]");
  const trouble = document.querySelector(".trouble");

  function say(text) {
    trouble.textContent = text;
    trouble.hidden = !text;
  }

  async function ask() {
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", redirect: "manual" });
      if (answer.type === "opaqueredirect") return location.reload();
      const text = await answer.text();
      if (!answer.ok) throw new Error(new DOMParser().parseFromString(text, "text/html").body.textContent.trim());
      const now = new DOMParser().parseFromString(text, "text/html").querySelector("[data-code]");
      if (now) code.textContent = now.textContent;
      say("");
    } catch (why) {
      say(why.message);
    }
    wait();
  }

  function wait() {
    setTimeout(() => document.hidden ? wait() : ask(), AGAIN_MS);
  }

  wait();
})();
