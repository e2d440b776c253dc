"""How many replicas a deployment is to have: a pure decision from what its routers report."""

from kernel_serve.autoscaling.autoscaler import Autoscaler
from kernel_serve.autoscaling.own_policy import load_policy
from kernel_serve.autoscaling.policy import AutoscalingContext, default_policy
from kernel_serve.autoscaling.reports import DeploymentLoad, RouterReports

__all__ = ["Autoscaler", "AutoscalingContext", "DeploymentLoad", "RouterReports", "default_policy", "load_policy"]
