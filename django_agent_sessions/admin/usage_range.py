"""The days that the usage page shows, and those that they are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_agent_sessions import usage

from .formatting import has_prices

RANGES = (7, 30, 90)
"""The numbers of days to choose from."""

MAX_DAYS = 366
"""The longest range."""

_WEEK = 7
_EARLIEST = date(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class UsageRange:
    """The selected days, and how they are sorted and compared."""

    first: date
    last: date
    quick: bool = True
    sort: str = ""
    average: bool = False
    error: str = ""

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def before(self) -> int:
        """The number of days before these that they are compared with."""
        return _WEEK if self.average else self.days

    @property
    def divisor(self) -> int:
        """What sums of the days before are divided by."""
        return self.before // self.days

    @property
    def fields(self) -> dict[str, str]:
        """The query parameters, for a form's hidden fields."""
        days = {"days": str(self.days)} if self.quick else self.dates
        against = {"against": "average"} if self.average else {}
        return {**days, **self.order, **against}

    @property
    def dates(self) -> dict[str, str]:
        return {"from": self.first.isoformat(), "until": self.last.isoformat()}

    @property
    def order(self) -> dict[str, str]:
        return {} if self.sort == _default_sort() else {"sort": self.sort}

    def query(self, **changes: str) -> str:
        """Return the query string of a link."""
        return "?" + urlencode({**self.fields, **changes})

    def query_of(self, **days: str) -> str:
        """Return the query string of a link to other days."""
        return "?" + urlencode({**days, **self.order})

    def day_query(self, day: date) -> str:
        """Return the query string of a link to a day."""
        return self.query_of(**{"from": day.isoformat(), "until": day.isoformat()})

    def comparisons(self) -> list[tuple[str, str, bool]]:
        """Return the label and link of each comparison, and whether it is the selected one."""
        day_before = self.first - timedelta(1)
        if self.days > 1:
            first = self.first - timedelta(self.days)
            return [(f"{first} – {day_before}", self.query(), True)]
        alone, average = self.day_query(self.first), _("the average of the 7 days before")
        return [
            (f"{day_before}", alone, not self.average),
            (average, f"{alone}&against=average", self.average),
        ]

    def links(self) -> list[tuple[str, str, bool]]:
        """Return the label and link of each range to choose from, and whether it is selected."""
        yesterday = usage.today() - timedelta(1)
        found = [(_("Yesterday"), self.day_query(yesterday), self.first == self.last == yesterday)]
        for days in RANGES:
            label = ngettext("%(days)s day", "%(days)s days", days) % {"days": days}
            link = self.query_of(days=str(days))
            found.append((label, link, self.quick and days == self.days))
        return found


def read_range(params: Mapping[str, str]) -> UsageRange:
    """Return the selection of the query parameters; for days that cannot be shown, an error."""
    today, sort = usage.today(), params.get("sort", "")
    sort = sort if sort in {"messages", "cost"} and has_prices() else _default_sort()
    length = next((days for days in RANGES if str(days) == params.get("days")), 30)
    quick = UsageRange(today - timedelta(length - 1), today, sort=sort)
    given = [text for name in ("from", "until") if (text := params.get(name, "").strip())]
    if not given:
        return quick
    try:
        days = [date.fromisoformat(text) for text in given]
    except ValueError:
        days = []
    if not (days and _EARLIEST <= days[0] <= days[-1] <= today):
        text = _("Enter days as YYYY-MM-DD, the first one first, none after today (%s).")
        return replace(quick, error=text % today)
    chosen = replace(quick, first=days[0], last=days[-1], quick=False)
    if chosen.days > MAX_DAYS:
        return replace(quick, error=_("Choose at most %s days.") % MAX_DAYS)
    return replace(chosen, average=chosen.days == 1 and params.get("against") == "average")


def _default_sort() -> str:
    return "cost" if has_prices() else "messages"
