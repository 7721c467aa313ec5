"""The admin in a real Chromium, under the strictest Content-Security-Policy it is promised for."""
