"""The picture of the gallery: each page at one time, in headless Chromium, side by side.

jaxsim gallery --out g
python docs/images/gallery.py g docs/images/gallery.png
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TIMES = {  # [s]
    "staircase": 1.6,
    "thrown_spheres": 2.2,
    "box_stack": 2.85,
    "rotating_platform": 3.0,
    "pull_up": 2.0,
}


def shot(page: Path, time: float, picture: Path) -> None:
    """The page at a time [s], as a PNG."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=900,800"]
    options += ["--virtual-time-budget=3000", f"--screenshot={picture}"]
    address = f"{page.resolve().as_uri()}#t={time}"
    subprocess.run(["chromium", *options, address], check=True, capture_output=True)


def main(gallery: Path, out: Path) -> None:
    """Write the picture."""
    figure, axes = plt.subplots(2, 3, figsize=(12, 5.4))
    for axis in axes.flat:
        axis.axis("off")
    with tempfile.TemporaryDirectory() as folder:
        for axis, (name, time) in zip(axes.flat, TIMES.items(), strict=False):
            picture = Path(folder) / f"{name}.png"
            shot(gallery / name / "motion.html", time, picture)
            axis.imshow(plt.imread(picture)[55:510, 20:860])
            axis.set_title(f"{name}, {time:g} s", fontsize=9)
    figure.tight_layout(pad=0.4)
    figure.savefig(out, dpi=68)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
