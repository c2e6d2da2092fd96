"""Files: rue's own format, and text exports of policies."""

from rue.io.files import load, save

__all__ = ["load", "save"]
