"""Files: rue's own format with text exports of policies, logs of transitions, and ocean currents (`rue.io.ocean`)."""

from rue.io.files import load, save
from rue.io.logs import read_log

__all__ = ["load", "read_log", "save"]
