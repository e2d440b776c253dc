"""The answers to `kernel.v1`: a class for each service, a method for each call, run in the head's loop.

They ask the head what programs ask it (`Head.methods`), and say it in messages.
"""

from kernel_control_grpc.services.actors import Actors
from kernel_control_grpc.services.events import Events
from kernel_control_grpc.services.jobs import Jobs
from kernel_control_grpc.services.key_value import KeyValue
from kernel_control_grpc.services.nodes import Nodes
from kernel_control_grpc.services.placement_groups import PlacementGroups
from kernel_control_grpc.services.pub_sub import PubSub
from kernel_control_grpc.services.session import Session

SERVICES = (Actors, Events, Jobs, KeyValue, Nodes, PlacementGroups, PubSub, Session)
