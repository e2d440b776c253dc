"""The answers to `kernel.v1`: a class for each service, a method for each call, run in the head's loop.

They ask the head what programs ask it (`Head.methods`), and say it in messages.
"""

from kernel.control_plane.services.actors import Actors
from kernel.control_plane.services.events import Events
from kernel.control_plane.services.jobs import Jobs
from kernel.control_plane.services.key_value import KeyValue
from kernel.control_plane.services.nodes import Nodes
from kernel.control_plane.services.placement_groups import PlacementGroups
from kernel.control_plane.services.pub_sub import PubSub
from kernel.control_plane.services.session import Session

SERVICES = (Actors, Events, Jobs, KeyValue, Nodes, PlacementGroups, PubSub, Session)
