// Sessions over a restart of the server, as the SDK reads them: before it and after it.
import { assert, check, client, version } from "./tap.mjs";

const daytona = client();
const after = process.env.PHASE !== "before";
const box = after ? await daytona.get(`restart-${version}`) : await daytona.create({ name: `restart-${version}` });
const p = box.process;
const run = (session, command, runAsync = false) => p.executeSessionCommand(session, { command, runAsync });
const many = Array.from({ length: 20000 }, (_, n) => `${n + 1}\n`).join("");
const follow = async (session, id) => {
  const got = { out: "", err: "" };
  await p.getSessionCommandLogs(session, id, (text) => (got.out += text), (text) => (got.err += text));
  return got;
};

if (!after) await check("commands before the restart", async () => {
  await p.createSession("s");
  await p.createSession("busy");
  await p.createSession("gone");
  await run("s", "cd /tmp; A=1");
  assert.equal((await run("s", "echo out; echo err >&2; (exit 3)")).exitCode, 3);
  const { cmdId } = await run("s", "printf 'a\\0b'; seq 1 20000", true);
  await follow("s", cmdId);
  await run("gone", "true");
  await p.deleteSession("gone");
  const busy = await run("busy", "echo begun; sleep 987", true);
  while (!(await p.getSessionCommandLogs("busy", busy.cmdId)).stdout?.includes("begun")) await new Promise((done) => setTimeout(done, 50));
});
else await check("the records of commands are there, with logs and exit codes", async () => {
  const { commands } = await p.getSession("s");
  assert.deepEqual(commands.slice(0, 3).map((one) => [one.command, one.exitCode]),
    [["cd /tmp; A=1", 0], ["echo out; echo err >&2; (exit 3)", 3], ["printf 'a\\0b'; seq 1 20000", 0]]);
  const logs = await p.getSessionCommandLogs("s", commands[1].id);
  assert.deepEqual([logs.stdout, logs.stderr], ["out\n", "err\n"]);
  assert.equal((await p.getSessionCommand("s", commands[1].id)).exitCode, 3);
  assert.deepEqual(await follow("s", commands[2].id), { out: `a\0b${many}`, err: "" });
  assert.deepEqual((await p.listSessions()).map((one) => one.sessionId).sort(), process.env.PHASE === "last" ? ["s"] : ["busy", "s"]);
  assert.equal((await run("s", "echo $A; pwd")).stdout, "1\n/tmp\n");
  assert.equal((await p.getSession("s")).commands.length, commands.length + 1);
});
if (process.env.PHASE === "after") await check("a command that ran then is told to have ended, and its session can be deleted", async () => {
  const { commands } = await p.getSession("busy");
  assert.deepEqual(commands.map((one) => one.exitCode), [-1]);
  assert.deepEqual(await follow("busy", commands[0].id), { out: "begun\n", err: "" });
  await p.deleteSession("busy");
});
if (process.env.PHASE === "last") await check("once more, with the commands between", async () => {
  const { commands } = await p.getSession("s");
  assert.deepEqual(commands.slice(3).map((one) => [one.command, one.exitCode]), [["echo $A; pwd", 0], ["echo $A; pwd", 0]]);
  await p.deleteSession("s");
});
process.exit();
