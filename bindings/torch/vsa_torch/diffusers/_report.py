"""What ran in a model with VSA: the route, the kept share and the time of every layer and step."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One self-attention: with guidance a layer runs twice in a step."""

    step: int
    layer: int
    route: str  # "vsa", or "dense": all tiles
    kept: float  # pairs of tiles that the fine stage computed, of all
    seconds: float | None  # of the attention with its projections; None on a GPU, which runs behind


@dataclass
class VsaReport:
    """The rows of the last run, and how many gates were loaded."""

    num_gates: int = 0
    rows: list = field(default_factory=list)

    def add(self, **row):
        self.rows.append(Row(**row))

    def clear(self):
        self.rows.clear()

    @property
    def kept(self):
        """Mean kept share of all rows; 1 without any."""
        return sum(row.kept for row in self.rows) / len(self.rows) if self.rows else 1.0

    def __str__(self):
        lines = [f"VSA: {len(self.rows)} attentions, {self.kept:.1%} of the tile pairs kept, "
                 f"{self.num_gates} gates"]
        for step in sorted({row.step for row in self.rows}):
            rows = [row for row in self.rows if row.step == step]
            dense = sorted({row.layer for row in rows if row.route == "dense"})
            times = [row.seconds for row in rows if row.seconds is not None]
            time = f", {sum(times):.3f} s" if times else ""
            kept = sum(row.kept for row in rows) / len(rows)
            lines.append(f"  step {step}: kept {kept:.1%}, dense layers {dense}{time}")
        return "\n".join(lines)
