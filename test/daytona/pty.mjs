// Terminals, as the SDK uses them.
import { assert, check, client, fails, version } from "./tap.mjs";

const box = await client().create({ labels: { run: `pty-${version}` } });
const p = box.process;
const newer = Number(version) >= 199; // the exit code comes as a message of its own
let serial = 0;

// A terminal whose output is gathered; until() waits for a pattern in it.
const gather = () => {
  const got = { text: "", waiting: () => {} };
  const decoder = new TextDecoder();
  got.onData = (bytes) => { got.text += decoder.decode(bytes, { stream: true }); got.waiting(); };
  got.until = (pattern) => new Promise((done) => { got.waiting = () => pattern.test(got.text) && done(); got.waiting(); });
  return got;
};
const open = async (options = {}) => {
  const got = gather();
  const id = `t${version}-${serial++}`;
  got.id = id;
  got.pty = await p.createPty({ id, cols: 90, rows: 30, onData: got.onData, ...options });
  await got.pty.waitForConnection();
  return got;
};

await check("a login shell with size, directory and environment", async () => {
  const one = await open({ cwd: "/tmp", envs: { GREETING: "he said \"ü\"" } });
  await one.pty.sendInput("shopt login_shell; stty size; pwd; echo \"[$GREETING] $TERM $-\"; echo e''nd\n");
  await one.until(/^end/m);
  assert.match(one.text, /login_shell\s+on/);
  assert.match(one.text, /^30 90\r$/m);
  assert.match(one.text, /^\/tmp\r$/m);
  assert.match(one.text, /^\[he said "ü"\] xterm-256color \S*i/m);
  const info = await p.getPtySessionInfo(one.id);
  assert.deepEqual([info.id, info.cwd, info.cols, info.rows, info.active, info.envs.GREETING], [one.id, "/tmp", 90, 30, true, "he said \"ü\""]);
  assert.ok(Math.abs(Date.parse(info.createdAt) - Date.now()) < 600000);
  await one.pty.sendInput(new TextEncoder().encode("exit\n"));
  assert.equal((await one.pty.wait()).exitCode, 0);
});
await check("the exit code and its reason", async () => {
  for (const [command, code, reason] of [["exit 7", 7, "non-zero exit"], ["kill -TERM $$; kill -9 $$", 137, "SIGKILL"], ["exit 130", 130, "Ctrl+C"], ["exit 143", 143, "SIGTERM"], ["exit 131", 131, "signal 3"]]) {
    const one = await open();
    await one.pty.sendInput(`${command}\n`);
    const result = await one.pty.wait();
    assert.deepEqual([result.exitCode, result.error], [code, reason]);
    await fails("DaytonaNotFoundError", 404, () => p.getPtySessionInfo(one.id));
  }
});
await check("all output comes before the end", async () => {
  for (let i = 0; i < 5; i++) {
    const one = await open();
    await one.pty.sendInput("exec sh -c 'seq 1 20000; printf l''ast'\n");
    assert.equal((await one.pty.wait()).exitCode, 0);
    assert.match(one.text, /\r\n19999\r\n20000\r\nlast$/);
  }
});
await check("resize, and its bounds", async () => {
  const one = await open();
  await one.pty.resize(111, 44);
  await one.pty.sendInput("stty size; echo e''nd\n");
  await one.until(/^end/m);
  assert.match(one.text, /^44 111\r$/m);
  const info = await p.resizePtySession(one.id, 1000, 1);
  assert.deepEqual([info.cols, info.rows], [1000, 1]);
  await fails("DaytonaValidationError", 400, () => one.pty.resize(0, 10));
  await fails("DaytonaValidationError", 400, () => one.pty.resize(1001, 10));
  await one.pty.kill();
  await one.pty.wait();
  await fails("DaytonaGoneError", 410, () => p.resizePtySession(one.id, 10, 10));
});
await check("an id is taken once; a size is bounded", async () => {
  const one = await open();
  await assert.rejects(() => p.createPty({ id: one.id, onData: () => {} }));
  await assert.rejects(() => p.createPty({ id: "wide", cols: 1001, onData: () => {} }));
  await one.pty.sendInput("echo s''till\n");
  await one.until(/^still/m);
  await one.pty.kill();
});
await check("a terminal outlives its clients, and several see it", async () => {
  const one = await open();
  await one.pty.sendInput("A=kept; echo o''ne\n");
  await one.until(/^one/m);
  await one.pty.disconnect();
  const two = gather(), three = gather();
  two.pty = await p.connectPty(one.id, { onData: two.onData });
  three.pty = await p.connectPty(one.id, { onData: three.onData });
  await two.pty.waitForConnection();
  await three.pty.waitForConnection();
  await two.pty.sendInput("echo [$A]; echo e''nd\n");
  for (const each of [two, three]) {
    await each.until(/^end/m);
    assert.match(each.text, /^\[kept\]\r$/m);
    assert.doesNotMatch(each.text, /^one/m);
  }
  assert.ok((await p.listPtySessions()).some((each) => each.id === one.id));
  await p.killPtySession(one.id);
  for (const each of [two, three]) assert.deepEqual(await each.pty.wait(), { exitCode: 137, error: "SIGKILL" });
  assert.ok(!(await p.listPtySessions()).some((each) => each.id === one.id));
});
await check("kill ends the whole tree", async () => {
  const one = await open();
  await one.pty.sendInput("setsid sleep 9876 & sleep 9876 & echo s''et\n");
  await one.until(/^set/m);
  await one.pty.kill();
  assert.equal((await one.pty.wait()).exitCode, 137);
  assert.doesNotMatch((await p.executeCommand("pgrep -f 'sleep 987[6]' || true")).result, /\d/);
  await fails("DaytonaNotFoundError", 404, () => p.killPtySession(one.id));
});
if (newer) await check("a missing directory is told by its name", async () => {
  await assert.rejects(() => open({ cwd: "/no/such" }), /no\/such/);
});
await box.delete();
process.exit();
