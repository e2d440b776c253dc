"""Text by a small language model, character by character: server-sent events, and one batch for several streams.

python -m kernel_serve.examples.text_stream

    $ curl -N 'http://127.0.0.1:8000/write?prompt=The%20file&characters=40'
    data: " "

    data: "i"

    data: "s"
    ...
    $ curl 'http://127.0.0.1:8000/write?prompt=The%20file&characters=40&stream=no'
    {"text":"The file is a string and the string containing the","model":"torch","batch":1}

The model learns in the replica's constructor, in seconds, from the documentation of Python's own library: a recurrent
network with torch, where that is installed (`pip install torch`), or else counts of which character
follows which four. Streams that begin at about the same time share each step of the model: `batch` says how many.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from kernel import serve

READ = ("argparse", "collections", "csv", "datetime", "decimal", "logging", "os", "pathlib", "random", "subprocess")


def corpus() -> str:
    """Return what the model learns from: the documentation in some modules of Python's library."""
    found = []
    for name in READ:
        module = importlib.import_module(name)
        texts = [module.__doc__, *(value.__doc__ for value in vars(module).values() if callable(value))]
        found += [text for text in texts if isinstance(text, str) and text.isascii()]
    return " ".join(" ".join(found).split())


class CountingModel:
    """Knows how often each character came after the four before it."""

    name = "counts"

    def __init__(self, text: str, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._following: dict[str, Counter[str]] = defaultdict(Counter)
        for length in range(5):
            for place in range(length, len(text)):
                self._following[text[place - length : place]][text[place]] += 1

    def begin(self, prompts: Sequence[str]) -> list[str]:
        """Return what `step` takes."""
        return list(prompts)

    def step(self, texts: list[str]) -> list[str]:
        """Return the next character of each text, and remember them."""
        letters = [self._next(text) for text in texts]
        texts[:] = [text + letter for text, letter in zip(texts, letters, strict=True)]
        return letters

    def _next(self, text: str) -> str:
        known = next(self._following[end] for end in (text[-n:] if n else "" for n in (4, 3, 2, 1, 0)) if end in self)
        letters, counts = zip(*known.items(), strict=True)
        return str(self._random.choice(letters, p=np.array(counts) / sum(counts)))

    def __contains__(self, end: str) -> bool:
        return end in self._following


class TorchModel:
    """A recurrent network, trained on the spot. All texts take a step by one multiplication."""

    name = "torch"

    def __init__(self, text: str, steps: int = 200, seed: int = 0) -> None:
        import torch

        torch.manual_seed(seed)
        torch.set_num_threads(1)  # a replica has one CPU unless it says otherwise
        self.letters = sorted(set(text) | {" "})
        self._numbers = {letter: number for number, letter in enumerate(self.letters)}
        size = len(self.letters)
        self._embedding = torch.nn.Embedding(size, 32)
        self._memory = torch.nn.GRU(32, 128, batch_first=True)
        self._output = torch.nn.Linear(128, size)
        self._learn(torch.tensor([self._numbers[letter] for letter in text]), steps)

    def _learn(self, data: Any, steps: int) -> None:
        import torch

        parts = (self._embedding, self._memory, self._output)
        optimizer = torch.optim.Adam([weight for part in parts for weight in part.parameters()], 0.01)
        for _ in range(steps):
            begins = torch.randint(len(data) - 65, (16,))
            pieces = torch.stack([data[begin : begin + 65] for begin in begins])
            seen, _ = self._memory(self._embedding(pieces[:, :-1]))
            loss = torch.nn.functional.cross_entropy(self._output(seen).flatten(0, 1), pieces[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def begin(self, prompts: Sequence[str]) -> dict[str, Any]:
        """Read the prompts; return what `step` takes."""
        import torch

        with torch.inference_mode():
            states = []
            for prompt in prompts:
                numbers = torch.tensor([[self._numbers.get(letter, self._numbers[" "]) for letter in prompt or " "]])
                seen, memory = self._memory(self._embedding(numbers))
                states.append((seen[:, -1], memory))
            return {"seen": torch.cat([seen for seen, _ in states]), "memory": torch.cat([m for _, m in states], 1)}

    def step(self, state: dict[str, Any]) -> list[str]:
        """Return the next character of each text, and remember them."""
        import torch

        with torch.inference_mode():
            chances = torch.softmax(self._output(state["seen"]) / 0.5, -1)
            chosen = torch.multinomial(chances, 1)
            seen, state["memory"] = self._memory(self._embedding(chosen), state["memory"])
            state["seen"] = seen[:, -1]
            return [self.letters[number] for number in chosen[:, 0].tolist()]


@serve.deployment(max_ongoing_requests=32)
class Writer:
    """Writes on from a prompt."""

    def __init__(self) -> None:
        kind: Any = TorchModel if importlib.util.find_spec("torch") else CountingModel
        self.model = kind(corpus())

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.02, max_concurrent_batches=2)
    def write(self, prompts: list[str], lengths: list[int]) -> Iterator[list[Any]]:
        """Yield a character for each prompt, step by step. A plain `def`: it runs in a thread."""
        state = self.model.begin(prompts)
        for step in range(max(lengths)):
            letters = self.model.step(state)
            yield [
                (letter, len(prompts)) if step < length else StopIteration
                for letter, length in zip(letters, lengths, strict=True)
            ]

    async def events(self, prompt: str, characters: int) -> AsyncIterator[str]:
        """Yield each character as a server-sent event."""
        async for letter, _ in self.write(prompt, characters):
            yield f"data: {json.dumps(letter)}\n\n"
        yield "data: [DONE]\n\n"

    async def __call__(self, request: Request) -> Response:
        asked = request.query_params
        prompt, characters = asked.get("prompt", ""), int(asked.get("characters", 200))
        if asked.get("stream") != "no":
            return StreamingResponse(self.events(prompt, characters), media_type="text/event-stream")
        answers = [answer async for answer in self.write(prompt, characters)]
        text = prompt + "".join(letter for letter, _ in answers)
        return JSONResponse({"text": text, "model": self.model.name, "batch": answers[0][1] if answers else 0})


app = Writer.bind()

if __name__ == "__main__":
    serve.run(app, name="write", route_prefix="/write", blocking=True)
