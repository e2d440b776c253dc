"""A chat over WebSockets: rooms, in one replica that knows the people in them.

python -m kernel_serve.examples.chat

    $ python -m websockets 'ws://127.0.0.1:8000/chat/rooms/tea?name=Ada'
    Connected to ws://127.0.0.1:8000/chat/rooms/tea?name=Ada.
    < {"from":"","text":"Ada is here","people":["Ada"]}
    > hello
    < {"from":"Ada","text":"hello","people":["Ada"]}

http://127.0.0.1:8000/chat/ is a page to chat by: open it in two windows. When one person leaves, the
others see it at once. Needs fastapi (`pip install fastapi`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from fastapi.responses import HTMLResponse

from kernel import serve

api = FastAPI(title="Chat")

PAGE = """<!doctype html><title>Chat</title>
<input id=text placeholder="say something" autofocus><ul id=said></ul>
<script>
  const name = prompt("Your name?") || "somebody";
  const there = location.href.replace("http", "ws").replace(/\\/$/, "");
  const socket = new WebSocket(`${there}/rooms/tea?name=${encodeURIComponent(name)}`);
  socket.onmessage = event => {
    const said = JSON.parse(event.data), line = document.createElement("li");
    line.textContent = said.from ? `${said.from}: ${said.text}` : said.text;
    document.getElementById("said").append(line);
  };
  const text = document.getElementById("text");
  text.onchange = () => { socket.send(text.value); text.value = ""; };
</script>"""


@serve.deployment(num_replicas=1, max_ongoing_requests=1000)
@serve.ingress(api)
class Chat:
    """One replica, since the people of a room must be known in one place.

    A WebSocket counts as an ongoing request as long as it is open.
    """

    def __init__(self) -> None:
        self.rooms: dict[str, dict[WebSocket, str]] = defaultdict(dict)

    @api.get("/", response_class=HTMLResponse)
    async def page(self) -> str:
        """Return the page to chat by."""
        return PAGE

    @api.websocket("/rooms/{room}")
    async def chat(self, socket: WebSocket, room: str, name: str = "somebody") -> None:
        """Send everything that one person says to everyone in the room."""
        await socket.accept()
        self.rooms[room][socket] = name
        await self.tell(room, "", f"{name} is here")
        # RuntimeError comes of receiving from a socket to which the last line could not be sent any more.
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            while True:
                await self.tell(room, name, await socket.receive_text())
        del self.rooms[room][socket]
        await self.tell(room, "", f"{name} is gone")

    async def tell(self, room: str, sender: str, text: str) -> None:
        """Send a line to everyone in a room."""
        people = self.rooms[room]
        line = {"from": sender, "text": text, "people": sorted(people.values())}
        await asyncio.gather(*(socket.send_json(line) for socket in people), return_exceptions=True)


app = Chat.bind()

if __name__ == "__main__":
    serve.run(app, name="chat", route_prefix="/chat", blocking=True)
