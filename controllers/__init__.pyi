"""The public names of the package, each from its place; loaded when they are first used."""

from controllers.goals.balance import FIRM as FIRM
from controllers.goals.balance import balance_machine as balance_machine
from controllers.goals.controller import GoalController as GoalController
from controllers.goals.everyday import look_at as look_at
from controllers.goals.everyday import wave as wave
from controllers.goals.machine import GoalMachine as GoalMachine
from controllers.goals.machine import GoalState as GoalState
from controllers.goals.response import Response as Response
from controllers.goals.sitting import seated_effectors as seated_effectors
from controllers.goals.sitting import sit as sit
from controllers.goals.step_to import step_to as step_to
from controllers.pose.motion import MotionController as MotionController
from controllers.pose.motion import TrackingController as TrackingController
from controllers.pose.pd import PoseController as PoseController
from controllers.protocol import Controller as Controller
from controllers.scl.ast import Script as Script
from controllers.scl.controller import ScriptController as ScriptController
from controllers.scl.errors import ScriptError as ScriptError
from controllers.scl.load import load_script as load_script
from controllers.scl.load import script_controller as script_controller
from controllers.scl.load import script_path as script_path
from controllers.scl.load import shipped_scripts as shipped_scripts
from controllers.scl.load import vocabulary as vocabulary
from controllers.scl.parser import parse as parse
from controllers.scl.writer import rewrite as rewrite
