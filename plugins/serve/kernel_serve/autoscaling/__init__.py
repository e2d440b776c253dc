"""Decide how many replicas a deployment has, from what its routers report. Pure."""

from kernel_serve.autoscaling.autoscaler import Autoscaler
from kernel_serve.autoscaling.own_policy import load_policy
from kernel_serve.autoscaling.policy import AutoscalingContext, default_policy
from kernel_serve.autoscaling.reports import DeploymentLoad, RouterReports

__all__ = ["Autoscaler", "AutoscalingContext", "DeploymentLoad", "RouterReports", "default_policy", "load_policy"]
