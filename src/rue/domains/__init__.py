"""Built-in domains: each draws any number of samples on one graph, from a seed."""

from rue.domains.base import Domain
from rue.domains.disaster import Disaster
from rue.domains.glider import Glider
from rue.domains.medical import Medical

__all__ = ["Disaster", "Domain", "Glider", "Medical"]
