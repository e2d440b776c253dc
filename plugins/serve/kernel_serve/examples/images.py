"""Pictures in, pictures out: bytes of any format that Pillow reads become a smaller, filtered PNG.

python -m kernel_serve.examples.images

    $ curl 'http://127.0.0.1:8000/images?width=160&filter=edges' --data-binary @photo.jpg -o small.png -D -
    HTTP/1.1 200 OK
    content-type: image/png
    ...
    $ curl 'http://127.0.0.1:8000/images?filter=rainbow' --data-binary @photo.jpg
    there is no filter 'rainbow'; there are blur, edges, grey, none

Decoding and resizing are one deployment, filtering another: the pixels go from one to the other as a numpy array.
Needs pillow (`pip install pillow`).
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from kernel import serve

FILTERS = ("blur", "edges", "grey", "none")
LARGEST = 4096


@serve.deployment
class Filters:
    """Filters pixels: arrays of (height, width, 3) bytes. Plain methods run in threads, one for each request."""

    def blur(self, pixels: Any) -> Any:
        """Return each pixel as the mean of its neighbours."""
        padded = np.pad(pixels.astype(np.float32), ((1, 1), (1, 1), (0, 0)), mode="edge")
        height, width, _ = pixels.shape
        moved = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
        return (sum(moved) / 9).astype(np.uint8)

    def edges(self, pixels: Any) -> Any:
        """Return how much the brightness changes at each pixel."""
        down, right = np.gradient(self._brightness(pixels))
        return self._grey(np.clip(4 * np.hypot(down, right), 0, 255))

    def grey(self, pixels: Any) -> Any:
        """Return the brightness."""
        return self._grey(self._brightness(pixels))

    def none(self, pixels: Any) -> Any:
        """Return the pixels as they are."""
        return pixels

    @staticmethod
    def _brightness(pixels: Any) -> Any:
        return pixels @ np.array([0.299, 0.587, 0.114], np.float32)

    @staticmethod
    def _grey(brightness: Any) -> Any:
        return np.repeat(brightness[..., None], 3, axis=2).astype(np.uint8)


@serve.deployment
class Images:
    """Takes the requests."""

    def __init__(self, filters: Any) -> None:
        self.filters = filters

    async def __call__(self, request: Request) -> Response:
        name, width = request.query_params.get("filter", "none"), request.query_params.get("width", "")
        if name not in FILTERS:
            return PlainTextResponse(f"there is no filter {name!r}; there are {', '.join(FILTERS)}\n", 400)
        if width and not (width.isdecimal() and 0 < int(width) <= LARGEST):
            return PlainTextResponse(f"width is a number from 1 to {LARGEST}, not {width!r}\n", 400)
        try:
            pixels = self.read(await request.body(), int(width or 0))
        except OSError:
            return PlainTextResponse("this is no picture that Pillow can read\n", 400)
        filtered = await self.filters.options(method_name=name).remote(pixels)
        return Response(self.written(filtered), media_type="image/png")

    @staticmethod
    def read(data: bytes, width: int) -> Any:
        """Return the pixels of a picture, resized if `width` is not 0."""
        from PIL import Image

        picture = Image.open(io.BytesIO(data)).convert("RGB")
        if width:
            picture = picture.resize((width, max(1, round(picture.height * width / picture.width))))
        return np.asarray(picture)

    @staticmethod
    def written(pixels: Any) -> bytes:
        """Return pixels as a PNG."""
        from PIL import Image

        target = io.BytesIO()
        Image.fromarray(pixels).save(target, "png")
        return target.getvalue()


app = Images.bind(Filters.bind())

if __name__ == "__main__":
    serve.run(app, name="images", route_prefix="/images", blocking=True)
