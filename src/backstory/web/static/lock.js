"use strict";
// Opens the sealed pieces of this file with a password. It asks nobody for anything, and keeps nothing.
(() => {
  const form = document.querySelector(".unlock");
  const field = form.querySelector("input");
  const button = form.querySelector("button");
  const said = form.querySelector("[role=alert]");
  const text = new TextEncoder();

  function bytes(base64) {
    return Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
  }

  async function keyOf(password) {
    const { salt, rounds } = form.dataset;
    const given = await crypto.subtle.importKey("raw", text.encode(password.normalize("NFC")), "PBKDF2", false, ["deriveKey"]);
    const how = { name: "PBKDF2", hash: "SHA-256", salt: bytes(salt), iterations: Number(rounds) };
    return crypto.subtle.deriveKey(how, given, { name: "AES-GCM", length: 256 }, false, ["decrypt"]);
  }

  async function opened(key, piece, number, isLast) {
    const iv = new Uint8Array(12);
    new DataView(iv.buffer).setUint32(8, number);
    const additionalData = text.encode(`${form.dataset.form} ${number} ${isLast ? "last" : "more"}`);
    const packed = await crypto.subtle.decrypt({ name: "AES-GCM", iv, additionalData }, key, bytes(piece.textContent));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  async function unlock() {
    const pieces = [...document.querySelectorAll("script.sealed")];
    const key = await keyOf(field.value);
    const found = [];
    for (const [number, piece] of pieces.entries()) {
      try {
        found.push(await opened(key, piece, number, number === pieces.length - 1));
      } catch {
        throw new Error(number ? "The file was changed or cut off. Nothing of it is shown."
          : "The password is wrong, or the file was changed.");
      }
    }
    for (const each of pieces) each.remove();
    const main = document.getElementById("main");
    main.innerHTML = found.join("");
    document.title = `${main.querySelector("h1")?.textContent ?? ""} · backstory`;
    const then = document.createElement("script");
    then.textContent = document.getElementById("then").textContent;
    document.body.append(then);
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!globalThis.crypto?.subtle || !globalThis.DecompressionStream) {
      said.textContent = "This browser cannot decrypt a file that is opened from the disk. Open it in another one.";
      return;
    }
    said.textContent = "Opening…";
    button.disabled = true;
    try {
      await unlock();
    } catch (why) {
      said.textContent = why.message;
      field.select();
    } finally {
      button.disabled = false;
    }
  });
})();
