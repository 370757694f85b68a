"""Views of a motion, without perspective: by name, and the one that shows most.

Characters face along x. From the side x points to the right, from the front y does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jaxsim.io.motion import Motion
from jaxsim.viewer.series import followed_links, followed_point, tracks, world_poses

__all__ = ["NEAR", "VIEWS_DEG", "View", "choose_view", "view_from"]

VIEWS_DEG = {  # name -> about z, away from the side, and how far from above
    "side": (0.0, 0.0),
    "front": (90.0, 0.0),
    "top": (0.0, 89.9),
    "corner": (35.0, 22.0),
}
NEAR = 1.5  # [m] beside the character: what loose things do farther off does not count
STILL = 0.1  # [m]: a character that moves less is shown from the side
ASIDE = 0.5  # largest motion along the line of sight, relative to that across it


@dataclass(frozen=True)
class View:
    """A viewing direction: vectors to the right and up in the picture, and towards the eye."""

    name: str  # of VIEWS_DEG
    right: np.ndarray  # (3,) unit vectors in the world, at right angles
    up: np.ndarray  # (3,)
    back: np.ndarray  # (3,)

    @property
    def level(self) -> bool:
        """True if the view is along the ground, so that up is z."""
        return abs(float(self.back[2])) < 1e-6

    def project(self, points: np.ndarray) -> np.ndarray:
        """Positions (..., 2) [m] in the picture of points (..., 3) [m] of the world."""
        return points @ np.stack([self.right, self.up], axis=1)


def view_from(name: str, yaw_deg: float | None = None) -> View:
    """View of a name, or turned about z to another angle. Raises KeyError for other names."""
    usual_deg, pitch_deg = VIEWS_DEG[name]
    yaw, pitch = np.radians([usual_deg if yaw_deg is None else yaw_deg, pitch_deg])
    (cy, sy), (cp, sp) = ((np.cos(angle), np.sin(angle)) for angle in (yaw, pitch))
    right = np.array([cy, sy, 0.0])
    return View(name, right, np.array([-sy * sp, cy * sp, cp]), np.array([sy * cp, -cy * cp, sp]))


def choose_view(motion: Motion) -> View:
    """Choose the view that shows a motion: across its direction.

    Of each point the extent of its motion counts, the largest along x and the largest along y; of
    bodies beside a character only while they are near it. Where one is less than half of the other,
    the view is along it: from the side for motion along x, from the front for motion along y, such
    as a fall to the side. Otherwise from a corner: that of the page, which shows faces, or the one
    behind where the motion is over twice as wide from there. Planar characters, and characters that
    stay in place, are shown from the side. Where a box of the surroundings, such as a wall, is
    between the eye and a character, another view is taken if there is one without.
    """
    chosen = _across(motion)
    corner = VIEWS_DEG["corner"][0]
    others = [view_from("corner"), view_from("corner", -corner), view_from("side")]
    return next((view for view in (chosen, *others) if not _hidden(motion, view)), chosen)


def _hidden(motion: Motion, view: View) -> bool:
    """True if a box of the surroundings hides the character in more than half of the frames.

    The box intersects a ray from the followed point to the eye; frames without a finite point do
    not count.
    """
    middle = followed_point(motion)
    middle = middle[np.isfinite(middle).all(axis=-1)]
    if motion.planar or not len(middle):
        return False
    before = np.zeros(len(middle), bool)
    for shape in motion.shapes:
        if shape.kind == "box" and shape.link < 0:
            pos, axes = world_poses(motion, shape, 0)
            start, way = (middle - pos) @ axes.T, axes @ view.back
            way = np.where(np.abs(way) < 1e-9, 1e-9, way)
            ends = np.stack([(side * np.asarray(shape.size) - start) / way for side in (-1, 1)])
            enters, leaves = ends.min(axis=0).max(axis=-1), ends.max(axis=0).min(axis=-1)
            before |= (enters < leaves) & (enters > 0)
    return bool(before.mean() > 0.5)


def _across(motion: Motion) -> View:
    """View across the direction of motion, whatever is in between."""
    side = view_from("side")
    points = _near(motion)
    x, y = _longest(points, np.array([1.0, 0, 0])), _longest(points, np.array([0, 1.0, 0]))
    if motion.planar or max(x, y) < STILL or y < ASIDE * x:
        return side
    if x < ASIDE * y:
        return view_from("front")
    corner, behind = view_from("corner"), view_from("corner", -VIEWS_DEG["corner"][0])
    along = _longest(points, corner.right) < ASIDE * _longest(points, behind.right)
    return behind if along else corner


def _near(motion: Motion) -> np.ndarray:
    """Points (T, n, 3) [m] of `tracks`, NaN where far from the followed point."""
    with np.errstate(invalid="ignore", over="ignore"):  # of samples that are not finite
        points, links = tracks(motion)
        away = np.linalg.norm((points - followed_point(motion)[:, None])[..., :2], axis=-1)
    counts = followed_links(motion)[links] | (away < NEAR)
    counts &= np.isfinite(points).all(axis=-1)
    return np.where(counts[..., None], points, np.nan)


def _longest(points: np.ndarray, direction: np.ndarray) -> float:
    """Largest extent [m] of one of (T, n, 3) points along a direction; 0 without any."""
    along = points @ direction
    known = np.isfinite(along)
    high = np.where(known, along, -np.inf).max(axis=0, initial=-np.inf)
    low = np.where(known, along, np.inf).min(axis=0, initial=np.inf)
    return float(np.maximum(high - low, 0.0).max(initial=0.0))
