#!/usr/bin/env python3
"""cloudflare 14: an archive goes to signed URLs, part by part, and to no place that is the host's own.
The object store is a small HTTPS server on loopback, which the operator lists as an exception."""
import hashlib
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

c.need_root()
if not shutil.which("openssl"):
    c.skip_all("openssl is not installed")
HOME = tempfile.mkdtemp(prefix="cove-parts-")


def certificate(name, subject):
    key, pem = os.path.join(HOME, name + ".key"), os.path.join(HOME, name + ".pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=" + name, "-addext", "subjectAltName=" + subject,
                    "-keyout", key, "-out", pem], check=True, stderr=subprocess.DEVNULL)
    return key, pem


class Store(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    parts, tries, lock = {}, {}, threading.Lock()

    def do_PUT(self):
        with self.lock:
            self.tries[self.path] = self.tries.get(self.path, 0) + 1
            nth = self.tries[self.path]
        if "/early" in self.path:
            self.close_connection = True
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.wfile.flush()
            self.rfile.read(int(self.headers["Content-Length"]))  # a close now would take the answer along
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = 503 if "/flaky" in self.path and nth < 3 or "/broken" in self.path else 403 if "/expired" in self.path else 200
        if status == 200:
            self.parts[self.path] = body
        self.send_response(status)
        if "/untagged" not in self.path:
            self.send_header("ETag", '"%s"' % hashlib.md5(body).hexdigest())
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def serve(key, pem):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, server.server_address[1]


key, pem = certificate("store", "DNS:store.test,DNS:*.bucket.test")
server, port = serve(key, pem)
stranger, stranger_port = serve(*certificate("stranger", "DNS:store.test"))
closed = socket.socket()
closed.bind(("127.0.0.1", 0))
listed = "127.0.0.1:%d, 127.0.0.1:%d, 127.0.0.1:%d" % (port, stranger_port, closed.getsockname()[1])
names = "store.test=127.0.0.1, my.bucket.test=127.0.0.1, other.test=127.0.0.1, far.test=127.0.0.1, meta.test=169.254.169.254"

bad = subprocess.run([c.BIN, "serve", "--data", os.path.join(HOME, "x"), "--egress-exceptions", "10.0.0.0/99"],
                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
c.ok(bad.returncode != 0 and b"egress-exceptions" in bad.stdout, "a malformed list of exceptions is refused at the start",
     bad.stdout)
conf = os.path.join(HOME, "cove.conf")
open(conf, "w").write("[egress]\nexceptions = %s\nhosts = %s\nca = %s\n" % (listed, names, pem))
cove = c.Cove("--config", conf)
box = cove.create()
at = "/v1/sandboxes/%s/api/backup/" % box["id"]
cove.run(box, "mkdir -p /workspace/d; head -c 3000000 /dev/urandom > /workspace/d/r", sessionId="__DISABLE_SESSION__")
made = cove.post(at + "create", {"dir": "/workspace/d", "archivePath": "/var/backups/a.sqsh"}).json
size = made["sizeBytes"]
whole = cove.get("/v1/sandboxes/%s/api/files/var/backups/a.sqsh" % box["id"], raw=True)
whole = whole.body if hasattr(whole, "body") else whole


def part(number, path, offset=0, length=1000, host="store.test", at_port=None):
    return {"partNumber": number, "url": "https://%s:%d%s" % (host, at_port or port, path), "offset": offset, "size": length}


def send(*parts, archive="/var/backups/a.sqsh"):
    return cove.post(at + "upload-parts", {"archivePath": archive, "parts": list(parts)})


step = 512 * 1024
cuts = [(i + 1, at_, min(step, size - at_)) for i, at_ in enumerate(range(0, size, step))]
sent = send(*[part(n, "/up/%d?X-Amz-Signature=s3cret&partNumber=%d" % (n, n), o, l, host="my.bucket.test") for n, o, l in cuts])
c.ok(sent.status == 200 and sent.json.get("success"), "14 an archive of %d parts is sent" % len(cuts), sent.json)
c.same([p["partNumber"] for p in sent.json.get("parts", [])], [n for n, _, _ in cuts], "14 each part has its answer, in order")
got = b"".join(Store.parts.get("/up/%d?X-Amz-Signature=s3cret&partNumber=%d" % (n, n), b"") for n, _, _ in cuts)
c.same(hashlib.md5(got).hexdigest(), hashlib.md5(whole).hexdigest(), "14 the parts together are the archive, to the byte")
c.same([p["etag"] for p in sent.json["parts"]],
       ['"%s"' % hashlib.md5(whole[o:o + l]).hexdigest() for _, o, l in cuts], "14 each tag is the store's own")
flaky = send(part(1, "/flaky"))
c.ok(flaky.status == 200 and Store.tries["/flaky"] == 3, "14 a part is tried three times", flaky.json)
broken = send(part(7, "/broken"))
c.same((broken.status, broken.json["code"], Store.tries["/broken"]), (500, "BACKUP_CREATE_FAILED", 3),
       "14 a store that stays broken is an error after three tries")
c.ok("part 7" in broken.json["message"], "14 the error names the part", broken.json["message"])
for path in ("/expired", "/early"):
    refused = send(part(1, path + "?X-Amz-Signature=s3cret", length=900000))
    c.ok(refused.status == 500 and Store.tries[path + "?X-Amz-Signature=s3cret"] == 1 and "403" in refused.json["message"],
         "14 a refusal is believed at once (%s)" % path, refused.json)
    c.ok("s3cret" not in str(refused.json), "14 no signature is in an error")
c.same(send(part(1, "/untagged")).json.get("code"), "BACKUP_CREATE_FAILED", "14 an answer without a tag is no success")

for title, request in (
        ("no part", []), ("part 0", [part(0, "/x")]), ("a plain URL", [dict(part(1, "/x"), url="http://store.test/x")]),
        ("no URL", [{"partNumber": 1, "offset": 0, "size": 1}]), ("size 0", [part(1, "/x", length=0)]),
        ("a negative offset", [part(1, "/x", offset=-1)]), ("a user in the URL", [dict(part(1, "/x"), url="https://a:b@store.test/x")]),
        ("more than there is", [part(1, "/x", offset=size - 10, length=11)]), ("a part that is a text", ["x"])):
    answer = send(*request)
    c.same((answer.status, answer.json["code"]), (400, "INVALID_BACKUP_CONFIG"), "14 refused: " + title)
for archive in ("/etc/passwd", "/var/backups/../../etc/passwd", "", "/var/backups/"):
    answer = send(part(1, "/x"), archive=archive)
    c.same((answer.status, answer.json["code"]), (400, "INVALID_BACKUP_CONFIG"), "14 refused: archive '%s'" % archive)
c.same(send(part(1, "/x"), archive="/var/backups/none").json["code"], "BACKUP_CREATE_FAILED", "14 an archive that is not there")

for title, host, to in (("this host by address", "127.0.0.1", 9), ("this host by name", "far.test", 9),
                        ("a cloud's metadata", "meta.test", 80), ("localhost", "localhost", 9), ("IPv6 loopback", "[::1]", 9),
                        ("IPv4 in IPv6", "[::ffff:127.0.0.1]", port), ("a private network", "10.1.2.3", 443),
                        ("this host as zeroes", "0.0.0.0", port), ("the listener of cove itself", "127.0.0.1", cove.port)):
    answer = send(part(1, "/x", host=host, at_port=to))
    c.same((answer.status, answer.json["code"], answer.json["reason"]), (403, "PERMISSION_DENIED", "not_global"), "NET-7 never reached: " + title)
c.same(Store.tries.get("/x"), None, "NET-7 the store saw none of these")
for title, host, to in (("another's certificate", "store.test", stranger_port), ("another name than the certificate's", "other.test", port)):
    answer = send(part(1, "/y", host=host, at_port=to))
    c.ok(answer.status == 500 and "TLS" in answer.json["message"] and not Store.tries.get("/y"),
         "14 nothing is sent to " + title, answer.json)
c.same(send(part(1, "/x", at_port=closed.getsockname()[1])).json["code"], "BACKUP_CREATE_FAILED", "14 a store that does not answer")
c.same(send(part(1, "/x", host="no-such-name.invalid")).json["code"], "BACKUP_CREATE_FAILED", "14 a name that nobody has")
c.same(cove.get("/v1/health").status, 200, "the daemon serves on")
c.ok("s3cret" not in cove.log_text(), "no signature is in the log")
c.same(cove.delete(box).status, 204, "the sandbox is deleted")
c.same(cove.stop(), 0, "cove stops")
c.same(c.remains(cove), {}, "nothing is left behind")
server.shutdown()
stranger.shutdown()
shutil.rmtree(HOME)
c.done()
