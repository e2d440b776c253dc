"""02, CREF-182: everything in one program, two versions side by side, the second of which takes over."""

import time

import ray
import requests
from ray import serve
from ray.serve.config import BackendConfig
from ray.serve.exceptions import RayServeException

ray.init(num_cpus=4)
serve.init()

# An endpoint is a way in; its name can be any, and is what traffic is set for.
serve.create_endpoint("my_endpoint", "/echo", methods=["GET", "POST"])


def echo_v1(flask_request):
    return {"version": 1, "said": flask_request.args.get("response", "hello from python!")}


serve.create_backend("echo:v1", echo_v1)
serve.set_traffic("my_endpoint", {"echo:v1": 1.0})

for _ in range(3):
    print(requests.get("http://127.0.0.1:8000/echo", timeout=120).json())
print(requests.get("http://127.0.0.1:8000/echo?response=hi", timeout=120).json())


def echo_v2(flask_request):
    # A handle gives named arguments; a client gives a request.
    return {"version": 2, "web": serve.context.web}


serve.create_backend("echo:v2", echo_v2, config=BackendConfig(num_replicas=2))
serve.set_traffic("my_endpoint", {"echo:v1": 0.5, "echo:v2": 0.5})
versions = [requests.post("http://127.0.0.1:8000/echo").json()["version"] for _ in range(20)]
print("half and half:", versions.count(1), versions.count(2))

# The second version is good: it takes all.
serve.set_traffic("my_endpoint", {"echo:v2": 1.0})
print({requests.get("http://127.0.0.1:8000/echo").json()["version"] for _ in range(10)})
serve.delete_backend("echo:v1")

# Python programs call the endpoint by a handle.
handle = serve.get_handle("my_endpoint")
print(ray.get(handle.remote(response="hello")))
print(ray.get([handle.remote() for _ in range(2)], timeout=120))

print(serve.get_backend_config("echo:v2").num_replicas)
serve.update_backend_config("echo:v2", {"num_replicas": 1})
print(sorted(serve.list_backends()), sorted(serve.list_endpoints()))
deadline = time.time() + 120
while serve.stat()["backends"]["echo:v2"]["replicas"] != {"RUNNING": 1} and time.time() < deadline:
    time.sleep(0.05)
print(serve.stat()["backends"]["echo:v2"]["replicas"])

try:
    serve.create_backend("echo:v3", echo_v1, config={"max_batch_size": 5})
except RayServeException as error:
    print(type(error).__name__, "max_batch_size" in str(error))
# prints:
# {'version': 1, 'said': 'hello from python!'}
# {'version': 1, 'said': 'hello from python!'}
# {'version': 1, 'said': 'hello from python!'}
# {'version': 1, 'said': 'hi'}
# half and half: 10 10
# {2}
# {'version': 2, 'web': False}
# [{'version': 2, 'web': False}, {'version': 2, 'web': False}]
# 2
# ['echo:v2'] ['my_endpoint']
# {'RUNNING': 1}
# DeploymentError True
