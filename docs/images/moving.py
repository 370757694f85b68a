"""The moving picture of the README: two pages of results, frame by frame in headless Chromium.

jaxsim simulate kip_up_athletic --seconds 3.2 --out runs/kip
jaxsim simulate push --seconds 3.2 --out runs/push
python docs/images/moving.py runs/kip runs/push docs/images/moving.gif
"""

import sys
import tempfile
from pathlib import Path

from gallery import shot
from PIL import Image

FRAMES = 32
STEP = 0.075  # between frames [s]
BEGIN = (0.0, 0.8)  # of the two motions [s]
CUT = ((220, 125, 660, 407), (250, 118, 640, 493))  # left, top, right, bottom [pixels]
HEIGHT = 260  # of the picture [pixels]
WIDTHS = (406, 270)
COLOURS = 48


def main(folders: list[Path], out: Path) -> None:
    """Write the picture: the motions side by side, a little pause at the end."""
    frames = []
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "shot.png"
        for frame in range(FRAMES):
            whole = Image.new("RGB", (sum(WIDTHS), HEIGHT))
            for side, (run, begin, cut) in enumerate(zip(folders, BEGIN, CUT, strict=True)):
                shot(run / "motion.html", begin + frame * STEP, picture)
                part = Image.open(picture).convert("RGB").crop(cut)
                whole.paste(part.resize((WIDTHS[side], HEIGHT)), (side * WIDTHS[0], 0))
            frames.append(whole.quantize(COLOURS, dither=Image.Dither.NONE))
    lasts = [round(1000 * STEP)] * (FRAMES - 1) + [1500]  # [ms]
    frames[0].save(out, save_all=True, append_images=frames[1:], duration=lasts, loop=0)


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:3]], Path(sys.argv[3]))
