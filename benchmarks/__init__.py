"""Measures the app side by side with other session stores and with the raw database drivers.

``python -m benchmarks`` (after ``make install`` and with the dependency group ``bench``) makes
databases of its own, fills them, measures every store in alternating rounds, prints a Markdown
page and drops the databases again.
"""
