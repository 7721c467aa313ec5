"""What people say, and what has to come back: nobody else's answer would be right."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from example_project.chat.lookups import appointments_on, weather_in
from example_project.chat.offline.rules import STORY

STRANDS, OPENAI = "strands", "openai"
"""What the metadata of a session say whose agent this is."""

MAP = "weather_map"
"""The tool that draws a picture."""

PASSWORD = "of no value"
CITIES = ("Berlin", "Lisbon", "Nairobi", "Oslo", "Tokyo")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
LENGTHS = {STRANDS: 9, OPENAI: 20}
"""After how many turns a new conversation is begun: the Strands agent remembers 40 messages."""


@dataclass(frozen=True)
class Line:
    """What a person says, and what is answered."""

    read_texts: str
    answer: str
    write_tool_call: str = ""
    """The tool that is called before."""

    argument: str = ""
    """What it is called with."""

    thought: bool = False
    """Whether the model thinks before it answers."""


@dataclass
class Conversation:
    """A conversation, as far as it has come for its owner."""

    id: str
    """Primary key of its session."""

    kind: str
    name: str = ""
    """What its owner is called in it, and nowhere else."""

    random: Random = field(default_factory=Random)
    lines: list[Line] = field(default_factory=list)
    """What was said and answered to the end."""

    _cities: list[str] = field(default_factory=list)

    @property
    def is_long(self) -> bool:
        """Whether it is time for another one."""
        return len(self.lines) >= LENGTHS[self.kind]

    def next(self) -> Line:
        """Decides what is said next."""
        if not self.lines:
            return Line(f"My name is {self.name}.", f"Nice to meet you, {self.name}.")
        weights = {
            self._ask_name: 30,
            self._weather: 30,
            self._ask_cities: 12,
            self._days: 16,
            _think: 6,
            _story: 5,
            self._map: 1,
        }
        (say,) = self.random.choices(list(weights), list(weights.values()))
        return say()

    def acknowledge(self, line: Line) -> None:
        """Remembers what was answered."""
        self.lines.append(line)
        if line.argument in CITIES:
            self._cities.append(line.argument)

    def _ask_name(self) -> Line:
        return Line("What is my name?", f"You told me that your name is {self.name}.")

    def _weather(self) -> Line:
        city = self.random.choice(CITIES)
        return Line(f"What is the weather in {city}?", weather_in(city), "weather", city)

    def _map(self) -> Line:
        city = self.random.choice(CITIES)
        # The OpenAI agent's tool returns the picture without words.
        said = weather_in(city) if self.kind == STRANDS else "Here it is."
        return Line(f"Show me a weather map of {city}", said, MAP, city)

    def _days(self) -> Line:
        if self.kind == OPENAI:
            return self._weather()
        day = self.random.choice(DAYS)
        answer = appointments_on(day)
        return Line(f"Which appointments do I have on {day}?", answer, "calendar", day)

    def _ask_cities(self) -> Line:
        found = ", ".join(self._cities)
        answer = f"You asked about {found}." if found else "You asked about no city yet."
        return Line("Which cities did I ask about?", answer)


def name_of(number: int) -> str:
    """Return the login of a person."""
    return f"person{number}"


def _think() -> Line:
    said = "I thought about it: it can wait until tomorrow."
    return Line("Please think about my plans", said, thought=True)


def _story() -> Line:
    return Line("Tell me a story", STORY)
