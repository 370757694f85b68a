"""Humans of model files whose hands, feet and head have no joint of their own."""

ARM = """
  <body name="{side}_upper_arm" pos="0 {y} 0.4">
    <joint name="{side}_shoulder" type="ball"/><geom type="capsule" size="0.04" fromto="{arm}"/>
    <body name="{side}_forearm" pos="{elbow}">
      <joint name="{side}_elbow" type="ball"/>{forearm}</body></body>"""
LEG = """
  <body name="{side}_thigh" pos="0 {hip} -0.05">
    <joint name="{side}_hip" type="ball"/>
    <geom type="capsule" size="0.06" fromto="0 0 0 0 0 -0.4"/>
    <body name="{side}_shin" pos="0 0 -0.4">
      <joint name="{side}_knee" type="ball"/>
      <geom name="{side}_calf" type="capsule" size="0.05" fromto="0 0 0 0 0 -0.38"/>{foot}</body>
  </body>"""
FOOT = '<geom name="{side}_foot_box" type="box" size="0.12 0.05 0.03" pos="0.06 0 {z}"/>'
HANDS = {
    "fixed": '<body name="{side}_hand" pos="0 0 -0.25"><geom size="0.04"/></body>'
    '<geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.2"/>',
    "shape": '<geom name="{side}_hand" size="0.04" pos="0 0 -0.28"/>'
    '<geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.2"/>',
    "at the elbow": '<body name="{side}_hand"><geom size="0.04" pos="0 0 -0.25"/></body>'
    '<geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.2"/>',
    "none": '<inertial pos="0 0 -0.1" mass="1" diaginertia="0.01 0.01 0.01"/>',
    "nothing known": '<inertial pos="0 0 0" mass="1" diaginertia="0.01 0.01 0.01"/>',
}
FEET = {
    "fixed": '<body name="{side}_foot" pos="0 0 -0.4">'
    + FOOT.format(side="{side}", z=-0.04)
    + "</body>",
    "shape": FOOT.format(side="{side}", z=-0.44).replace("foot_box", "foot"),
    "at the knee": '<body name="{side}_foot">' + FOOT.format(side="{side}", z=-0.44) + "</body>",
}
HEADS = {
    "fixed": '<body name="head" pos="0 0 0.6"><geom size="0.1"/></body>',
    "shape": '<geom name="head" size="0.1" pos="0 0 0.6"/>',
    "none": "",
}


def human(hands: str, feet: str, head: str) -> str:
    """MJCF of a human on balls that stands at qpos0."""
    arms, legs = "", ""
    for side, sign in (("left", 1), ("right", -1)):
        hand, foot = HANDS[hands].format(side=side), FEET[feet].format(side=side)
        arms += ARM.format(
            side=side, y=0.2 * sign, arm="0 0 0 0 0 -0.28", elbow="0 0 -0.28", forearm=hand
        )
        legs += LEG.format(side=side, hip=0.1 * sign, foot=foot)
    return f"""<mujoco><worldbody><geom type="plane" size="1 1 1"/>
      <body name="pelvis" pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.15 0.1"/>{legs}
      <body name="chest" pos="0 0 0.1"><joint name="waist" type="ball"/>
      <geom type="box" size="0.1 0.15 0.2" pos="0 0 0.3"/>{HEADS[head]}{arms}
      </body></body></worldbody></mujoco>"""
