// Process sessions, as the SDK uses them.
import { assert, check, client, fails, version } from "./tap.mjs";

const box = await client().create({ labels: { run: `session-${version}` } });
const p = box.process;
const run = (command, runAsync = false) => p.executeSessionCommand("s", { command, runAsync });
const ended = async (id) => {
  for (;;) {
    const command = await p.getSessionCommand("s", id);
    if (command.exitCode !== undefined && command.exitCode !== null) return command.exitCode;
    await new Promise((done) => setTimeout(done, 50));
  }
};
const follow = async (id) => {
  const got = { out: "", err: "" };
  await p.getSessionCommandLogs("s", id, (text) => (got.out += text), (text) => (got.err += text));
  return got;
};

await check("create, and again: the id is taken", async () => {
  await p.createSession("s");
  await fails("DaytonaConflictError", 409, () => p.createSession("s"));
  await fails("DaytonaValidationError", 400, () => p.createSession("entrypoint"));
  assert.deepEqual([(await p.getSession("s")).sessionId, (await p.listSessions()).some((one) => one.sessionId === "s")], ["s", true]);
});
await check("commands share directory, variables and functions", async () => {
  await run("cd /tmp; A=1; f() { echo f $A; }");
  const got = await run("pwd; f; echo err >&2; (exit 3)");
  assert.deepEqual([got.exitCode, got.stdout, got.stderr], [3, "/tmp\nf 1\n", "err\n"]);
  assert.ok(got.cmdId);
});
await check("a synchronous command reads end-of-file; output is not changed", async () => {
  const got = await run("cat; printf 'no line end'");
  assert.deepEqual([got.exitCode, got.stdout], [0, "no line end"]);
});
await check("an asynchronous command: id at once, logs, and the exit code after them", async () => {
  const { cmdId, exitCode } = await run("for i in 1 2 3; do echo out$i; echo err$i >&2; sleep 0.1; done; (exit 7)", true);
  assert.equal(exitCode ?? undefined, undefined);
  const got = await follow(cmdId);
  assert.deepEqual(got, { out: "out1\nout2\nout3\n", err: "err1\nerr2\nerr3\n" });
  assert.equal((await p.getSessionCommand("s", cmdId)).exitCode, 7);
  const logs = await p.getSessionCommandLogs("s", cmdId);
  assert.deepEqual([logs.stdout, logs.stderr], ["out1\nout2\nout3\n", "err1\nerr2\nerr3\n"]);
  assert.deepEqual(await follow(cmdId), got);
});
await check("exit in a command ends that command, and no later one", async () => {
  const { cmdId } = await run("echo last; exit 6", true);
  assert.match((await follow(cmdId)).out, /last\n/);
  assert.equal((await p.getSessionCommand("s", cmdId)).exitCode, 6);
  assert.equal((await run("echo again")).stdout, "again\n");
});
await check("asynchronous commands keep state, and run in turn", async () => {
  const first = await run("sleep 0.3; B=kept", true);
  assert.equal((await run("echo $B")).stdout, "kept\n");
  assert.equal(await ended(first.cmdId), 0);
});
if (p.sendSessionCommandInput) {
  await check("input to a running command, and to one that has ended", async () => {
    const { cmdId } = await run("read a; read b; echo \"got $a, $b\"", true);
    await p.sendSessionCommandInput("s", cmdId, "one");
    await p.sendSessionCommandInput("s", cmdId, "two'\n");
    assert.match((await follow(cmdId)).out, /got one, two'\n$/);
    await fails("DaytonaGoneError", 410, () => p.sendSessionCommandInput("s", cmdId, "late"));
    assert.equal((await run("ls -a /tmp | grep cove-input | wc -l")).stdout.trim(), "0");
  });
}
await check("quotes, NUL bytes and large output arrive whole", async () => {
  const { cmdId } = await run("printf 'a\\0b%s' \"'\"; seq 1 100000", true);
  const got = await follow(cmdId);
  assert.equal(got.out, "a\0b'" + Array.from({ length: 100000 }, (_, n) => `${n + 1}\n`).join(""));
});
await check("a session lists its commands", async () => {
  const { commands } = await p.getSession("s");
  assert.ok(commands.length >= 7);
  assert.deepEqual([commands[0].command, commands[0].exitCode], ["cd /tmp; A=1; f() { echo f $A; }", 0]);
});
await check("unknown sessions and commands are 404, an empty command is 400", async () => {
  await fails("DaytonaNotFoundError", 404, () => p.getSession("none"));
  await fails("DaytonaNotFoundError", 404, () => p.executeSessionCommand("none", { command: "true" }));
  await fails("DaytonaNotFoundError", 404, () => p.getSessionCommand("s", "none"));
  await fails("DaytonaNotFoundError", 404, () => p.getSessionCommandLogs("s", "none"));
  await fails("DaytonaValidationError", 400, () => run("  "));
});
await check("delete ends what runs", async () => {
  const { cmdId } = await run("sleep 987", true);
  const log = follow(cmdId);
  while ((await p.executeCommand("pgrep -f 'sleep 98[7]' || true")).result === "") await new Promise((done) => setTimeout(done, 50));
  await p.deleteSession("s");
  await log;
  await fails("DaytonaNotFoundError", 404, () => p.getSession("s"));
  assert.doesNotMatch((await p.executeCommand("pgrep -f 'sleep 98[7]' || true")).result, /\d/);
  await fails("DaytonaNotFoundError", 404, () => p.deleteSession("s"));
  await p.createSession("s");
  assert.equal((await run("echo $A")).stdout, "\n");
});
await box.delete();
process.exit();
