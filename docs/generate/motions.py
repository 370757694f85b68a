"""The motions that come with the package, in optimize/scenarios/shipped/motions.

    python docs/generate/motions.py             writes them anew
    python docs/generate/motions.py --out DIR   elsewhere

Each is a cycle: its last frame is the first one, moved on. For ``loop = true`` of scenarios.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from jaxsim import ball_joint_human  # noqa: E402
from jaxsim.mocap.gaits import kick, reach, walk  # noqa: E402
from jaxsim.mocap.plan import MotionPlan, clip_of_plan  # noqa: E402
from jaxsim.mocap.write_bvh import write_bvh  # noqa: E402

FOLDER = ROOT / "optimize" / "scenarios" / "shipped" / "motions"


def plans() -> tuple[MotionPlan, ...]:
    """Of all files."""
    return (
        walk(0.0, name="walk_in_place"),
        walk(0.45, lift=0.14, height=0.965, name="walk"),
        kick(),
        reach(),
    )


def write(folder: Path) -> list[Path]:
    """The files, by name."""
    model, files = ball_joint_human(), []
    for plan in plans():
        files.append(folder / f"{plan.name}.bvh")
        write_bvh(files[-1], clip_of_plan(plan, model))
    return files


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=FOLDER)
    for file in write(parser.parse_args().out):
        print(f"wrote {file}")


if __name__ == "__main__":
    main()
