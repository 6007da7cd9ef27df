// The RPC transport, driven by the library that the client itself uses for it.
import WebSocket from "ws";
import { newWebSocketRpcSession } from "capnweb";
import { assert, check, url } from "./tap.mjs";

globalThis.WebSocket ??= WebSocket;
const decoder = new TextDecoder();
const api = newWebSocketRpcSession(new WebSocket(url.replace(/^http/, "ws") + "/rpc"));
const s = "rpc";
const dir = "/workspace/rpc";

async function drain(stream) {
  let all = "";
  for await (const piece of stream) all += typeof piece === "string" ? piece : decoder.decode(piece, { stream: true });
  return all;
}
const events = (text) => text.split("\n").filter((l) => l.startsWith("data: ")).map((l) => JSON.parse(l.slice(6)));

await check("utilities", async () => {
  assert.equal(await api.utils.ping(), "healthy");
  assert.match(await api.utils.getVersion(), /^\d/);
});
await check("sessions", async () => {
  const made = await api.utils.createSession({ id: s, cwd: "/workspace" });
  assert.deepEqual([made.success, made.id], [true, s]);
  assert.ok((await api.utils.listSessions()) !== undefined);
  await api.commands.execute(`mkdir -p ${dir}; v=7`, s);
  const out = await api.commands.execute("echo $v", s);
  assert.deepEqual([out.exitCode, out.stdout], [0, "7"]);
});
await check("a cell that calls back", async () => {
  const made = await api.interpreter.createCodeContext({ language: "python" });
  const seen = [];
  await api.interpreter.runCodeStream(made.contextId, "print('a')\ndisplay([1, [2]])\n1/0", "python", {
    onStdout: (o) => { seen.push(o.text); },
    onResult: (r) => { seen.push(r.json); },
    onError: (e) => { seen.push(e.name); },
  });
  assert.deepEqual(seen, ["a\n", [1, [2]], "ZeroDivisionError"]);
  const all = events(await drain(await api.interpreter.streamCode(made.contextId, "2", "python")));
  assert.deepEqual(all.map((e) => e.type), ["result", "execution_complete"]);
  assert.equal((await api.interpreter.listCodeContexts()).length, 1);
  await api.interpreter.deleteCodeContext(made.contextId);
  const mine = await api.interpreter.createCodeContext({ envVars: { V: "v" }, cwd: "/tmp", timeout: 300 });
  const told = async (code) => events(await drain(await api.interpreter.streamCode(mine.contextId, code)))[0];
  assert.deepEqual((await told("import os; [os.environ['V'], os.getcwd()]")).json, ["v", "/tmp"]);
  assert.equal((await told("while True: pass")).ename, "TimeoutError");
  await api.interpreter.deleteCodeContext(mine.contextId);
});
await check("a stream of events", async () => {
  const all = events(await drain(await api.commands.executeStream("seq 1 2000", s)));
  assert.equal(all.filter((e) => e.type === "stdout").map((e) => e.data).join("").split("\n").length, 2001);
  assert.deepEqual([all.at(-1).type, all.at(-1).exitCode], ["complete", 0]);
});
await check("200 writes at once, and one of 32 MiB", async () => {
  const all = await Promise.all(Array.from({ length: 200 }, (_, i) => api.files.writeFile(`${dir}/many/${i}`, `${i}`, s)));
  assert.ok(all.every((one) => one.success));
  const big = "x".repeat(32 << 20);
  assert.equal((await api.files.writeFile(`${dir}/big`, big, s)).bytesWritten, big.length);
  assert.equal((await api.commands.execute(`ls ${dir}/many | wc -l; stat -c %s ${dir}/big`, s)).stdout, `200\n${big.length}`);
});
await check("files", async () => {
  const wrote = await api.files.writeFile(`${dir}/a.txt`, "rpc", s);
  assert.equal(wrote.success, true);
  assert.equal((await api.files.readFile(`${dir}/a.txt`, s)).content, "rpc");
  assert.equal((await api.files.exists(`${dir}/a.txt`, s)).exists, true);
  assert.ok((await api.files.listFiles(dir, s, {})).files.some((e) => e.name === "a.txt"));
});
await check("a file comes and goes as a raw stream", async () => {
  const bytes = new Uint8Array(3 << 20).map((_, i) => i * 31);
  const source = new ReadableStream({
    start(c) {
      for (let i = 0; i < bytes.length; i += 65536) c.enqueue(bytes.slice(i, i + 65536));
      c.close();
    },
  });
  const wrote = await api.files.writeFileStream(`${dir}/raw.bin`, source, s);
  assert.equal(wrote.success, true);
  const back = await api.files.readFile(`${dir}/raw.bin`, s, { encoding: "none" });
  const pieces = [];
  for await (const piece of back.content ?? back) pieces.push(piece);
  assert.ok(Buffer.concat(pieces).equals(Buffer.from(bytes)));
});
await check("an error has its code", async () => {
  const error = await api.files.readFile("/none", s).then(() => assert.fail("it should fail"), (e) => e);
  assert.equal(error.code, "FILE_NOT_FOUND");
  assert.equal(error.details.path, "/none");
});
await check("processes", async () => {
  const { processId } = await api.processes.startProcess("echo up; sleep 60", s);
  assert.ok((await api.processes.listProcesses()).processes.some((p) => p.id === processId));
  for (let tries = 0; tries < 600 && (await api.processes.getProcessLogs(processId)).stdout !== "up\n"; tries++)
    await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal((await api.processes.killProcess(processId)).success, true);
  assert.equal((await api.processes.getProcessLogs(processId)).stdout, "up\n");
});
await check("calls side by side", async () => {
  const many = await Promise.all(Array.from({ length: 40 }, (_, i) => api.commands.execute(`echo ${i}`, "__DISABLE_SESSION__")));
  many.forEach((out, i) => assert.equal(out.stdout, `${i}\n`));
});
process.exit(0);
