"""Where the real clips are, and small files that the tests write themselves."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("JAXSIM_MOCAP") or ROOT.parent / "shared" / "mocap")
needs_clips = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"no clips at {FOLDER}; JAXSIM_MOCAP names their folder"
)

# name of a file, then, as the README beside them says: height [m], metres a unit, range of the
# root's height [m], scheme
CLIPS = {
    "cmu_02_05__punch.amc": (1.56, 0.05644444, (0.94, 1.01), "CMU ASF"),
    "cmu_02_06__squat_reach.amc": (1.55, 0.05644444, (0.57, 1.01), "CMU ASF"),
    "cmu_05_11__pirouette.amc": (1.60, 0.05644444, (0.81, 1.07), "CMU ASF"),
    "cmu_05_11_daz__pirouette.bvh": (1.48, 0.01, (0.67, 0.93), "CMU BVH (DAZ)"),
    "cmu_12_01__walk.bvh": (1.40, 0.05644444, (0.88, 0.93), "CMU BVH (MotionBuilder)"),
    "cmu_143_35__dance_macarena.amc": (1.41, 0.05644444, (0.79, 1.00), "CMU ASF"),
    "cmu_55_25__step_in_place.amc": (1.59, 0.05644444, (0.76, 1.08), "CMU ASF"),
    "fair1_wave_hello__wave_zup.bvh": (1.70, 1.70 / 38.3, (1.05, 1.05), "fair1"),
    "snu_bboy_1_thomas__acro_flares.amc": (1.59, 0.0254, (0.30, 1.00), "SNU ASF"),
    "snu_walk_left_90degree__walk_turn.bvh": (1.45, 0.0254, (0.96, 1.05), "SNU BVH"),
    "snu_wd2_falling_down__fall_getup.bvh": (1.57, 0.01, (0.08, 1.02), "SNU BVH"),
    "snu_wd2_idle_65__stand_idle.bvh": (1.58, 0.0254, (0.98, 1.02), "SNU BVH"),
    "snu_wd2_n_kick__kick.bvh": (1.57, 0.01, (0.93, 1.00), "SNU BVH"),
}


def options(name):
    """What a file of the folder does not tell."""
    if "bboy" in name:
        return {"skeleton": FOLDER / "snu_cs04_f.asf"}
    return {"rate": 120.0} if name.endswith(".amc") else {}


# A figure with names as LaFAN's, in centimetres, Y up; {feet} may be left out.
LIMB = """
  JOINT {side}UpLeg
  {{
    OFFSET {x} 0 0
    CHANNELS 3 Zrotation Yrotation Xrotation
    JOINT {side}Leg
    {{
      OFFSET 0 -42 0
      CHANNELS 3 Zrotation Yrotation Xrotation
      {foot}
    }}
  }}"""
FOOT = """JOINT {side}Foot
      {{
        OFFSET 0 -42 0
        CHANNELS 3 Zrotation Yrotation Xrotation
        JOINT {side}Toe
        {{
          OFFSET 0 -6 12
          CHANNELS 3 Zrotation Yrotation Xrotation
          End Site
          {{
            OFFSET 0 0 6
          }}
        }}
      }}"""
STUMP = "End Site\n      {\n        OFFSET 0 -42 0\n      }"
ARM = """
      JOINT {side}Arm
      {{
        OFFSET {x} 20 0
        CHANNELS 3 Zrotation Yrotation Xrotation
        JOINT {side}ForeArm
        {{
          OFFSET {x} 0 0
          CHANNELS 3 Zrotation Yrotation Xrotation
          End Site
          {{
            OFFSET {x} 0 0
          }}
        }}
      }}"""


def figure(frames=3, feet=True, step=1.0, frame_time="0.0333333"):
    """The text of a BVH file of a human that drifts sideways, its legs still."""
    sides = (("Left", 10), ("Right", -10))
    legs = "".join(
        LIMB.format(side=s, x=x, foot=FOOT.format(side=s) if feet else STUMP) for s, x in sides
    )
    arms = "".join(ARM.format(side=s, x=2.5 * x) for s, x in sides)
    channels = 6 + 3 * (2 + 2 + 4 + (8 if feet else 4))
    rows = "\n".join(
        " ".join([f"{step * k:g}", "90", "0", "0", f"{k % 7}", "0", *["0"] * (channels - 6)])
        for k in range(frames)
    )
    return f"""HIERARCHY
ROOT Hips
{{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
  JOINT Spine
  {{
    OFFSET 0 10 0
    CHANNELS 3 Zrotation Yrotation Xrotation
    JOINT Spine1
    {{
      OFFSET 0 10 0
      CHANNELS 3 Zrotation Yrotation Xrotation
      JOINT Spine2
      {{
      OFFSET 0 10 0
      CHANNELS 3 Zrotation Yrotation Xrotation
      JOINT Head
      {{
        OFFSET 0 30 0
        CHANNELS 3 Zrotation Yrotation Xrotation
        End Site
        {{
          OFFSET 0 20 0
        }}
      }}{arms}
      }}
    }}
  }}{legs}
}}
MOTION
Frames: {frames}
Frame Time: {frame_time}
{rows}
"""


QUADRUPED = """HIERARCHY
ROOT body
{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
  JOINT fore_left
  {
    OFFSET 10 0 30
    CHANNELS 3 Zrotation Yrotation Xrotation
    End Site
    {
      OFFSET 0 -40 0
    }
  }
  JOINT hind_left
  {
    OFFSET 10 0 -30
    CHANNELS 3 Zrotation Yrotation Xrotation
    End Site
    {
      OFFSET 0 -40 0
    }
  }
}
MOTION
Frames: 2
Frame Time: 0.02
0 40 0 0 0 0 0 0 0 0 0 0
1 40 0 0 0 0 0 0 0 0 0 0
"""

ASF = """:version 1.10
:name tiny
:units
  mass 1.0
  length 0.45
  angle deg
:root
  order TX TY TZ RX RY RZ
  axis XYZ
  position 0 0 0
  orientation 0 0 0
:bonedata
  begin
    id 1
    name upper
    direction 0 -1 0
    length 2
    axis 0 0 20 XYZ
    dof rx ry rz
    limits (-160.0 20.0)
           (-70.0 70.0)
           (-60.0 70.0)
  end
  begin
    id 2
    name lower
    direction 0 -1 0
    length 3
    axis 0 0 20 XYZ
    dof rx
  end
:hierarchy
  begin
    root upper
    upper lower
  end
"""
AMC = """:FULLY-SPECIFIED
:DEGREES
1
root 1 2 3 10 20 30
upper 5 6 7
lower 40
2
root 1 2 3 11 21 31
upper 6 7 8
lower 41
"""
