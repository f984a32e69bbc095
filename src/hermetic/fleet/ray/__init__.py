"""Environments on the nodes of a Ray cluster: a host actor per node opens, serves and ends them
there.

Ray places and finds; Hermetic runs on each node as on any machine. `RayBackend` is the kind `ray`.
"""

from hermetic.fleet.ray.backend import RayBackend as RayBackend
from hermetic.fleet.ray.backend import RayFleet as RayFleet
