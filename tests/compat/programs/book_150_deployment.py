"""08, BOOK-150 to 157: a function as a deployment, in the words of the years between."""

import requests
from ray import serve


def pipeline(task, model):
    def generate(query, max_length):
        return [{"generated_text": f"{query} Is there one way or another of living?"[:max_length]}]

    return generate


serve.start()


@serve.deployment
def model(request):
    language_model = pipeline("text-generation", model="gpt2")
    query = request.query_params["query"]
    return language_model(query, max_length=100)


model.deploy()

query = "What's the meaning of life?"
response = requests.get("http://localhost:8000/model", params={"query": query})
print(response.text)

print(list(serve.list_deployments()), serve.get_deployment("model").url)
model.options(num_replicas=2).deploy()
print(serve.get_deployment("model").num_replicas)
model.delete()
print(requests.get("http://localhost:8000/model").status_code)
# prints:
# [{"generated_text":"What's the meaning of life? Is there one way or another of living?"}]
# ['model'] /model
# 2
# 404
