"""Stopping between two steps when a signal asks for it."""
from __future__ import annotations

import signal


class Stop:
    """Notes SIGINT and SIGTERM while it is entered, so that the step that runs can end. A second one acts as usual;
    but torchrun repeats the signal that it got, so its processes only note that, too."""

    def __init__(self, is_alone: bool):
        self.is_alone, self.signal, self._before = is_alone, None, {}

    def __enter__(self):
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _note(self, number, frame):
        self.signal = number
        if self.is_alone:
            self.__exit__()

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)
