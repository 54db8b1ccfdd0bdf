"""Power, clock and temperature of the first GPU while something runs, by nvidia-smi."""

import statistics
import subprocess
import threading
from contextlib import contextmanager

FIELDS = {"power_w": "power.draw.instant", "sm_mhz": "clocks.sm", "celsius": "temperature.gpu"}
REASONS = "clocks_event_reasons.active"


class Watch:
    def __init__(self):
        self.lines = []

    def summary(self):
        """{field: [least, median, most]} and the reasons for a lower clock that were seen; {} without samples."""
        rows = [row for row in (line.strip().split(", ") for line in self.lines) if len(row) == len(FIELDS) + 1]
        if not rows:
            return {}
        found = {}
        for i, name in enumerate(FIELDS):
            values = [v for v in (_number(row[i]) for row in rows) if v is not None]
            found[name] = [min(values), statistics.median(values), max(values)] if values else None
        return {**found, "clock_reasons": sorted({row[-1] for row in rows}), "samples": len(rows)}


def _number(text):
    try:
        return float(text)
    except ValueError:
        return None


@contextmanager
def watching(device, every_ms=100):
    """Samples while the block runs; nothing where there is no GPU or no nvidia-smi."""
    watch, process, reader = Watch(), None, None
    if device.type == "cuda":
        query = ",".join([*FIELDS.values(), REASONS])
        try:
            process = subprocess.Popen(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits", "-i", "0",
                                        "-lms", str(every_ms)], stdout=subprocess.PIPE, text=True)
            reader = threading.Thread(target=lambda: watch.lines.extend(process.stdout), daemon=True)
            reader.start()
        except OSError:
            process = None
    try:
        yield watch
    finally:
        if process is not None:
            process.terminate()
            reader.join(timeout=5)
            process.wait()
