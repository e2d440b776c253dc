"""Names that have moved or changed since 0.2.2: each is found, means what it meant, and warns."""

import importlib
import warnings

import ray

PLACES = {
    "ray.ObjectID": "ray.ObjectRef",
    "ray.ObjectStoreFullError": "ray.exceptions.ObjectStoreFullError",
    "ray.UnreconstructableError": "ray.exceptions.ObjectLostError",
    "ray.exceptions.RayTimeoutError": "ray.exceptions.GetTimeoutError",
    "ray.exceptions.RayWorkerError": "ray.exceptions.WorkerCrashedError",
    "ray.experimental.get_actor": "ray.get_actor",
    "ray.services.get_node_ip_address": "ray.util.get_node_ip_address",
    "ray.util.get_actor": "ray.get_actor",
}


def find(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


for old, new in PLACES.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        same = find(old) is find(new)
    print(old.split(".")[-1], same, len(caught) >= 1 and issubclass(caught[0].category, DeprecationWarning))
for name in ("ray.objects", "ray.java_function"):
    refused = find(name)
    try:
        refused()
    except ray.exceptions.RayError as error:
        print(error)
for module in ("ray.workflow", "ray.projects", "ray.util.dask.scheduler"):
    try:
        importlib.import_module(module)
    except ImportError as error:
        print(str(error).split(":")[0])
try:
    from ray import tune
except ImportError as error:
    print("tune" in str(error))
else:
    print(tune.__name__ == "ray.tune" and tune.Tuner.__name__ == "Tuner")
print(ray.__version__.count(".") == 2, "get" in dir(ray), "ObjectID" in ray.__all__)

# prints:
# ObjectID True True
# ObjectStoreFullError True True
# UnreconstructableError True True
# RayTimeoutError True True
# RayWorkerError True True
# get_actor True True
# get_node_ip_address True True
# get_actor True True
# ray.objects is not supported: `kernel memory` shows who holds which object
# ray.java_function is not supported: kernel runs Python only
# ray.workflow is not supported on kernel
# ray.projects is not supported on kernel
# ray.util.dask is not supported on kernel
# True
# True True False
