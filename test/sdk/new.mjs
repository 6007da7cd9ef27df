// The whole surface of the current client, over HTTP or over the WebSocket transport.
import WebSocket from "ws";
import { SandboxClient, parseSSEStream, streamFile, collectFile } from "sandbox-new";
import { assert, check, fails, gather, key, plainUrl, repo, text, url } from "./tap.mjs";

const mode = process.argv[2];
globalThis.WebSocket ??= WebSocket;
const box = new SandboxClient(
  mode === "websocket"
    ? { baseUrl: url, transportMode: mode, wsUrl: url.replace(/^http/, "ws") + "/ws" }
    : { baseUrl: plainUrl, defaultHeaders: { Authorization: `Bearer ${key}` } });
const s = `s-${mode}`;
const dir = `/workspace/${mode}`;
const run = (command, options) => box.commands.execute(command, s, options);
const stream = async (...args) => gather(parseSSEStream(await box.commands.executeStream(...args)));

await check("ping, version and commands", async () => {
  await box.utils.ping();
  assert.match(await box.utils.getVersion(), /^\d+\.\d+/);
  assert.ok((await box.utils.getCommands()).includes("ls"));
});
await check("a session is made once", async () => {
  const made = await box.utils.createSession({ id: s, env: { FROM: "session" }, cwd: "/workspace" });
  assert.equal(made.success, true);
  assert.equal(made.id, s);
  assert.ok("containerPlacementId" in made);
  const error = await fails("SESSION_ALREADY_EXISTS", () => box.utils.createSession({ id: s }));
  assert.equal(error.context.sessionId, s);
});
await check("a command answers with its output and status", async () => {
  const out = await run("echo out; echo err >&2; exit_code() { return 3; }; exit_code");
  assert.deepEqual([out.success, out.exitCode, out.stdout, out.stderr], [false, 3, "out", "err"]);
});
await check("a session keeps its state", async () => {
  await run(`mkdir -p ${dir}; cd ${dir}; plain=1; export loud=2; f() { echo fn; }`);
  assert.equal((await run("echo $plain $loud $FROM $(f) $PWD")).stdout, `1 2 session fn ${dir}`);
  assert.equal((await run("pwd", { cwd: "/tmp" })).stdout, "/tmp");
  assert.equal((await run("pwd; echo $X", { env: { X: "once" } })).stdout, `${dir}\nonce`);
  assert.equal((await run("echo ${X-unset}")).stdout, "unset");
});
await check("a missing directory is a status, not an error", async () => {
  const out = await run("pwd", { cwd: "/no/such" });
  assert.deepEqual([out.exitCode, out.stderr], [1, "Failed to change directory to '/no/such'"]);
});
await check("an unclosed quote is answered, and the session goes on", async () => {
  assert.equal((await run("echo 'oops")).exitCode, 2);
  assert.equal((await run("echo fine")).stdout, "fine");
});
await check("exit ends the session, the next command a fresh one", async () => {
  await box.utils.createSession({ id: `${s}-x` });
  const error = await fails("SESSION_TERMINATED", () => box.commands.execute("exit 7", `${s}-x`));
  assert.deepEqual([error.context.sessionId, error.context.exitCode], [`${s}-x`, 7]);
  assert.equal((await box.commands.execute("echo back", `${s}-x`)).stdout, "back");
  assert.equal((await box.utils.deleteSession(`${s}-x`)).success, true);
});
await check("a time-out ends the command and leaves the session usable", async () => {
  await run("kept=yes");
  await fails("COMMAND_EXECUTION_ERROR", () => run("sleep 30", { timeoutMs: 300 }));
  assert.equal((await run("echo $kept")).stdout, "yes");
});
await check("without a session", async () => {
  const out = await box.commands.execute("echo $0 $PWD", "__DISABLE_SESSION__");
  assert.match(out.stdout, /bash \/workspace\n$/);
  const late = await box.commands.execute("sleep 9", "__DISABLE_SESSION__", { timeoutMs: 200 });
  assert.equal(late.exitCode, 124);
});
await check("a stream has every byte and its end", async () => {
  for (let i = 0; i < 20; i++) {
    const events = await stream("seq 1 2000; echo bad >&2; (exit 4)", s);
    assert.equal(events[0].type, "start");
    assert.equal(text(events, "stdout"), Array.from({ length: 2000 }, (_, n) => `${n + 1}\n`).join(""));
    assert.equal(text(events, "stderr"), "bad\n");
    assert.deepEqual([events.at(-1).type, events.at(-1).exitCode], ["complete", 4]);
  }
});
await check("exit, a missing directory and a time-out end a stream", async () => {
  assert.equal((await stream("echo a; exit 5", s)).at(-1).exitCode, 5);
  const lost = await stream("pwd", s, { cwd: "/no/such" }).catch((error) => [{ type: "error", error }]);
  assert.ok(["complete", "error"].includes(lost.at(-1).type));
  assert.equal((await stream("sleep 20", s, { timeoutMs: 300 })).at(-1).exitCode, 124);
});
await check("a stream sees the session's state and cannot change it", async () => {
  const events = await stream("echo $plain; f; plain=9", s);
  assert.equal(text(events, "stdout"), "1\nfn\n");
  assert.equal((await run("echo $plain")).stdout, "1");
});
await check("files are written, read, listed, moved and deleted", async () => {
  const f = `${dir}/deep/a.txt`;
  await box.files.writeFile(f, "héllo\n", s);
  const read = await box.files.readFile(f, s);
  assert.deepEqual([read.content, read.encoding, read.isBinary, read.mimeType, read.size],
    ["héllo\n", "utf-8", false, "text/plain", 7]);
  await box.files.writeFile(`${dir}/b.png`, Buffer.from([137, 80, 0, 255]).toString("base64"), s, { encoding: "base64" });
  const png = await box.files.readFile(`${dir}/b.png`, s);
  assert.deepEqual([png.encoding, png.isBinary, png.mimeType, [...Buffer.from(png.content, "base64")]],
    ["base64", true, "image/png", [137, 80, 0, 255]]);
  await box.files.mkdir(`${dir}/sub/one`, s, { recursive: true });
  await fails("FILESYSTEM_ERROR", () => box.files.mkdir(`${dir}/sub`, s));
  const list = await box.files.listFiles(dir, s, { recursive: true });
  const names = list.files.map((e) => e.relativePath).sort();
  for (const name of ["b.png", "deep", "deep/a.txt", "sub", "sub/one"]) assert.ok(names.includes(name), name);
  assert.equal(list.count, list.files.length);
  await box.files.renameFile(`${dir}/b.png`, `${dir}/c.png`, s);
  await box.files.moveFile(`${dir}/c.png`, `${dir}/sub`, s);
  assert.equal((await box.files.exists(`${dir}/sub/c.png`, s)).exists, true);
  assert.equal((await box.files.exists(`${dir}/c.png`, s)).exists, false);
  await box.files.deleteFile(`${dir}/sub/c.png`, s);
  await fails("FILE_NOT_FOUND", () => box.files.readFile(`${dir}/sub/c.png`, s));
  await fails("IS_DIRECTORY", () => box.files.deleteFile(`${dir}/sub`, s));
  await fails("FILE_NOT_FOUND", () => box.files.listFiles(`${dir}/nowhere`, s));
});
await check("a relative path starts at the session's directory", async () => {
  await box.files.writeFile("rel.txt", "here", s);
  assert.equal((await run(`cat ${dir}/rel.txt`)).stdout, "here");
});
await check("a file of 8 MiB comes as a stream, whole", async () => {
  await run(`head -c 8388608 /dev/urandom > ${dir}/big.bin; seq 1 100000 > ${dir}/big.txt`);
  const { content } = await collectFile(await box.files.readFileStream(`${dir}/big.bin`, s));
  assert.equal(content.length, 8388608);
  let lines = "";
  for await (const piece of streamFile(await box.files.readFileStream(`${dir}/big.txt`, s))) lines += piece;
  assert.equal(lines, Array.from({ length: 100000 }, (_, n) => `${n + 1}\n`).join(""));
});
await check("processes: start, list, logs, stream, kill", async () => {
  const id = `p-${mode}`;
  const started = await box.processes.startProcess("echo one; echo two >&2; sleep 60", s, { processId: id });
  assert.equal(started.processId, id);
  assert.ok(started.pid > 0);
  const live = parseSSEStream(await box.processes.streamProcessLogs(id));
  const seen = [];
  const reading = (async () => { for await (const event of live) seen.push(event); })();
  while (text(seen, "stdout") !== "one\n" || text(seen, "stderr") !== "two\n") await new Promise((r) => setTimeout(r, 5));
  const list = await box.processes.listProcesses();
  assert.equal(list.processes.find((p) => p.id === id).status, "running");
  const logs = await box.processes.getProcessLogs(id);
  assert.deepEqual([logs.stdout, logs.stderr], ["one\n", "two\n"]);
  assert.equal((await box.processes.killProcess(id)).success, true);
  await reading;
  assert.equal(seen.at(-1).type, "exit");
  const { process } = await box.processes.getProcess(id);
  assert.deepEqual([process.status, process.exitCode], ["killed", 143]);
  await fails("PROCESS_NOT_FOUND", () => box.processes.getProcess("nope"));
  await box.processes.startProcess("sleep 60", s);
  await box.processes.startProcess("sleep 60", s);
  assert.equal((await box.processes.killAllProcesses()).cleanedCount, 2);
});
await check("a port is awaited", async () => {
  const port = mode === "websocket" ? 8101 : 8100;
  await box.processes.startProcess(`sleep 0.5; exec python3 -m http.server ${port}`, s, { processId: `web-${mode}` });
  const events = await gather(parseSSEStream(await box.ports.watchPort({ port, mode: "http", path: "/", processId: `web-${mode}` })));
  assert.deepEqual([events[0].type, events.at(-1).type, events.at(-1).statusCode], ["watching", "ready", 200]);
  await box.processes.killProcess(`web-${mode}`);
  await box.processes.startProcess("sleep 0.2; exit 6", s, { processId: `dead-${mode}` });
  const lost = await gather(parseSSEStream(await box.ports.watchPort({ port: 1, mode: "tcp", processId: `dead-${mode}` })));
  assert.deepEqual([lost.at(-1).type, lost.at(-1).exitCode], ["process_exited", 6]);
});
await check("changes are watched", async () => {
  const events = parseSSEStream(await box.watch.watch({ path: dir, recursive: true }));
  const seen = [];
  const reading = (async () => {
    for await (const event of events) {
      seen.push(event);
      if (event.type === "event" && event.path.endsWith("watched.txt")) break;
    }
  })();
  await run(`touch ${dir}/watched.txt`);
  await reading;
  assert.equal(seen[0].type, "watching");
  assert.equal(seen.at(-1).eventType, "create");
  const first = await box.watch.checkChanges({ path: dir });
  assert.equal((await box.watch.checkChanges({ path: dir, since: first.version })).status, "unchanged");
  await run(`echo x > ${dir}/changed.txt`);
  for (let i = 0; i < 200; i++)
    if ((await box.watch.checkChanges({ path: dir, since: first.version })).status === "changed") return;
  assert.fail("the change was not seen");
});
await check("a repository is checked out", async () => {
  const out = await box.git.checkout(repo, s, { targetDir: `${dir}/clone`, branch: "main" });
  assert.deepEqual([out.success, out.branch, out.targetDir], [true, "main", `${dir}/clone`]);
  assert.equal((await run(`cat ${dir}/clone/README`)).stdout, "hello");
  await fails("INVALID_GIT_URL", () => box.git.checkout("", s, { targetDir: `${dir}/none` }));
});
await check("a directory is backed up and restored", async () => {
  await run(`mkdir -p ${dir}/keep; echo v1 > ${dir}/keep/f; ln -s f ${dir}/keep/l`);
  const made = await box.backup.createArchive(`${dir}/keep`, `/var/backups/${mode}.sqsh`, s);
  assert.ok(made.sizeBytes > 0);
  await run(`echo v2 > ${dir}/keep/f; touch ${dir}/keep/new`);
  assert.equal((await box.backup.restoreArchive(`${dir}/keep`, `/var/backups/${mode}.sqsh`, s)).dir, `${dir}/keep`);
  assert.equal((await run(`cat ${dir}/keep/l; ls ${dir}/keep`)).stdout, "v1\nf\nl");
  await fails("INVALID_BACKUP_CONFIG", () => box.backup.createArchive("/etc", "/var/backups/x.sqsh", s));
});
await check("errors have their classes", async () => {
  const error = await fails("FILE_NOT_FOUND", () => box.files.readFile("/none", s));
  assert.equal(error.constructor.name, "FileNotFoundError");
  assert.deepEqual([error.context.path, error.context.operation], ["/none", "file.read"]);
  await fails("INVALID_COMMAND", async () => gather(parseSSEStream(await box.commands.executeStream("  ", s))));
});
const cell = async (context, code, language, timeout) => {
  const seen = { stdout: "", stderr: "", results: [], error: undefined };
  await box.interpreter.runCodeStream(context, code, language, {
    onStdout: (o) => { seen.stdout += o.text; },
    onStderr: (o) => { seen.stderr += o.text; },
    onResult: (r) => { seen.results.push(r); },
    onError: (e) => { seen.error = e; },
  }, timeout);
  return seen;
};
await check("a context of Python keeps its state", async () => {
  const context = await box.interpreter.createCodeContext({ language: "python", cwd: "/tmp", envVars: { FROM: "context" } });
  assert.equal(context.language, "python");
  await cell(context.id, "x = 20", "python");
  const out = await cell(context.id, "import os, sys\nprint(os.getcwd(), os.environ['FROM'])\nprint('bad', file=sys.stderr)\nx + 1", "python");
  assert.deepEqual([out.stdout, out.stderr, out.results[0].text], ["/tmp context\n", "bad\n", "21"]);
  assert.deepEqual((await cell(context.id, "{'a': [1]}")).results[0].json, { a: [1] });
  const bad = await cell(context.id, "1/0");
  assert.deepEqual([bad.error.name, bad.error.message], ["ZeroDivisionError", "division by zero"]);
  assert.equal((await cell(context.id, "while True: pass", undefined, 300)).error.name, "TimeoutError");
  assert.ok((await box.interpreter.listCodeContexts()).some((c) => c.id === context.id));
  await box.interpreter.deleteCodeContext(context.id);
  await fails("CONTEXT_NOT_FOUND", () => cell(context.id, "1"));
});
await check("contexts of JavaScript and TypeScript", async () => {
  for (const [language, code] of [["javascript", "const a = await 5; a"], ["typescript", "const a: number = await 5; a as number"]]) {
    const context = await box.interpreter.createCodeContext({ language });
    assert.equal((await cell(context.id, code, language)).results[0].text, "5");
    const bad = await cell(context.id, "null.x", language);
    assert.equal(bad.error.name, "TypeError");
    await box.interpreter.deleteCodeContext(context.id);
  }
});
await check("a cell as a stream", async () => {
  const context = await box.interpreter.createCodeContext({});
  const events = await gather(parseSSEStream(await box.interpreter.streamCode(context.id, "print('a')\n1")));
  assert.deepEqual(events.map((e) => e.type), ["stdout", "result", "execution_complete"]);
  await box.interpreter.deleteCodeContext(context.id);
});
await check("a session is deleted", async () => {
  assert.equal((await box.utils.deleteSession(s)).success, true);
});
box.disconnect();
process.exit(0);
