// Previews, as the SDK uses them.
import { assert, check, client, fails, version } from "./tap.mjs";
import { request } from "node:http";

const daytona = client();
const box = await daytona.create({ labels: { run: `preview-${version}` } });
const serve = async () => {
  await box.fs.uploadFile(Buffer.from(`
import http.server, json
class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        text = json.dumps({"method": self.command, "path": self.path, "body": body, "headers": {k.lower(): v for k, v in self.headers.items()}}).encode()
        self.send_response(203); self.send_header("Content-Length", str(len(text))); self.send_header("X-From", "box"); self.end_headers(); self.wfile.write(text)
    do_POST = do_GET
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Echo)
open("/tmp/ready", "w").write("1")
server.serve_forever()
`), "/tmp/echo.py");
  await box.process.executeCommand("rm -f /tmp/ready; (setsid python3 /tmp/echo.py >/tmp/echo.log 2>&1 &); until [ -e /tmp/ready ]; do sleep 0.05; done");
};
// By the address of the listener: not every resolver knows names below localhost. Each from another one: wrong tokens slow an address down.
let serial = 0;
const get = (url, headers = {}, { method = "GET", body } = {}) => new Promise((done, failed) => {
  const { host, port, pathname, search } = new URL(url);
  const path = url.endsWith(`${pathname}${search}`) ? `${pathname}${search}` : "/";
  const ask = request({ host: "127.0.0.1", port, path, method, headers: { ...headers, Host: host }, agent: false, localAddress: `127.0.${serial++ % 250}.${version}` }, (reply) => {
    let text = "";
    reply.on("data", (piece) => (text += piece)).on("end", () => done({ status: reply.statusCode, headers: reply.headers, text, json: reply.headers["x-from"] ? JSON.parse(text) : undefined }));
  });
  ask.on("error", failed).end(body);
});
const token = (value) => ({ "X-Daytona-Preview-Token": value });
await serve();

await check("a link, let in by the token in a field, by the API key, by the query", async () => {
  const link = await box.getPreviewLink(3000);
  assert.doesNotMatch(link.url, new RegExp(link.token));
  const got = await get(`${link.url}/a%20b?x=1&y=%2F`, { ...token(link.token), "X-Own": "1" }, { method: "POST", body: "hello" });
  assert.equal(got.status, 203);
  assert.deepEqual([got.json.method, got.json.path, got.json.body, got.json.headers["x-own"]], ["POST", "/a%20b?x=1&y=%2F", "hello", "1"]);
  assert.ok(got.json.headers["x-forwarded-host"]);
  const byKey = await get(`${link.url}/`, { Authorization: `Bearer ${process.env.DAYTONA_API_KEY}` });
  assert.equal(byKey.status, 203);
  const byQuery = await get(`${link.url}/p?a=1&DAYTONA_SANDBOX_AUTH_KEY=${link.token}&b=2`);
  assert.deepEqual([byQuery.status, byQuery.json.path], [203, "/p?a=1&b=2"]);
  for (const each of [got, byKey, byQuery]) {
    const seen = JSON.stringify(each.json);
    assert.ok(!seen.includes(link.token) && !seen.includes(process.env.DAYTONA_API_KEY), seen);
  }
  assert.equal((await get(`${link.url}/`, { ...token(link.token), Authorization: "Bearer of-the-app" })).json.headers.authorization, "Bearer of-the-app");
});
await check("a visit with the token in the query sets a cookie that lets in, and is hidden", async () => {
  const link = await box.getPreviewLink(3000);
  const first = await get(`${link.url}/?DAYTONA_SANDBOX_AUTH_KEY=${link.token}`);
  const cookie = first.headers["set-cookie"][0].split(";")[0];
  assert.match(cookie, /^daytona-sandbox-auth-/);
  assert.doesNotMatch(cookie, new RegExp(link.token));
  const got = await get(`${link.url}/page`, { Cookie: `own=1; ${cookie}; more=2` });
  assert.deepEqual([got.status, got.json.headers.cookie], [203, "own=1; more=2"]);
  assert.equal((await get(`${link.url}/page`, { Cookie: `${cookie}x` })).status, 401);
});
await check("without a credential, or with a wrong one, 401 and no redirect", async () => {
  const link = await box.getPreviewLink(3000);
  for (const headers of [{}, token("x"), token(link.token.slice(1)), { Authorization: "Bearer wrong" }, token(`${link.token.slice(0, -1)}${link.token.endsWith("a") ? "b" : "a"}`)]) {
    const got = await get(`${link.url}/`, headers);
    assert.equal(got.status, 401, JSON.stringify(headers));
    assert.ok(JSON.parse(got.text).code);
  }
});
await check("one token opens every port; where nothing listens it is 502 at once", async () => {
  const link = await box.getPreviewLink(3001), other = await box.getPreviewLink(3000);
  assert.equal(link.token, other.token);
  assert.equal((await get(`${link.url}/`, token(other.token))).status, 502);
  await fails("DaytonaValidationError", 400, () => box.getPreviewLink(0));
  await fails("DaytonaValidationError", 400, () => box.getPreviewLink(65536));
});
if (box.getSignedPreviewUrl) {
  await check("a signed address needs no token, holds for its port and its time, and is taken back", async () => {
    const signed = await box.getSignedPreviewUrl(3000, 300);
    assert.deepEqual([signed.port, signed.sandboxId, signed.url.includes(signed.token)], [3000, box.id, true]);
    assert.equal((await get(`${signed.url}/x`)).json.path, "/x");
    const other = await box.getSignedPreviewUrl(3001, 300);
    assert.notEqual((await get(signed.url.replace("/3000-", "/3001-"))).status, 203);
    assert.notEqual((await get(other.url.replace("/3001-", "/3000-"))).status, 203);
    const link = await box.getPreviewLink(3000);
    assert.equal((await get(`${link.url}/`, token(signed.token))).status, 401);
    const kept = await box.getSignedPreviewUrl(3000, 600);
    await box.expireSignedPreviewUrl(3000, signed.token);
    assert.equal((await get(`${signed.url}/x`)).status, 404);
    assert.equal((await get(`${kept.url}/x`)).status, 203);
    await fails("DaytonaNotFoundError", 404, () => box.expireSignedPreviewUrl(3000, `${signed.token}x`));
    await fails("DaytonaNotFoundError", 404, () => box.expireSignedPreviewUrl(3001, kept.token));
    await fails("DaytonaValidationError", 400, () => box.getSignedPreviewUrl(3000, 86401));
    await fails("DaytonaValidationError", 400, () => box.getSignedPreviewUrl(70000));
    const brief = await box.getSignedPreviewUrl(3000, 1);
    await new Promise((done) => setTimeout(done, 2100));
    assert.notEqual((await get(`${brief.url}/x`)).status, 203);
  });
}
await check("a start changes the token; signed addresses end with it", async () => {
  const before = await box.getPreviewLink(3000);
  const signed = box.getSignedPreviewUrl ? await box.getSignedPreviewUrl(3000, 600) : undefined;
  await box.start();
  assert.equal((await box.getPreviewLink(3000)).token, before.token);
  await box.stop();
  await box.start();
  await serve();
  const after = await box.getPreviewLink(3000);
  assert.notEqual(after.token, before.token);
  assert.equal(after.url, before.url);
  assert.equal((await get(`${after.url}/`, token(before.token))).status, 401);
  assert.equal((await get(`${after.url}/`, token(after.token))).status, 203);
  if (signed) assert.notEqual((await get(`${signed.url}/x`)).status, 203);
});
await check("a public sandbox needs no token, but for the ports of the toolbox", async () => {
  const open = await daytona.create({ public: true, labels: { run: "public" } });
  assert.equal(open.public, true);
  assert.equal((await get((await open.getPreviewLink(3000)).url + "/")).status, 502);
  assert.equal((await get((await open.getPreviewLink(22222)).url + "/")).status, 401);
  await open.delete();
});
await box.delete();
process.exit();
