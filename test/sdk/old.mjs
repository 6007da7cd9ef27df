// The surface of 0.4.18, which can send no header of its own.
import { SandboxClient, parseSSEStream } from "sandbox-old";
import { assert, check, fails, gather, repo, text, url } from "./tap.mjs";

const box = new SandboxClient({ baseUrl: url });
const s = "old";
const dir = "/workspace/old";

await check("sessions and commands", async () => {
  assert.equal((await box.utils.createSession({ id: s, cwd: "/workspace" })).success, true);
  await box.commands.execute(`mkdir -p ${dir}; cd ${dir}; v=1`, s);
  assert.equal((await box.commands.execute("echo $v $PWD", s)).stdout, `1 ${dir}`);
  assert.equal((await box.commands.execute("false", s)).exitCode, 1);
});
await check("streams", async () => {
  const events = await gather(parseSSEStream(await box.commands.executeStream("seq 1 2000", s)));
  assert.equal(text(events, "stdout").split("\n").length, 2001);
  assert.equal(events.at(-1).exitCode, 0);
});
await check("files", async () => {
  await box.files.writeFile(`${dir}/a.txt`, "old", s);
  assert.equal((await box.files.readFile(`${dir}/a.txt`, s)).content, "old");
  await box.files.mkdir(`${dir}/d`, s, { recursive: true });
  assert.ok((await box.files.listFiles(dir, s)).files.some((e) => e.name === "a.txt"));
  await box.files.renameFile(`${dir}/a.txt`, `${dir}/b.txt`, s);
  await box.files.moveFile(`${dir}/b.txt`, `${dir}/d/b.txt`, s);
  assert.equal((await box.files.exists(`${dir}/d/b.txt`, s)).exists, true);
  await box.files.deleteFile(`${dir}/d/b.txt`, s);
  await fails("FILE_NOT_FOUND", () => box.files.readFile(`${dir}/d/b.txt`, s));
});
await check("processes", async () => {
  const { processId } = await box.processes.startProcess("echo up; sleep 60", s);
  const list = await box.processes.listProcesses();
  assert.ok(list.processes.some((p) => p.id === processId));
  for (let tries = 0; tries < 600 && (await box.processes.getProcessLogs(processId)).stdout !== "up\n"; tries++)
    await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal((await box.processes.killProcess(processId)).success, true);
  assert.equal((await box.processes.getProcessLogs(processId)).stdout, "up\n");
});
await check("ports", async () => {
  assert.equal((await box.ports.exposePort(8081, s, "web")).port, 8081);
  await fails("PORT_ALREADY_EXPOSED", () => box.ports.exposePort(8081, s));
  await fails("INVALID_PORT_NUMBER", () => box.ports.exposePort(3000, s));
  assert.deepEqual((await box.ports.getExposedPorts(s)).ports.map((p) => p.port), [8081]);
  assert.equal((await box.ports.unexposePort(8081, s)).port, 8081);
  await fails("PORT_NOT_EXPOSED", () => box.ports.unexposePort(8081, s));
});
await check("git", async () => {
  const out = await box.git.checkout(repo, s, { targetDir: `${dir}/clone` });
  assert.equal(out.success, true);
});
await check("utilities", async () => {
  await box.utils.ping();
  assert.ok(Array.isArray(await box.utils.getCommands()));
  assert.equal((await box.utils.deleteSession(s)).success, true);
});
process.exit(0);
