"""``python -m jaxsim``: the command ``jaxsim``, where its script is not on the PATH."""

import sys
from importlib.metadata import entry_points

commands = entry_points(group="console_scripts", name="jaxsim")
if not commands:
    sys.exit("jaxsim is not installed in this Python; install it: python -m pip install -e .")
sys.exit(next(iter(commands)).load()())
