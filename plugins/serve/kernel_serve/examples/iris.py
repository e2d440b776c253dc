"""A scikit-learn model behind FastAPI: requests are checked, and described by OpenAPI.

python -m kernel_serve.examples.iris

    $ curl http://127.0.0.1:8000/iris/predict -H 'content-type: application/json' \
        -d '{"petal_length": 4.7, "petal_width": 1.4}'
    {"species":"versicolor","probability":0.78}
    $ curl http://127.0.0.1:8000/iris/predict -H 'content-type: application/json' -d '{"petal_length": -1}'
    {"detail":[{"type":"greater_than","loc":["body","petal_length"],"msg":"Input should be greater than 0",...

http://127.0.0.1:8000/iris/docs is the page to try it by. Needs fastapi and scikit-learn (`pip install
fastapi scikit-learn`).
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field

from kernel import serve

api = FastAPI(title="Irises", description="Which iris is it?", version="1")


class Flower(BaseModel):
    """The size of a flower's petals, in centimetres."""

    petal_length: float = Field(gt=0, lt=30, examples=[4.7])
    petal_width: float = Field(gt=0, lt=30, examples=[1.4])


class Answer(BaseModel):
    """The likeliest species, and how sure the model is."""

    species: str
    probability: float


@serve.deployment(num_replicas=2)
@serve.ingress(api)
class Irises:
    """Trains when a replica starts. A model of some size would be read from a file here."""

    def __init__(self) -> None:
        from sklearn.datasets import load_iris
        from sklearn.linear_model import LogisticRegression

        data: Any = load_iris()
        self.names = [str(name) for name in data.target_names]
        self.model = LogisticRegression(max_iter=1000).fit(data.data[:, 2:], data.target)

    @api.post("/predict")
    def predict(self, flower: Flower) -> Answer:
        """Tell the species of a flower."""
        (chances,) = self.model.predict_proba([[flower.petal_length, flower.petal_width]])
        best = int(chances.argmax())
        return Answer(species=self.names[best], probability=round(float(chances[best]), 2))

    @api.get("/species")
    def species(self) -> list[str]:
        """Return the names of the species that the model knows."""
        return self.names


app = Irises.bind()

if __name__ == "__main__":
    serve.run(app, name="iris", route_prefix="/iris", blocking=True)
