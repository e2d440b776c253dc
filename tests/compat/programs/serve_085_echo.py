"""02, CREF-168 to 174: a function and a class behind endpoints."""

import ray
import requests
from ray import serve

serve.init()


def echo(flask_request):
    return "hello " + flask_request.args.get("name", "serve!")


serve.create_endpoint("hello", "/hello")
serve.create_backend("hello", echo)
serve.set_traffic("hello", {"hello": 1.0})

print(requests.get("http://127.0.0.1:8000/hello").text)
print(requests.get("http://127.0.0.1:8000/hello?name=you").text)


class Counter:
    def __init__(self):
        self.count = 0

    def __call__(self, flask_request):
        return {"current_counter": self.count}


serve.create_endpoint("counter", "/counter")
serve.create_backend("counter", Counter)
serve.set_traffic("counter", {"counter": 1.0})

print(requests.get("http://127.0.0.1:8000/counter").json())
print(ray.get(serve.get_handle("hello").remote(name="me")))
# prints:
# hello serve!
# hello you
# {'current_counter': 0}
# hello me
