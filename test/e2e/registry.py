"""Images that tests write byte by byte, and registries to serve them: Debian's docker-registry, and a
stand-in that can lie, cut, wait and ask for tokens."""
import base64
import gzip
import hashlib
import http.server
import io
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import tarfile
import threading

import cove as c

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
OCI = "application/vnd.oci.image."
MANIFEST, INDEX = OCI + "manifest.v1+json", OCI + "index.v1+json"
DOCKER = "application/vnd.docker.distribution.manifest."


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar(entries, fmt=tarfile.PAX_FORMAT):
    """(name, data or None for a directory or a tarfile.TarInfo, mode, uid)…"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as archive:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
                continue
            name, data, *rest = entry
            info = tarfile.TarInfo(name)
            info.mode = rest[0] if rest else 0o755
            info.uid = info.gid = rest[1] if len(rest) > 1 else 0
            info.mtime = 1700000000
            if data is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def link(name, to, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


PASSWD = b"root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1001::/home/agent:/bin/bash\n"
GROUP = b"root:x:0:\nagent:x:1001:\nstaff:x:50:agent\n"


def base():
    """A root that runs: bash and some programs of the host with their libraries."""
    files = {"etc/passwd": PASSWD, "etc/group": GROUP}
    for name in ("bash", "cat", "echo", "env", "id", "ls", "mkdir", "pwd", "rm", "sleep", "stat", "touch", "find", "sha256sum"):
        program = "/usr/bin/" + name
        files["usr/bin/" + name] = open(program, "rb").read()
        for line in subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines():
            found = re.search(r"(/\S+) \(0x", line)
            if found:
                path = found.group(1)
                files[path[1:] if path.startswith("/usr/") else "usr" + path] = open(path, "rb").read()
    dirs = {"home", "home/agent", "tmp", "root", "workspace", "usr", "usr/lib64", "proc", "sys", "dev", "run"}
    for path in files:
        parts = path.split("/")[:-1]
        dirs.update("/".join(parts[:i]) for i in range(1, len(parts) + 1))
    return tar([(name, None) for name in sorted(dirs)] + [link(name, "usr/" + name) for name in ("bin", "lib", "lib64")] + list(files.items()))


class Image:
    """Layers (plain tars) and a configuration, as blobs and a manifest."""

    def __init__(self, layers, config=None, pack=gzip.compress, arch=ARCH, docker=False, diff_ids=None, form="gzip"):
        kind = "application/vnd.docker.image.rootfs.diff.tar.gzip" if docker else OCI + "layer.v1.tar" + ("" if form == "tar" else "+" + form)
        self.packed = [gzip.compress(layer, mtime=0) if pack is gzip.compress else pack(layer) for layer in layers]
        self.config = json.dumps({"architecture": arch, "os": "linux", "config": config or {},
                                  "rootfs": {"type": "layers", "diff_ids": diff_ids or [digest(layer) for layer in layers]}}).encode()
        self.type = DOCKER + "v2+json" if docker else MANIFEST
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": self.type,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json" if docker else OCI + "config.v1+json",
                       "digest": digest(self.config), "size": len(self.config)},
            "layers": [{"mediaType": kind, "digest": digest(data), "size": len(data)} for data in self.packed]}).encode()
        self.digest = digest(self.manifest)
        self.blobs = {digest(data): data for data in self.packed + [self.config]}

    def layout(self, path, ref="latest"):
        """As an OCI layout, for skopeo."""
        os.makedirs(os.path.join(path, "blobs/sha256"))
        for data in list(self.blobs.values()) + [self.manifest]:
            with open(os.path.join(path, "blobs/sha256", digest(data)[7:]), "wb") as file:
                file.write(data)
        with open(os.path.join(path, "oci-layout"), "w") as file:
            file.write('{"imageLayoutVersion":"1.0.0"}')
        with open(os.path.join(path, "index.json"), "w") as file:
            json.dump({"schemaVersion": 2, "manifests": [
                {"mediaType": MANIFEST, "digest": self.digest, "size": len(self.manifest),
                 "annotations": {"org.opencontainers.image.ref.name": ref}}]}, file)


class Debian:
    """docker-registry on loopback."""

    def __init__(self, home, auth="", env=None, tls=None):
        """`tls`: the files of a certificate and its key."""
        self.home = os.path.join(home, "registry")
        os.makedirs(self.home)
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        config = os.path.join(self.home, "config.yml")
        with open(config, "w") as file:
            file.write("version: 0.1\nlog: {level: info}\nstorage: {filesystem: {rootdirectory: %s}, delete: {enabled: true}}\n"
                       "http: {addr: '127.0.0.1:%d'%s}\n%s" %
                       (self.home + "/data", self.port, ", tls: {certificate: '%s', key: '%s'}" % tls if tls else "", auth))
        self.log_path = self.home + "/log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", config], stdout=log, stderr=log, env=dict(os.environ, **(env or {})))
        c.until(self.answers, 60)
        self.host = "127.0.0.1:%d" % self.port

    def answers(self):
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def push(self, image, name, creds=None):
        path = os.path.join(self.home, "layout")
        shutil.rmtree(path, ignore_errors=True)
        image.layout(path)
        words = ["skopeo", "copy", "--insecure-policy", "--dest-tls-verify=false"] + (["--dest-creds", creds] if creds else [])
        subprocess.run(words + ["oci:%s:latest" % path, "docker://%s/%s" % (self.host, name)], check=True, stdout=subprocess.DEVNULL)

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def stop(self):
        self.process.terminate()
        self.process.wait()


class StandIn:
    """A registry of one's own. `hook(handler, kind, name)` may answer instead, and returns True then."""

    def __init__(self, hook=None, tls=None, token=None, basic=None, address="127.0.0.1"):
        registry = self
        self.tags, self.manifests, self.blobs, self.requests = {}, {}, {}, []
        self.hook, self.token, self.basic, self.tokens = hook, token, basic, 0

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def send(self, status, data=b"", kind="application/json", **headers):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self):
                self.do_GET()

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                registry.requests.append((self.command, self.path, dict(self.headers), body))
                self.close_connection = True
                try:
                    registry.answer(self)
                except OSError:
                    pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Server((address, 0), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.host = "%s:%d" % (address, self.port)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def add(self, image, name="app", tag="latest"):
        self.manifests[image.digest] = (image.type, image.manifest)
        self.blobs.update(image.blobs)
        self.tags[name, tag] = image.digest
        return image

    def add_index(self, entries, name="app", tag="latest", kind=INDEX):
        """(image, platform)…"""
        for image, _ in entries:
            if image:
                self.add(image, name, "part-" + image.digest[7:19])
        data = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": [
            {"mediaType": image.type, "digest": image.digest, "size": len(image.manifest), "platform": where}
            for image, where in entries]}).encode()
        self.manifests[digest(data)] = (kind, data)
        self.tags[name, tag] = digest(data)
        return digest(data)

    def asked(self, word):
        return [request for request in self.requests if word in request[1]]

    def is_authorized(self, handler):
        said = handler.headers.get("Authorization", "")
        if self.basic and said != "Basic " + base64.b64encode(self.basic.encode()).decode():
            handler.send(401, b'{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}', WWW_Authenticate='Basic realm="stand-in"')
            return False
        if self.token and said != "Bearer token-%d" % self.tokens:
            handler.send(401, b"{}", WWW_Authenticate='Bearer realm="http://%s/token",service="stand-in",scope="repository:app:pull"' % self.host)
            return False
        return True

    def answer(self, handler):
        path = handler.path.split("?")[0]
        if path == "/token":
            return self.answer_token(handler)
        words = path.split("/")
        kind, name = (words[-2], words[-1]) if len(words) > 3 else ("", "")
        if self.hook and self.hook(handler, kind, name):
            return None
        if not self.is_authorized(handler):
            return None
        if path == "/v2/":
            return handler.send(200, b"{}")
        repository = "/".join(words[2:-2])
        if kind == "manifests":
            found = self.manifests.get(self.tags.get((repository, name), name))
            if found:
                return handler.send(200, found[1], found[0])
        if kind == "blobs" and name in self.blobs:
            return self.answer_blob(handler, self.blobs[name])
        return handler.send(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}')

    @staticmethod
    def answer_blob(handler, data):
        asked = handler.headers.get("Range", "")
        if asked.startswith("bytes=") and asked.endswith("-"):
            at = int(asked[6:-1])
            return handler.send(206, data[at:], "application/octet-stream", Content_Range="bytes %d-%d/%d" % (at, len(data) - 1, len(data)))
        return handler.send(200, data, "application/octet-stream")

    def answer_token(self, handler):
        said = handler.headers.get("Authorization", "")
        want = "Basic " + base64.b64encode(self.token.encode()).decode() if isinstance(self.token, str) else None
        if want and said != want:
            return handler.send(401, b'{"details":"incorrect username or password"}')
        self.tokens += 1
        return handler.send(200, json.dumps({"token": "token-%d" % self.tokens, "expires_in": 300}).encode())

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
