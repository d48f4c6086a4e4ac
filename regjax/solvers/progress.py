"""A line on stderr that tells how far a long run is."""

import sys
import time

_WIDTH = 30
_PAUSE = 0.1  # seconds between two looks at the screen


class Progress:
    """A bar of `total` parts, redrawn in place; without a total a count."""

    def __init__(self, total: int | None, unit: str = "epoch"):
        self.total, self.unit, self._drawn = total, unit, 0.0

    def tell(self, done: int, objective: float | None = None) -> None:
        """Draw the bar, unless it was drawn a moment ago and is not full."""
        now = time.monotonic()
        if now - self._drawn < _PAUSE and done != self.total:
            return
        self._drawn = now
        line = f"{self.unit} {done}"
        if self.total is not None:
            filled = min(_WIDTH * done // max(self.total, 1), _WIDTH)
            line = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {line}/{self.total}"
        if objective is not None:
            line += f"  objective {objective:.6g}"
        print(f"\r{line}", end="  ", file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the line."""
        print(file=sys.stderr, flush=True)
