"""One line that says what is going on and how long it will take, for work that takes more than three seconds.

A public method opens it by `progress`; whatever works below names its part by `stage`, and needs nothing to be handed down.
Where the output is no terminal, work of minutes whose parts are counted writes a line now and then instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from threading import Lock, Timer
from time import monotonic

from rich.console import Console
from rich.errors import LiveError
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

DELAY = 3.0
#: Seconds between two lines of a log, which has none of work that is done before.
EVERY = 60.0
Tell = Callable[[int], None]


class _Count(ProgressColumn):
    """How many of how many, where that is known."""

    def render(self, task: Task) -> Text:
        return Text("" if task.total is None else f"{task.completed:.0f}/{task.total:.0f}")


class _Left(ProgressColumn):
    """About how long the rest takes, from the first part on."""

    def render(self, task: Task) -> Text:
        if not task.total or not task.completed or not task.elapsed or task.finished:
            return Text("")
        return Text(say_left(task.elapsed * (task.total / task.completed - 1)))


class _Display:
    """A bar with words, which is made when three seconds have passed, where there is somebody to see it."""

    def __init__(self, words: str, total: int | None) -> None:
        self.words, self.total, self.part, self.completed = words, total, "", 0
        self.began = monotonic()
        self.spoke = self.began - EVERY
        self.bar: Progress | None = None
        self.lock, self.done = Lock(), False
        self.timer = Timer(DELAY, self._show)
        self.timer.daemon = True
        self.timer.start()

    def _show(self) -> None:
        console = make_console()
        with self.lock:
            if self.done or not can_show(console):
                return
            words = TextColumn("{task.description}", markup=False)
            bar = Progress(_Count(), words, BarColumn(), TimeElapsedColumn(), _Left(), console=console)
            self.task = bar.add_task(self._description(), total=self.total, completed=self.completed)
            bar.tasks[0].start_time = self.began
            try:
                bar.start()
            except LiveError:  # the user's own display is there, and rich allows one
                return
            self.bar = bar
            self._update()

    def _description(self) -> str:
        return f"{self.words}: {self.part}" if self.part else self.words

    def _update(self) -> None:
        if self.bar is not None:
            self.bar.update(self.task, description=self._description(), completed=self.completed)

    def advance(self, n: int) -> None:
        self.completed += n
        self._update()
        self._log()

    def _log(self) -> None:
        """A line where there is no bar."""
        now, console = monotonic(), make_console()
        if self.bar is not None or self.total is None or not self.completed or can_show(console):
            return
        left = (now - self.began) * (self.total / self.completed - 1)
        if left >= EVERY <= now - self.spoke:
            self.spoke = now
            console.print(f"{self.completed}/{self.total} {self.words}, {say_left(left)}", markup=False, highlight=False)

    def name(self, part: str) -> None:
        self.part = part
        self._update()

    def close(self) -> None:
        self.timer.cancel()
        with self.lock:
            self.done = True
            self.name("")
            if self.bar is not None:
                self.bar.stop()


_display: ContextVar[_Display | None] = ContextVar("_display", default=None)


def say_left(seconds: float) -> str:
    """About how long something still takes.

    Examples
    --------
    >>> from pymc_bpls.text.progress import say_left
    >>> say_left(40), say_left(1500), say_left(9000)
    ('about 40 s left', 'about 25 min left', 'about 2.5 h left')
    """
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"


def make_console() -> Console:
    """Where it is shown."""
    return Console()


def can_show(console: Console) -> bool:
    """A terminal can, and a notebook where ipywidgets is there, without which rich warns instead; a file cannot."""
    return (find_spec("ipywidgets") is not None) if console.is_jupyter else console.is_terminal


@contextmanager
def progress(words: str, shown: bool, total: int | None = None) -> Iterator[Tell]:
    """Says what is going on while it lasts, and how many of `total` are done, of which the function that it gives is told.

    Within another one it is a part of that.
    """
    if not shown or _display.get() is not None:
        with stage(words, total) as tell:
            yield tell
        return
    display = _Display(words, total)
    token = _display.set(display)
    try:
        yield display.advance
    finally:
        _display.reset(token)
        display.close()


@contextmanager
def stage(words: str, total: int | None = None) -> Iterator[Tell]:
    """Names a part of the work in the line that is shown, with how many of `total` are done; without a line, nothing."""
    display = _display.get()
    if display is None:
        yield lambda n: None
        return
    before, done = display.part, 0

    def tell(n: int) -> None:
        nonlocal done
        done += n
        display.name(f"{words}, {done:,}" + ("" if total is None else f" of {total:,}"))

    display.name(words)
    try:
        yield tell
    finally:
        display.name(before)


def is_shown() -> bool:
    """Whether somebody is told."""
    return _display.get() is not None
