"""02, CREF-169 to 181: endpoints and backends with lives of their own, traffic, routes, splits, batches."""

from concurrent.futures import ThreadPoolExecutor

import requests
from ray import serve

serve.init()  # initializes serve and Ray

serve.create_endpoint("simple_endpoint", "/simple")
serve.delete_endpoint("simple_endpoint")


def handle_request(flask_request):
    return "hello world"


class RequestHandler:
    def __init__(self):
        self.msg = "hello, world!"

    def __call__(self, flask_request):
        return self.msg


serve.create_backend("simple_backend", handle_request)
serve.create_backend("simple_backend_class", RequestHandler)

try:  # as it is printed: the arguments are swapped, and the endpoint is deleted
    serve.set_traffic("simple_backend", {"simple_endpoint": 1.0})
except ValueError as error:
    print("ValueError", error)
except Exception as error:
    print(error)
serve.create_endpoint("simple_endpoint", "/simple")
serve.set_traffic("simple_endpoint", {"simple_backend": 1.0})

print(requests.get("http://127.0.0.1:8000/-/routes", timeout=120).text)
print(requests.get("http://127.0.0.1:8000/simple").text)

try:
    serve.delete_backend("simple_backend")
except ValueError as error:
    print(error)
serve.delete_endpoint("simple_endpoint")
serve.delete_backend("simple_backend")
serve.create_backend("simple_backend", handle_request)  # the tag can be used again

config = {"num_replicas": 2}
serve.create_backend("my_scaled_endpoint_backend", handle_request, config=config)

serve.create_endpoint("endpoint_identifier_split", "/split", methods=["GET", "POST"])
serve.create_backend("my_endpoint_backend", handle_request)
serve.create_backend("my_endpoint_backend_class", RequestHandler)

# splitting traffic 70/30
serve.set_traffic("endpoint_identifier_split", {"my_endpoint_backend": 0.7, "my_endpoint_backend_class": 0.3})
answers = [requests.post("http://127.0.0.1:8000/split").text for _ in range(10)]
print(answers.count("hello world"), answers.count("hello, world!"))


class BatchingExample:
    def __init__(self):
        self.count = 0

    @serve.accept_batch
    def __call__(self, flask_request):
        self.count += 1
        batch_size = serve.context.batch_size
        return [self.count] * batch_size


serve.create_endpoint("counter1", "/increment")

config = {"max_batch_size": 5}
serve.create_backend("counter1", BatchingExample, config=config)
serve.set_traffic("counter1", {"counter1": 1.0})

with ThreadPoolExecutor(10) as threads:
    counts = list(threads.map(lambda _: requests.get("http://127.0.0.1:8000/increment").json(), range(10)))
print(len(counts), max(counts) <= 10, max(counts.count(each) for each in counts) <= 5)
# prints:
# there is no endpoint 'simple_backend', but a backend: the endpoint comes first, as in serve...
# {"/simple": "simple_endpoint"}
# hello world
# backend 'simple_backend' can't be deleted: ...
# 7 3
# 10 True True
