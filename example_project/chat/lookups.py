"""What the agents' tools look up: made-up facts, the same at each run."""

from __future__ import annotations

from .offline import pace

_WEATHER = {
    "berlin": "light rain, 14 °C",
    "lisbon": "sunny, 24 °C",
    "nairobi": "a few clouds, 22 °C",
    "oslo": "snow, -3 °C",
    "tokyo": "clear, 19 °C",
}
# So that a tool can be seen to fail.
_NOWHERE = {"atlantis"}
_APPOINTMENTS = {
    "monday": "09:30 stand-up; 14:00 dentist",
    "tuesday": "11:00 review with Grace",
    "wednesday": "nothing",
    "thursday": "18:30 choir",
    "friday": "10:00 planning; 16:00 train to Lisbon",
}


def weather_in(city: str) -> str:
    """Tells the weather.

    Args:
        city: Name of a city.

    Returns:
        One sentence.

    Raises:
        LookupError: There is no such city.
    """
    pace.look_up()
    if city.strip().lower() in _NOWHERE:
        raise LookupError(f"{city.strip()} is on no map")
    found = _WEATHER.get(city.strip().lower(), "mild and dry, 18 °C")
    return f"The weather in {city.strip()}: {found}."


def appointments_on(day: str) -> str:
    """Tells the appointments of a day.

    Args:
        day: Name of a weekday.

    Returns:
        One sentence.
    """
    pace.look_up()
    found = _APPOINTMENTS.get(day.strip().lower(), "nothing")
    return f"On {day.strip().capitalize()}: {found}."
