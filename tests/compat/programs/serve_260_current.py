"""Serve as Ray 2 spells it: composition, handles, status, batching, a FastAPI application, several at once."""

import asyncio

import ray
import requests
from fastapi import FastAPI
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, HTTPOptions, ProxyLocation
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle, DeploymentResponse
from ray.serve.schema import (
    ApplicationStatus,
    DeploymentStatus,
    EncodingType,
    LoggingConfig,
    ServeApplicationSchema,
    ServeDeploySchema,
)

ray.init(num_cpus=4)
serve.start(proxy_location=ProxyLocation.HeadOnly, http_options=HTTPOptions(host="127.0.0.1", port=8000, num_cpus=0))

app = FastAPI()


@serve.deployment(ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=10, user_config={"factor": 3})
class Multiplier:
    def reconfigure(self, config):
        self.factor = config["factor"]

    @serve.batch(max_batch_size=4, batch_wait_timeout_s=0.05)
    async def __call__(self, values):
        return [value * self.factor for value in values]


@serve.deployment(num_replicas=1, autoscaling_config=None)
@serve.ingress(app)
class Ingress:
    def __init__(self, multiplier: DeploymentHandle):
        self.multiplier = multiplier

    @app.get("/times/{value}")
    async def times(self, value: int):
        return {"result": await self.multiplier.remote(value), "app": serve.get_replica_context().app_name}


logs = LoggingConfig(encoding=EncodingType.JSON)
handle = serve.run(Ingress.bind(Multiplier.bind()), False, "math", route_prefix="/math", logging_config=logs)
print(type(handle) is DeploymentHandle, requests.get("http://127.0.0.1:8000/math/times/14").json())

status = serve.status().applications["math"]
print(status.status == ApplicationStatus.RUNNING, status.deployments["Multiplier"].status == DeploymentStatus.HEALTHY)

config = ServeDeploySchema(applications=[ServeApplicationSchema(name="math", import_path="math_app:app")])
print(config.applications[0].route_prefix, ServeDeploySchema(**config.dict(exclude_unset=True)).applications[0].name)

direct = serve.get_deployment_handle("Multiplier", app_name="math")
response: DeploymentResponse = direct.remote(5)
print(response.result(timeout_s=120), ray.get(response._to_object_ref_sync()), ray.get(direct.remote(6)))


policy = AutoscalingPolicy(policy_function="ray.serve.autoscaling_policy:default_autoscaling_policy")


@serve.deployment(autoscaling_config=AutoscalingConfig(min_replicas=1, max_replicas=2, policy=policy))
class Stream:
    def __call__(self, request):
        yield from ("one ", "two ", "three")

    def count(self, upto):
        yield from range(upto)


handles = serve.run_many([serve.RunTarget(Stream.bind(), name="stream", route_prefix="/stream")])
print(requests.get("http://127.0.0.1:8000/stream", stream=True).text)
print(list(handles[0].options(stream=True).count.remote(3)))


async def main():
    return await asyncio.gather(*[direct.remote(value) for value in range(4)])


print(asyncio.run(main()))
try:
    serve.get_app_handle("nothing")
except RayServeException as error:
    print("RayServeException:", error)
serve.delete("stream")
print(sorted(serve.status().applications))
serve.shutdown()
# prints:
# True {'result': 42, 'app': 'math'}
# True True
# / math
# 15 15 18
# one two three
# [0, 1, 2]
# [0, 3, 6, 9]
# RayServeException: there is no application 'nothing'; there are math, stream
# ['math']
