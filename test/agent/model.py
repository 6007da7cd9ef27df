"""A stand-in of the model API that the agent of agent_npm.t talks to, inside its sandbox: POST /v1/messages. The answers are a
script of tool calls: one for each result of a tool that the request has, then a text. A request without tools gets a text."""
import http.server
import json
import os
import sys

CALLS = [("Bash", {"command": "echo one >> a && echo two > dir/b && rm gone", "description": "edit"}),
         ("Bash", {"command": "git add -A && git -c user.name=a -c user.email=a@a commit -q -m work && git rev-list --count HEAD", "description": "commit"})]


def answer(body):
    results = len({part["tool_use_id"] for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
                   if part.get("type") == "tool_result" and part["tool_use_id"].startswith("toolu_")})
    if not body.get("tools"):
        return {"type": "text", "text": "none"}, "end_turn"
    if results < len(CALLS):
        return {"type": "tool_use", "id": "toolu_%d" % results, "name": CALLS[results][0], "input": CALLS[results][1]}, "tool_use"
    return {"type": "text", "text": "the work is done"}, "end_turn"


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if not self.path.startswith("/v1/messages"):
            return self.send(200, "application/json", b"{}")
        part, why = answer(body)
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model", "m"), "content": [], "stop_reason": None, "stop_sequence": None,
                   "usage": {"input_tokens": 1, "output_tokens": 1}}
        if not body.get("stream"):
            return self.send(200, "application/json", json.dumps(dict(message, content=[part], stop_reason=why)).encode())
        text = part["type"] == "text"
        delta = {"type": "text_delta", "text": part["text"]} if text else {"type": "input_json_delta", "partial_json": json.dumps(part["input"])}
        start = {"type": "text", "text": ""} if text else dict(part, input={})
        events = [{"type": "message_start", "message": message}, {"type": "content_block_start", "index": 0, "content_block": start},
                  {"type": "content_block_delta", "index": 0, "delta": delta}, {"type": "content_block_stop", "index": 0},
                  {"type": "message_delta", "delta": {"stop_reason": why, "stop_sequence": None}, "usage": {"output_tokens": 1}}, {"type": "message_stop"}]
        self.send(200, "text/event-stream", "".join("event: %s\ndata: %s\n\n" % (event["type"], json.dumps(event)) for event in events).encode())

    def do_GET(self):
        self.send(200, "application/json", b"{}")

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
with open(sys.argv[1] + "~", "w") as port:
    port.write(str(server.server_address[1]))
os.rename(sys.argv[1] + "~", sys.argv[1])
server.serve_forever()
