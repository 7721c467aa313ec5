// Updates the figures of a running operation, and reloads the page when its state changes.
"use strict";

(() => {
  const page = document.querySelector("[data-as-operation]");
  if (!page) return;

  const update = async () => {
    const response = await fetch(page.dataset.asOperation, { headers: { Accept: "application/json" } });
    if (!response.ok || response.redirected) return;
    const figures = await response.json();
    if (figures.state !== page.dataset.asState) {
      window.location.reload();
      return;
    }
    for (const element of page.querySelectorAll("[data-as-figure]")) {
      const value = figures[element.dataset.asFigure];
      if (element.tagName === "PROGRESS") {
        element.max = figures.matched || 1;
        element.value = value;
      } else if (value !== null) {
        element.textContent = value.toLocaleString(document.documentElement.lang || undefined);
      }
    }
  };

  const poll = async () => {
    try {
      if (!document.hidden) await update();
    } catch {
      // The server is not reachable for a moment.
    }
    setTimeout(poll, 2000);
  };
  setTimeout(poll, 1000);
})();
