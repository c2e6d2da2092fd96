"""Files: rue's own format with text exports of policies, logs of transitions, and ocean currents (`rue.io.ocean`)."""

from rue.formats.files import load, save
from rue.formats.logs import read_log

__all__ = ["load", "read_log", "save"]
