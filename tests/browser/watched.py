"""A page that is watched: whatever it must not do is written down."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Dialog, Page, Request, Response

CANARY = """
window.__pwned = [];
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  const where = `${event.sourceFile}:${event.lineNumber}`;
  const what = `${event.violatedDirective} ${event.blockedURI} ${where}`;
  window.__violations.push(what);
  console.error("securitypolicyviolation: " + what + " " + event.sample);
});
window.pwn = (how) => { window.__pwned.push(how); console.error("pwned: " + how); };
"""
"""Runs in each page before anything of the page's own. ``pwn`` is what hostile texts call."""

# What Chromium asks for by itself.
_MAY_BE_MISSING = {"/favicon.ico"}


class Watch:
    """Watches a page.

    Args:
        page: The page, before it went anywhere.
        host: The host and port that it may ask.
    """

    def __init__(self, page: Page, host: str) -> None:
        self.faults: list[str] = []
        self._host = host
        page.add_init_script(CANARY)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._request)
        page.on("response", self._response)
        page.on("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        # Chromium reports what it refuses as an error too, which is all there is without scripts.
        # What could not be loaded is told by its response, with its address.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.faults.append(f"console: {message.text[:500]}")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in {"data", "blob", "about"} and parts.netloc != self._host:
            self.faults.append(f"foreign request: {request.url[:200]}")

    def _response(self, response: Response) -> None:
        path = urlsplit(response.url).path
        if response.status >= 400 and path not in _MAY_BE_MISSING:
            self.faults.append(f"{response.status}: {response.url[:200]}")

    def _dialog(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message[:200]}")
        dialog.dismiss()
