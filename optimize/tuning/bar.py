"""Progress bar of a tuning run."""

import numpy as np
from tqdm import tqdm

from optimize.tuning.checkpoint import GenerationRecord


class Bar:
    """Progress bar of a search: best so far, median, failures, rollouts a second."""

    def __init__(self, generations: int, progress: bool):
        self.noted = ""
        self.bar = tqdm(total=generations, disable=not progress, unit="gen", desc="compiling")

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def note(self, text: str) -> None:
        """Set the text that stands before the numbers from now on."""
        self.noted = f"{text}, "

    def show(self, records: list[GenerationRecord]) -> None:
        """Update after a generation; the start has the number -1, a resumed run begins later."""
        record = min(records, key=lambda r: np.inf if r.best_ever is None else r.best_ever)
        self.bar.set_description("tuning", refresh=False)
        rate = sum(r.members for r in records) / max(record.seconds, 1e-9)
        numbers = ["none" if v is None else f"{v:.4g}" for v in (record.best_ever, record.median)]
        self.bar.set_postfix_str(
            f"{self.noted}best {numbers[0]}, median {numbers[1]},"
            f" failed {sum(r.failures for r in records)},"
            f" {rate:.3g} members/s",
            refresh=False,
        )
        if record.generation + 1 > self.bar.n:
            self.bar.update(record.generation + 1 - self.bar.n)
        else:
            self.bar.refresh()
