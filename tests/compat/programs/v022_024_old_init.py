"""V022-024 to V022-041, CREF-058 to CREF-093: arguments of `ray.init` of all generations, and what it returns."""

import warnings

import ray

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    info = ray.init(
        num_cpus=2,
        redis_max_memory=10**9,
        num_redis_shards=1,
        include_webui=False,
        webui_host="localhost",
        object_id_seed=7,
        lru_evict=True,
        log_to_driver=False,
        configure_logging=False,
        object_store_memory=200 * 1024 * 1024,
        driver_object_store_memory=100 * 1024 * 1024,
    )
for warning in caught:
    print(warning.category.__name__, str(warning.message).split(":")[0])
for key in ("node_ip_address", "redis_address", "object_store_address", "webui_url", "session_dir", "node_id"):
    assert key in info, key
print(ray.get_webui_url() == "", ray.SCRIPT_MODE == ray.worker.global_worker.mode)
ray.shutdown()
try:
    ray.init(include_java=True)
except NotImplementedError as error:
    print(error)
try:
    ray.init(address="10.1.2.3:6379", num_cpus=2)
except ValueError as error:
    print(error)
try:
    ray.init(address="auto", nonsense=1)
except TypeError as error:
    print(error)
ray.init(driver_mode=ray.PYTHON_MODE)
print(ray.worker.global_worker.mode == ray.LOCAL_MODE)

# prints:
# UserWarning ray.init(redis_max_memory=...) has no effect on kernel
# UserWarning ray.init(num_redis_shards=...) has no effect on kernel
# UserWarning ray.init(lru_evict=...) has no effect on kernel
# True True
# ray.init(include_java=...) is not supported: kernel runs Python only
# num_cpus can be chosen only where the session is started, not with address='10.1.2.3:6379'
# ray.init() has no argument 'nonsense' that kernel knows
# True
