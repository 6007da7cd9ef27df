// Sandboxes and commands, as the SDK uses them.
import { assert, check, client, collect, fails, sdk, version } from "./tap.mjs";

const daytona = client();
const run = `run-${version}`;
const wraps = Number(version) < 158; // the SDK wraps commands in sh -c "…", which takes neither blanks in values nor 128 KiB
const value = wraps ? "x" : "x y'z";
let box;

await check("create: labels, environment, language, and the object", async () => {
  box = await daytona.create({ name: `one-${version}`, labels: { run, kind: "a" }, envVars: { FROM: "create" }, autoStopInterval: 20, language: "python" });
  assert.equal(box.state, "started");
  assert.equal(box.name, `one-${version}`);
  assert.deepEqual({ ...box.labels }, { run, kind: "a", "code-toolbox-language": "python" });
  assert.deepEqual([box.cpu, box.memory, box.gpu, box.public], [1, 1, 0, false]);
  assert.deepEqual([box.autoStopInterval, box.autoDeleteInterval], [20, -1]);
  assert.ok(Date.parse(box.createdAt) > 0);
});
await check("execute: output of both streams in order, and the status", async () => {
  const got = await box.process.executeCommand("echo out; echo err >&2; echo $FROM; exit 3");
  assert.deepEqual([got.exitCode, got.result], [3, "out\nerr\ncreate\n"]);
  assert.equal(got.artifacts.stdout, got.result);
});
await check("execute: directory and environment", async () => {
  const got = await box.process.executeCommand('pwd; echo "$A"', "/tmp", { A: value });
  assert.deepEqual([got.exitCode, got.result], [0, `/tmp\n${value}\n`]);
});
await check("execute: a missing directory is no error", async () => {
  const got = await box.process.executeCommand("pwd", "/no/such");
  assert.notEqual(got.exitCode, 0);
  assert.match(got.result, /no\/such/);
});
await check("execute: NUL bytes and bytes that are no UTF-8", async () => {
  const got = await box.process.executeCommand("printf 'a\\0b\\377c'");
  assert.equal(got.result, "a\0b\ufffdc");
});
if (!wraps) await check("execute: a command of 200 KiB, which reads no part of itself", async () => {
  const got = await box.process.executeCommand(`cat; echo ${"x".repeat(200 * 1024)} | wc -c; exit 4`);
  assert.deepEqual([got.exitCode, got.result], [4, `${200 * 1024 + 1}\n`]);
});
await check("execute: large output arrives whole", async () => {
  const got = await box.process.executeCommand("seq 1 300000");
  assert.equal(got.result, Array.from({ length: 300000 }, (_, n) => `${n + 1}\n`).join(""));
});
await check("execute: a command that is unknown, and one whose syntax is wrong", async () => {
  assert.equal((await box.process.executeCommand("no-such-program")).exitCode, 127);
  const got = await box.process.executeCommand("if (");
  assert.notEqual(got.exitCode, 0);
  assert.match(got.result, /syntax/i);
});
await check("execute: a background job whose output goes elsewhere survives", async () => {
  await box.process.executeCommand("(until [ -e /tmp/go ]; do sleep 0.05; done; echo late > /tmp/late) >/dev/null 2>&1 &");
  const got = await box.process.executeCommand("touch /tmp/go; until [ -s /tmp/late ]; do sleep 0.05; done; cat /tmp/late");
  assert.equal(got.result, "late\n");
});
await check("execute: the time limit is 408", async () => {
  const error = await fails(Number(version) > 200 ? "DaytonaTimeoutError" : "DaytonaError", 408, () => box.process.executeCommand("sleep 100", undefined, undefined, 1));
  assert.match(error.message, /time limit|timeout/i);
});
if (Number(version) >= 167) {
  await check("execute: names of variables and empty commands are checked", async () => {
    await fails("DaytonaValidationError", 400, () => box.process.executeCommand("true", undefined, { "A-B": "1" }));
    await fails("DaytonaValidationError", 400, () => box.process.executeCommand("  "));
  });
}
await check("codeRun: python, with arguments and environment", async () => {
  const got = await box.process.codeRun("import os, sys\nprint(sys.argv[1:], os.environ['A'])\nsys.exit(5)", { argv: wraps ? ["p", "q"] : ["p", "q r"], env: { A: "1" } });
  assert.deepEqual([got.exitCode, got.result.trim()], [5, wraps ? "['p', 'q'] 1" : "['p', 'q r'] 1"]);
});
await check("work directory and home directory", async () => {
  assert.equal(await box.getWorkDir(), "/home/daytona");
  assert.equal(await box.getUserHomeDir(), "/home/daytona");
});
await check("get by id and by name; a missing one is NotFound", async () => {
  assert.equal((await daytona.get(box.id)).name, box.name);
  assert.equal((await daytona.get(box.name)).id, box.id);
  await fails("DaytonaNotFoundError", 404, () => daytona.get(`none-${version}`));
});
await check("labels are found at once, by all pairs", async () => {
  const other = await daytona.create({ labels: { run, kind: "b" } });
  const ids = async (labels) => (await collect(daytona, { labels })).map((one) => one.id);
  assert.deepEqual(await ids({ run }), [other.id, box.id]);
  assert.deepEqual(await ids({ run, kind: "a" }), [box.id]);
  assert.deepEqual(await ids({ run, kind: "ab" }), []);
  await other.setLabels({ run, kind: "c" });
  assert.deepEqual(await ids({ run, kind: "b" }), []);
  assert.deepEqual(await ids({ run, kind: "c" }), [other.id]);
  await other.delete();
  assert.deepEqual(await ids({ run, kind: "c" }), []);
});
await check("a name is taken once", async () => {
  await fails("DaytonaConflictError", 409, () => daytona.create({ name: box.name }));
});
await check("a name is any text", async () => {
  const name = `My "Box"/é_${version}`;
  const one = await daytona.create({ name, labels: { run } });
  assert.equal(one.name, name);
  const again = await daytona.get(name);
  assert.deepEqual([again.id, again.name], [one.id, name]);
  assert.ok((await collect(daytona, { labels: { run } })).some((other) => other.name === name));
  await fails("DaytonaConflictError", 409, () => daytona.create({ name }));
  for (const wrong of ["a\nb", "A".repeat(60), one.id]) await fails("DaytonaValidationError", 400, () => daytona.create({ name: wrong }));
  await one.delete();
  await fails("DaytonaNotFoundError", 404, () => daytona.get(name));
});
await check("stop keeps files; commands after start see them", async () => {
  await box.process.executeCommand("echo kept > kept");
  await box.stop();
  assert.equal(box.state, "stopped");
  await fails("DaytonaValidationError", 400, () => box.stop());
  await box.archive();
  while (box.state !== "archived") {
    assert.equal(box.state, "stopped");
    await new Promise((resume) => setTimeout(resume, 50));
    await box.refreshData();
  }
  await box.start();
  assert.equal(box.state, "started");
  assert.equal((await box.process.executeCommand("cat kept; echo $FROM")).result, "kept\ncreate\n");
  await box.start();
});
await check("intervals", async () => {
  await fails("DaytonaValidationError", 400, () => box.archive());
  assert.equal(box.autoArchiveInterval, 10080);
  await box.setAutoArchiveInterval(0);
  await box.refreshData();
  assert.equal(box.autoArchiveInterval, 43200);
  await box.setAutostopInterval(0);
  await box.setAutoArchiveInterval(60);
  await box.setAutoDeleteInterval(30);
  await box.refreshData();
  assert.deepEqual([box.autoStopInterval, box.autoArchiveInterval, box.autoDeleteInterval], [0, 60, 30]);
  await box.setAutostopInterval(15);
  await box.setAutoDeleteInterval(-1);
  await box.refreshData();
  assert.deepEqual([box.autoStopInterval, box.autoDeleteInterval], [15, -1]);
  if (box.refreshActivity) await box.refreshActivity();
  assert.deepEqual({ ...box.labels }, { run, kind: "a", "code-toolbox-language": "python" });
});
await check("an ephemeral sandbox is gone when it is stopped", async () => {
  const brief = await daytona.create({ ephemeral: true, labels: { run } });
  assert.equal(brief.autoDeleteInterval, 0);
  await brief.stop().catch((error) => assert.ok(error instanceof sdk.DaytonaNotFoundError, error.message));
  await fails("DaytonaNotFoundError", 404, () => daytona.get(brief.id));
});
await check("what cove lacks is 501 with a hint", async () => {
  const error = await fails("DaytonaError", 501, () => daytona.create({ image: "cove://host", resources: { gpu: 1 } }));
  assert.match(error.message, /'gpu'.*leave it out/);
  await fails("DaytonaNotFoundError", 404, () => daytona.create({ volumes: [{ volumeId: "v", mountPath: "/v" }] }));
});
await check("an unknown snapshot and a wrong interval are 400", async () => {
  const error = await fails("DaytonaValidationError", 400, () => daytona.create({ snapshot: "no-such" }));
  assert.match(error.message, /no-such/);
  await fails("DaytonaValidationError", 400, () => daytona.create({ autoStopInterval: 10 ** 9 }));
});
await check("a wrong key is 401", async () => {
  const stranger = new sdk.Daytona({ apiKey: "wrong" });
  await fails("DaytonaAuthenticationError", 401, () => stranger.get(box.id));
});
await check("delete, and delete again", async () => {
  await box.delete();
  await fails("DaytonaNotFoundError", 404, () => box.delete());
});
process.exit(); // an SDK that follows events by socket.io keeps trying to connect
