// The vendor's own object (its Sandbox class), with cove in the place of its container: what a Worker
// calls, over each of its transports.
import WebSocket from "ws";
import { Sandbox, parseSSEStream, streamFile, collectFile } from "sandbox-new";
import { assert, check, fails, gather, key, plainUrl, repo, text, url } from "./tap.mjs";

const mode = process.argv[2];
globalThis.WebSocket ??= WebSocket;
globalThis.FixedLengthStream ??= class extends TransformStream { constructor() { super(); } }; // of its runtime, like the storage below

class Storage {
  map = new Map();
  kv = { get: (k) => this.map.get(k), put: (k, v) => void this.map.set(k, v), delete: (k) => this.map.delete(k) };
  sql = { exec: () => [] };
  async get(k) { return this.map.get(k); }
  async put(k, v) { typeof k === "object" ? Object.entries(k).forEach(([a, b]) => this.map.set(a, b)) : this.map.set(k, v); }
  async delete(k) { return [k].flat().map((one) => this.map.delete(one)).length; }
  async list() { return new Map(this.map); }
  async transaction(fn) { return fn(this); }
  async getAlarm() { return null; }
  async setAlarm() {}
  async deleteAlarm() {}
  async sync() {}
}

function upgrade(path) {
  return new Promise((yes, no) => {
    const ws = new WebSocket(url.replace(/^http/, "ws") + path);
    ws.accept = () => {};
    ws.once("open", () => yes({ status: 101, statusText: "", webSocket: ws, headers: new Headers() }));
    ws.once("unexpected-response", (_, r) => yes(new Response(null, { status: r.statusCode })));
    ws.once("error", no);
  });
}

class Box extends Sandbox {
  async getState() { return { status: "healthy", lastChange: 0 }; }
  async startAndWaitForPorts() {}
  async containerFetch(input, init) {
    const request = typeof input === "string" ? new Request(input, typeof init === "object" ? init : undefined) : input;
    const at = new URL(request.url);
    if (request.headers.get("Upgrade") === "websocket") return upgrade(at.pathname + at.search);
    const headers = new Headers(request.headers);
    headers.set("Authorization", `Bearer ${key}`);
    const body = request.body ? await request.arrayBuffer() : undefined;
    return fetch(plainUrl + at.pathname + at.search, { method: request.method, headers, body });
  }
  async fetch(request) { return this.containerFetch(request); }
  renewActivityTimeout() {}
  async applyOutboundInterception() {}
}

const kept = new Map();
const bucket = {
  async put(name, body) {
    const bytes = typeof body === "string" ? Buffer.from(body) : Buffer.from(await new Response(body).arrayBuffer());
    kept.set(name, bytes);
    return { size: bytes.length };
  },
  async get(name) {
    const bytes = kept.get(name);
    return bytes && { size: bytes.length, body: new Response(bytes).body, json: async () => JSON.parse(bytes), text: async () => String(bytes), arrayBuffer: async () => bytes };
  },
  async head(name) { const b = kept.get(name); return b ? { size: b.length } : null; },
  async delete(name) { [name].flat().forEach((n) => kept.delete(n)); },
  async list() { return { objects: [...kept.keys()].map((k) => ({ key: k })) }; },
  async createMultipartUpload() { throw new Error("not here"); },
};
const ctx = {
  id: { toString: () => `obj-${mode}`, equals: () => true, name: `obj-${mode}` },
  storage: new Storage(),
  container: { running: true, monitor: () => new Promise(() => {}), getTcpPort: () => ({}), destroy: async () => {}, signal() {} },
  blockConcurrencyWhile: (fn) => fn(),
  waitUntil() {},
};
console.debug = console.info = console.warn = () => {};
const log = console.log;
console.log = (...a) => { if (/^(not )?ok|^#/.test(String(a[0]))) log(...a); };
console.error = () => {};
const box = new Box(ctx, { SANDBOX_TRANSPORT: mode, BACKUP_BUCKET: bucket, SANDBOX_LOG_LEVEL: "error" });
await box.setSandboxName(`obj-${mode}`);
const dir = `/workspace/obj-${mode}`;

await check("exec", async () => {
  const out = await box.exec("echo out; echo err >&2; (exit 3)");
  assert.deepEqual([out.success, out.exitCode, out.stdout, out.stderr], [false, 3, "out", "err"]);
  assert.equal(typeof out.duration, "number");
  assert.equal((await box.exec("pwd")).stdout, "/workspace");
  await box.exec(`mkdir -p ${dir}; cd ${dir}; X=1`);
  assert.equal((await box.exec("echo $X $PWD")).stdout, `1 ${dir}`);
  assert.equal((await box.exec("echo $Y; pwd", { env: { Y: "2" }, cwd: "/tmp" })).stdout, "2\n/tmp");
  await assert.rejects(box.exec("sleep 20", { timeout: 300 }), /timeout/i);
});
await check("exec with callbacks", async () => {
  const seen = [];
  const out = await box.exec("echo a; echo b >&2; sleep 0.1; echo c", { stream: true, onOutput: (k, d) => seen.push([k, d]) });
  assert.equal(out.stdout, "a\nc\n");
  assert.equal(seen.filter(([k]) => k === "stdout").map(([, d]) => d).join(""), "a\nc\n");
  assert.equal(seen.filter(([k]) => k === "stderr").map(([, d]) => d).join(""), "b\n");
});
await check("execStream", async () => {
  const all = await gather(parseSSEStream(await box.execStream("seq 1 500; exit 2")));
  assert.equal(text(all, "stdout").split("\n").length, 501);
  assert.equal(all.at(-1).exitCode, 2);
});
await check("setEnvVars reaches every session", async () => {
  await box.setEnvVars({ TOLD: "yes it's", GONE: undefined });
  assert.equal((await box.exec("echo $TOLD")).stdout, "yes it's");
  const other = await box.createSession({ id: `other-${mode}`, env: { MINE: "m" }, cwd: "/tmp" });
  assert.equal((await other.exec("echo $TOLD $MINE; pwd")).stdout, "yes it's m\n/tmp");
  await other.setEnvVars({ LATER: "l" });
  assert.equal((await other.exec("echo $LATER")).stdout, "l");
  await other.writeFile("rel.txt", "rel");
  assert.equal((await other.readFile("/tmp/rel.txt")).content, "rel");
  assert.equal((await (await box.getSession(`other-${mode}`)).exec("echo $MINE")).stdout, "m");
  assert.equal((await box.deleteSession(`other-${mode}`)).success, true);
  await assert.rejects(box.deleteSession(`sandbox-obj-${mode}`));
});
await check("files", async () => {
  await box.writeFile(`${dir}/n/a.txt`, "one\n");
  assert.equal((await box.readFile(`${dir}/n/a.txt`)).content, "one\n");
  assert.equal((await box.exists(`${dir}/n/a.txt`)).exists, true);
  await box.mkdir(`${dir}/x/y`, { recursive: true });
  await box.renameFile(`${dir}/n/a.txt`, `${dir}/n/b.txt`);
  await box.moveFile(`${dir}/n/b.txt`, `${dir}/x/y/b.txt`);
  const list = await box.listFiles(dir, { recursive: true });
  assert.ok(list.files.some((f) => f.relativePath === "x/y/b.txt"));
  const { content } = await collectFile(await box.readFileStream(`${dir}/x/y/b.txt`));
  assert.equal(content, "one\n");
  await box.writeFile(`${dir}/b.bin`, Buffer.from([0, 1, 255]).toString("base64"), { encoding: "base64" });
  const bin = await box.readFile(`${dir}/b.bin`, { encoding: "base64" });
  assert.deepEqual([...Buffer.from(bin.content, "base64")], [0, 1, 255]);
  await box.deleteFile(`${dir}/b.bin`);
  const gone = await box.readFile(`${dir}/b.bin`).then(() => null, (e) => e);
  assert.equal(gone.constructor.name, "FileNotFoundError");
  assert.equal(gone.code, "FILE_NOT_FOUND");
});
await check("startProcess and its waits", async () => {
  const p = await box.startProcess("echo boot; sleep 0.3; echo ready on 8123; exec python3 -m http.server 8123", { processId: `srv-${mode}` });
  assert.equal(p.id, `srv-${mode}`);
  const hit = await p.waitForLog(/ready on (\d+)/, 20000);
  assert.equal(hit.match[1], "8123");
  await p.waitForPort(8123, { timeout: 20000, path: "/" });
  await p.waitForPort(8123, { timeout: 20000, mode: "tcp" });
  assert.equal(await p.getStatus(), "running");
  assert.match((await p.getLogs()).stdout, /^boot\nready on/);
  const waiting = p.waitForExit(20000);
  await p.kill();
  assert.equal((await waiting).exitCode, 143);
  const again = await box.getProcess(p.id);
  assert.equal(again.status, "killed");
  const seen = [];
  let code;
  const done = new Promise((yes) => { box.startProcess("echo o; echo e >&2; exit 4", { onOutput: (k, d) => seen.push([k, d]), onExit: (c) => { code = c; yes(); } }); });
  await done;
  assert.equal(code, 4);
  assert.deepEqual(seen.sort().map(([k, d]) => k + d), ["stderre\n", "stdouto\n"]);
  const dead = await box.startProcess("sleep 0.1; exit 9");
  const lost = await dead.waitForLog("never", 5000).then(() => null, (e) => e);
  assert.equal(lost.code, "PROCESS_EXITED_BEFORE_READY");
  assert.equal(lost.exitCode, 9);
  const noport = await box.startProcess("sleep 0.1; exit 8");
  const nope = await noport.waitForPort(8999, { timeout: 5000 }).then(() => null, (e) => e);
  assert.equal(nope.code, "PROCESS_EXITED_BEFORE_READY");
  const slow = await box.startProcess("sleep 30");
  const late = await slow.waitForLog("never", 300).then(() => null, (e) => e);
  assert.equal(late.code, "PROCESS_READY_TIMEOUT");
  assert.ok((await box.listProcesses()).some((q) => q.id === slow.id && q.status === "running"));
  assert.equal(await box.killAllProcesses(), 1);
  const all = await gather(parseSSEStream(await box.streamProcessLogs(dead.id)));
  assert.deepEqual([all.at(-1).type, all.at(-1).exitCode], ["exit", 9]);
  assert.equal(await box.getProcess("none"), null);
});
await check("gitCheckout", async () => {
  const out = await box.gitCheckout(repo, { targetDir: `${dir}/clone`, branch: "main", depth: 1 });
  assert.equal(out.success, true);
  assert.equal((await box.readFile(`${dir}/clone/README`)).content, "hello\n");
  const bad = await box.gitCheckout("file:///none/such", { targetDir: `${dir}/no` }).then(() => null, (e) => e);
  assert.ok(/Git|Repository/.test(bad.constructor.name), bad.constructor.name);
});
await check("watch and checkChanges", async () => {
  const stream = await box.watch(dir, { recursive: true });
  const seen = [];
  const reading = (async () => { for await (const e of parseSSEStream(stream)) { seen.push(e); if (e.path?.endsWith("w.txt") && e.type === "event") break; } })();
  await box.writeFile(`${dir}/w.txt`, "w");
  await reading;
  assert.equal(seen[0].type, "watching");
  const first = await box.checkChanges(dir);
  await box.writeFile(`${dir}/w2.txt`, "w");
  for (let i = 0; i < 200; i++) if ((await box.checkChanges(dir, { since: first.version })).status === "changed") return;
  assert.fail("not seen");
});
await check("exposePort", async () => {
  const made = await box.exposePort(8123, { hostname: "example.com", name: "web" });
  assert.match(made.url, /^https:\/\/8123-/);
  await box.unexposePort(8123);
});
await check("a backup by way of a bucket, and back", async () => {
  await box.exec(`mkdir -p ${dir}/keep && echo v1 > ${dir}/keep/f && head -c 300000 /dev/urandom > ${dir}/keep/r && md5sum < ${dir}/keep/r > /tmp/sum-${mode}`);
  const handle = await box.createBackup({ dir: `${dir}/keep`, name: "n", localBucket: true, gitignore: true, excludes: ["**/skip"] });
  assert.match(handle.id, /^[0-9a-f-]{36}$/);
  await box.exec(`echo v2 > ${dir}/keep/f; rm ${dir}/keep/r`);
  // Its own way back runs unsquashfs in the sandbox; the archive is cove's, and so is the way.
  const [name, bytes] = [...kept].find(([k]) => k.includes(handle.id) && /sqsh/.test(k));
  await box.writeFile(`/var/backups/back-${mode}.sqsh`, bytes.toString("base64"), { encoding: "base64" });
  const back = await box.client.backup.restoreArchive(`${dir}/keep`, `/var/backups/back-${mode}.sqsh`, "backup");
  assert.deepEqual([back.success, !!name], [true, true]);
  assert.equal((await box.exec(`cat ${dir}/keep/f; md5sum < ${dir}/keep/r | diff - /tmp/sum-${mode} && echo same`)).stdout, "v1\nsame");
});
await check("runCode in every language, and contexts", async () => {
  const first = await box.runCode("x = 20\nprint('hi')\nx + 1");
  assert.deepEqual([first.logs.stdout.join(""), first.results[0].text, first.error], ["hi\n", "21", undefined]);
  assert.equal((await box.runCode("x")).results[0].text, "20");
  assert.equal((await box.runCode("1/0")).error.name, "ZeroDivisionError");
  assert.equal((await box.runCode("const a = await 5; a", { language: "javascript" })).results[0].text, "5");
  assert.equal((await box.runCode("const b: number = 6; b", { language: "typescript" })).results[0].text, "6");
  const context = await box.createCodeContext({ language: "python", cwd: "/tmp" });
  assert.equal((await box.runCode("import os; os.getcwd()", { context })).results[0].text, "'/tmp'");
  assert.ok((await box.listCodeContexts()).length >= 4);
  await box.deleteCodeContext(context.id);
});
await check("runCode tells its callbacks, in order", async () => {
  const seen = [];
  const run = await box.runCode("import sys\nprint('a')\nprint('b', file=sys.stderr)\ndisplay(1)\nraise KeyError('k')", {
    onStdout: (o) => { seen.push(o.text); },
    onStderr: (o) => { seen.push(o.text); },
    onResult: (r) => { seen.push(r.text); },
    onError: (e) => { seen.push(e.name); },
  });
  assert.deepEqual(seen.sort(), ["1", "KeyError", "a\n", "b\n"]);
  assert.deepEqual([run.error.name, run.logs.stdout.join(""), run.logs.stderr.join("")], ["KeyError", "a\n", "b\n"]);
  assert.ok(run.error.traceback.join("\n").includes("raise KeyError"));
  assert.equal((await box.runCode("import os; os.environ['V']", { context: await box.createCodeContext({ envVars: { V: "v" } }) })).results[0].text, "'v'");
});
await check("tables, pictures and charts", async () => {
  const context = await box.createCodeContext({ envVars: { PATH: "/usr/bin:/bin" } });
  const table = await box.runCode("import pandas\npandas.DataFrame({'a': [1, 2]})", { context });
  const kinds = table.results.flatMap((r) => ["html", "text", "data"].filter((k) => r[k] !== undefined));
  assert.deepEqual([kinds, table.error], [["html", "text", "data"], undefined]);
  assert.deepEqual(table.results[2].data, [{ a: 1 }, { a: 2 }]);
  const plot = await box.runCode("import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4]); plt.title('T');", { context });
  assert.equal(plot.error, undefined);
  assert.ok(Buffer.from(plot.results[0].png, "base64").toString("latin1").startsWith("\x89PNG"));
  assert.deepEqual([plot.results[1].chart.type, plot.results[1].chart.title, plot.results[1].chart.library], ["line", "T", "matplotlib"]);
  await box.deleteCodeContext(context.id);
});
await check("errors keep their class and context", async () => {
  const e = await box.exec("exit 5").then(() => null, (x) => x);
  assert.equal(e.code, "SESSION_TERMINATED");
  assert.equal(e.exitCode ?? e.context.exitCode, 5);
  assert.equal((await box.exec("echo back")).stdout, "back");
});
process.exit(0);
