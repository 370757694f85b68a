"""Small charts as SVG text, in the colours of the page they stand in, light or dark."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH, HEIGHT = 340, 170
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 22, 34  # of the frame
MOST = 400  # points of a line


@dataclass(frozen=True)
class Line:
    """Curve y over x, (k,) each; NaN is a gap. colour: of ``jaxsim.viewer.colours``."""

    x: np.ndarray
    y: np.ndarray
    colour: str = "accent"
    width: float = 1.5
    dashed: bool = False


@dataclass(frozen=True)
class Band:
    """Shaded area from low to high over x, (k,) each."""

    x: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Dots:
    """Points (k,), each with a text, and a key by which the page's script finds it."""

    x: np.ndarray
    y: np.ndarray
    texts: Sequence[str]
    keys: Sequence[str | None]


def chart(
    title: str,
    lines: Sequence[Line] = (),
    band: Band | None = None,
    dots: Dots | None = None,
    across: str = "generation",
    log: bool = False,
) -> str:
    """SVG chart with its axes; log: the logarithm of y.

    The vertical range is that of most values of the lines: a few outliers are cut off.
    """
    drawn = [*lines, *([Line(band.x, band.low), Line(band.x, band.high)] if band else [])]
    x = np.concatenate([line.x for line in drawn] + ([dots.x] if dots else []))
    y = np.concatenate([line.y for line in drawn] + ([dots.y] if dots else []))
    across_ends, up_ends = _range(x), _range(y, dots is None, log)
    if dots:
        across_ends, up_ends = _wider(across_ends), _wider(up_ends)
    frame = _ChartFrame(across_ends, up_ends, log)
    inside = [_band(frame, band)] if band else []
    inside += [_path(frame, line) for line in lines]
    inside += _dots(frame, dots) if dots else []
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">'
        f'<text x="4" y="13" class="title">{html.escape(title)}</text>'
        f"{_axes(frame, across)}"
        f'<svg x="{LEFT}" y="{TOP - 4}" width="{WIDTH - LEFT - RIGHT}"'
        f' height="{HEIGHT - TOP - BOTTOM + 8}"'
        f' viewBox="{LEFT} {TOP - 4} {WIDTH - LEFT - RIGHT} {HEIGHT - TOP - BOTTOM + 8}">'
        f"{''.join(inside)}</svg></svg>"
    )


def _range(values: np.ndarray, cut: bool = False, log: bool = False) -> tuple[float, float]:
    """Least and greatest finite value; cut: without far outliers."""
    good = values[np.isfinite(values) & ((values > 0) | (not log))]
    if not good.size:
        return (1.0, 10.0) if log else (0.0, 1.0)
    low, high = float(good.min()), float(good.max())
    if cut and not log:
        near = np.percentile(good, [5, 90])
        reach = 1.5 * (near[1] - near[0])
        if reach > 0:
            low, high = max(low, near[0] - reach), min(high, near[1] + reach)
    if low == high:
        return (
            (low / 2, high * 2) if log else (low - (abs(low) or 1) / 2, low + (abs(low) or 1) / 2)
        )
    return low, high


def _wider(ends: tuple[float, float]) -> tuple[float, float]:
    """Range with a margin for dots at its ends."""
    room = 0.05 * (ends[1] - ends[0])
    return ends[0] - room, ends[1] + room


@dataclass(frozen=True)
class _ChartFrame:
    """Map from values to positions on the picture."""

    x: tuple[float, float]
    y: tuple[float, float]
    log: bool

    def across(self, x):
        low, high = self.x
        return LEFT + (np.asarray(x) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def up(self, y):
        low, high = self.y
        with np.errstate(divide="ignore", invalid="ignore"):
            y, low, high = (np.log(v) if self.log else np.asarray(v) for v in (y, low, high))
        share = np.clip((y - low) / (high - low), -0.1, 1.1)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _axes(frame: _ChartFrame, across: str) -> str:
    bottom, middle = HEIGHT - BOTTOM, (LEFT + WIDTH - RIGHT) / 2
    parts = []
    for tick in ticks(*frame.x):
        at = float(frame.across(tick))
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 3}"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 14}" class="mid">{tick:g}</text>')
    for tick in _factors(*frame.y) if frame.log else ticks(*frame.y):
        at = float(frame.up(tick))
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 4}" y="{at + 4:.1f}" class="end">{tick:.6g}</text>')
    named = f'<text x="{middle}" y="{HEIGHT - 5}" class="mid">{html.escape(across)}</text>'
    return f'<g class="axes">{"".join(parts)}{named}</g>'


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from low to high, about ``most`` of them.

    >>> ticks(0.0, 10.0)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    raw = (high - low) / most
    size = 10.0 ** np.floor(np.log10(raw))
    step = size * min((m for m in (1, 2, 5, 10) if m * size >= raw * 0.999), default=10)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") + 0.0 for k in np.arange(first, last + 1)]


def _factors(low: float, high: float) -> list[float]:
    """A few powers of ten, or 1, 2, 5 times these where only one is within."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    found = [float(p) for p in powers if low <= p <= high]
    if len(found) < 2:
        found = [float(m * p) for p in powers for m in (1, 2, 5) if low <= m * p <= high]
    return found[:: max(1, len(found) // 4)] or [low, high]


def _thinned(*columns: np.ndarray) -> list[np.ndarray]:
    kept = np.unique(np.linspace(0, len(columns[0]) - 1, MOST).astype(int))
    return [np.asarray(column)[kept] for column in columns]


def _path(frame: _ChartFrame, line: Line) -> str:
    if not len(line.x):
        return ""
    x, y = _thinned(line.x, line.y)
    parts, begun = [], False
    for a, b in zip(frame.across(x), frame.up(y)):
        if np.isfinite(b):
            parts.append(f"{'L' if begun else 'M'}{a:.1f} {b:.1f}")
        begun = bool(np.isfinite(b))
    dash = ' stroke-dasharray="4 3"' if line.dashed else ""
    return (
        f'<path d="{"".join(parts)}" fill="none" stroke="var(--{line.colour})"'
        f' stroke-width="{line.width}"{dash}/>'
    )


def _band(frame: _ChartFrame, band: Band) -> str:
    x, low, high = _thinned(band.x, band.low, band.high)
    good = np.isfinite(low) & np.isfinite(high)
    around = np.append(x[good], x[good][::-1]), np.append(low[good], high[good][::-1])
    points = zip(frame.across(around[0]), frame.up(around[1]))
    text = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    return f'<polygon points="{text}" fill="var(--accent)" opacity="0.2"/>'


def _dots(frame: _ChartFrame, dots: Dots) -> list[str]:
    found = []
    for x, y, text, key in zip(frame.across(dots.x), frame.up(dots.y), dots.texts, dots.keys):
        own = "" if key is None else f' data-key="{html.escape(key)}" tabindex="0" role="button"'
        found.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"{own}>'
            f"<title>{html.escape(text)}</title></circle>"
        )
    return found
