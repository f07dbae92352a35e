// Fetches the page again every few seconds and puts its content in place of the old one. Without it everything works;
// it leaves the page alone while somebody types, has selected text, looks elsewhere, or has told it to stop.
"use strict";
(() => {
  const main = document.querySelector("main[data-refresh]");
  if (!main) return;
  const every_ms = Number(main.dataset.refresh) * 1000;
  const stored = "turno-refresh";
  let live = sessionStorage.getItem(stored) !== "off";

  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet refresh";
  button.textContent = "Live";
  button.title = "Refresh this page by itself";
  const show = () => button.setAttribute("aria-pressed", String(live));
  button.addEventListener("click", () => {
    live = !live;
    sessionStorage.setItem(stored, live ? "on" : "off");
    show();
  });
  show();
  document.querySelector("header .who").prepend(button);

  // What is shown is old when nobody answers: the button says so.
  const tell = (answered) => {
    button.textContent = answered ? "Live" : "No answer: this is old";
    button.classList.toggle("away-now", !answered);
  };

  const busy = () =>
    document.hidden ||
    main.contains(document.activeElement) && document.activeElement !== main ||
    !document.getSelection().isCollapsed;

  setInterval(async () => {
    if (!live || busy()) return;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      tell(answer.ok && !answer.redirected);
      if (!answer.ok || answer.redirected) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("main");
      if (!fresh || busy() || !live) return;
      const offsets = [...main.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
      main.replaceChildren(...fresh.childNodes);
      main.querySelectorAll(".scroll").forEach((box, n) => { box.scrollLeft = offsets[n] || 0; });
    } catch {
      // The server is away; the next try may find it.
      tell(false);
    }
  }, every_ms);
})();
