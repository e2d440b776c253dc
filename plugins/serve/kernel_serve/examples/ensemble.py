"""Several models vote: an application of five deployments, whose responses are arguments of the next call.

python -m kernel_serve.examples.ensemble

    $ curl 'http://127.0.0.1:8000/digits?number=17'
    {"digit":7,"votes":{"bayes":7,"forest":7,"neighbours":7},"agree":true,"right":true}

The scaled image goes to three models at the same time, and their answers to the vote. None of these waits for the
others in `Digits`: a response that is an argument is awaited on its way. Needs scikit-learn (`pip install
scikit-learn`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from starlette.requests import Request

from kernel import serve


@serve.deployment
class Scaler:
    """Makes of an image what the models were trained with."""

    def __init__(self, largest: float) -> None:
        self.largest = largest

    def __call__(self, image: Any) -> Any:
        return image / self.largest


@serve.deployment
class Model:
    """One of the models; it trains when its replica starts."""

    def __init__(self, estimator: Any) -> None:
        from sklearn.datasets import load_digits

        images, digits = load_digits(return_X_y=True)
        self.estimator = estimator.fit(images[:1500] / 16, digits[:1500])

    def __call__(self, image: Any) -> int:
        return int(self.estimator.predict([image])[0])


@serve.deployment
def vote(*digits: int) -> int:
    """Return what most of them say."""
    return Counter(digits).most_common(1)[0][0]


@serve.deployment
class Digits:
    """Takes the requests: which digit is image `number` of the collection?"""

    def __init__(self, scaler: Any, models: dict[str, Any], vote: Any) -> None:
        from sklearn.datasets import load_digits

        self.images, self.digits = load_digits(return_X_y=True)
        self.scaler, self.models, self.vote = scaler, models, vote

    async def __call__(self, request: Request) -> dict[str, Any]:
        number = int(request.query_params.get("number", 0)) % len(self.images)
        image = self.scaler.remote(self.images[number])
        answers = {name: model.remote(image) for name, model in self.models.items()}
        digit = await self.vote.remote(*answers.values())
        votes = {name: await answer for name, answer in answers.items()}
        return {
            "digit": digit,
            "votes": votes,
            "agree": len(set(votes.values())) == 1,
            "right": digit == int(self.digits[number]),
        }


def build() -> Any:
    """Return the application."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier

    models = {
        "bayes": Model.options(name="Bayes").bind(GaussianNB(var_smoothing=0.01)),
        "forest": Model.options(name="Forest").bind(RandomForestClassifier(50, random_state=0)),
        "neighbours": Model.options(name="Neighbours").bind(KNeighborsClassifier(3)),
    }
    return Digits.bind(Scaler.bind(16.0), models, vote.bind())


if __name__ == "__main__":
    serve.run(build(), name="digits", route_prefix="/digits", blocking=True)
