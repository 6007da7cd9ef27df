// The optional surfaces, as the SDK uses them: volumes, network, environment, resources, signed
// URLs of files, the code interpreter, TypeScript.
import { assert, check, client, fails, version } from "./tap.mjs";

const daytona = client();
const labels = { run: `surfaces-${version}` };
const box = await daytona.create({ labels, envVars: { KEPT: "yes" } });
const run = async (command, on = box) => (await on.process.executeCommand(command)).result;

await check("the user is daytona, at home in a directory of its own", async () => {
  assert.equal(box.user, "daytona");
  assert.equal(await run("id -u; echo $HOME; pwd; touch here && stat -c %u here"), "1000\n/home/daytona\n/home/daytona\n1000\n");
  assert.deepEqual([await box.getWorkDir(), await (box.getUserHomeDir ?? box.getUserRootDir).call(box)], ["/home/daytona", "/home/daytona"]);
});
await check("volumes: made by name, got, listed, mounted, kept, deleted", async () => {
  const name = `Vol ${version}/_a`;
  const volume = await daytona.volume.get(name, true);
  assert.deepEqual([volume.name, volume.state], [name, "ready"]);
  assert.equal((await daytona.volume.get(name)).id, volume.id);
  assert.ok((await daytona.volume.list()).some((one) => one.id === volume.id));
  const one = await daytona.create({ labels, volumes: [{ volumeId: volume.id, mountPath: "/data" }] });
  assert.deepEqual(one.volumes.map((v) => [v.volumeId, v.mountPath]), [[volume.id, "/data"]]);
  assert.equal(await run("echo hello > /data/f; mkdir /data/sub; echo deep > /data/sub/g; cat /data/f", one), "hello\n");
  await fails("DaytonaConflictError", 409, () => daytona.volume.delete(volume));
  await one.delete();
  const two = await daytona.create({ labels, volumes: [{ volumeId: volume.id, mountPath: "/mnt/v", subpath: "sub" }] });
  assert.equal(await run("cat /mnt/v/g; ls /mnt/v", two), "deep\ng\n");
  await two.delete();
  await daytona.volume.delete(volume);
  await fails("DaytonaNotFoundError", 404, () => daytona.volume.get(name));
});
if (box.resize) await check("resize: live, and never to the same", async () => {
  await box.resize({ cpu: 2, memory: 2 });
  assert.deepEqual([box.cpu, box.memory, box.state], [2, 2, "started"]);
  await fails("DaytonaValidationError", 400, () => box.resize({ cpu: 2 }));
  await fails("DaytonaValidationError", 400, () => box.resize({ disk: 1 }));
});
await check("network: lists of a create", async () => {
  const one = await daytona.create({ labels, networkAllowList: "192.0.2.0/24,198.51.100.7/32" });
  assert.deepEqual([one.networkBlockAll, one.networkAllowList], [false, "192.0.2.0/24,198.51.100.7/32"]);
  await one.delete();
  await fails("DaytonaValidationError", 400, () => daytona.create({ labels, networkAllowList: "192.0.2.0/33" }));
  await fails("DaytonaValidationError", 400, () => daytona.create({ labels, networkAllowList: Array.from({ length: 11 }, (_, i) => `192.0.2.${i}/32`).join() }));
});
if (box.updateNetworkSettings) await check("network: settings that change", async () => {
  await box.updateNetworkSettings({ networkBlockAll: true });
  assert.equal(box.networkBlockAll, true);
  await box.updateNetworkSettings({ networkAllowList: "192.0.2.0/24", domainAllowList: "*.example.com" });
  assert.deepEqual([box.networkBlockAll, box.networkAllowList, box.domainAllowList], [false, "192.0.2.0/24", "*.example.com"]);
  await box.updateNetworkSettings({ networkAllowList: "" });
  assert.deepEqual([box.networkAllowList ?? "", box.domainAllowList], ["", "*.example.com"]);
  await box.updateNetworkSettings({ domainAllowList: "" });
  assert.deepEqual([box.networkBlockAll, box.domainAllowList ?? ""], [false, ""]);
});
if (box.updateEnv) await check("the environment of later commands", async () => {
  await box.updateEnv({ ADDED: "a b" }, { unset: ["KEPT"] });
  assert.equal(await run('echo "$ADDED,$KEPT"'), "a b,\n");
});
if (box.getMetricsLatest) await check("what the sandbox uses now", async () => {
  const now = await box.getMetricsLatest();
  assert.ok(now.cpuCount === 2 && now.memTotal === 2 * 2 ** 30 && now.memUsed > 0 && now.memUsed < now.memTotal, JSON.stringify(now));
  assert.ok(now.cpuUsedPct >= 0 && now.cpuUsedPct <= 200 && now.diskTotal > 0);
});
if (box.downloadUrl) await check("signed URLs of files", async () => {
  const path = "/home/daytona/signed é.txt";
  const up = await box.uploadUrl(path, 60);
  assert.equal((await fetch(up, { method: "POST", body: "by URL" })).status, 200);
  const form = new FormData();
  form.set("file", new Blob(["by form"]), "name");
  const down = await box.downloadUrl(path, 0);
  assert.equal(await (await fetch(down)).text(), "by URL");
  assert.equal((await fetch(up, { method: "POST", body: form })).status, 200);
  assert.equal(await (await fetch(down)).text(), "by form");
  for (const wrong of [down.replace("signed", "sighed"), down.replace("expires=0", "expires=9999999999"), down.replace("/files/download", "/files/info"), down.replace(box.id, "box-0"), up])
    assert.equal((await fetch(wrong)).status, 401, wrong);
  assert.equal((await fetch(await box.downloadUrl(path, -1))).status, 200);
  const over = new URL(down);
  over.searchParams.set("expires", "1");
  assert.equal((await fetch(over)).status, 401);
  await box.rotateSigningKey();
  assert.equal((await fetch(down)).status, 401);
  assert.equal((await fetch(await box.downloadUrl(path, 60))).status, 200);
});
if (box.codeInterpreter) {
  const code = box.codeInterpreter;
  await check("interpreter: the default context keeps its state", async () => {
    assert.equal((await code.runCode("x = 20")).stdout, "");
    const seen = [];
    const got = await code.runCode("import sys\nprint(x + 1)\nprint('é')\nsys.stderr.write('bad')", { onStdout: (m) => seen.push(m.output) });
    assert.deepEqual([got.stdout, got.stderr, got.error, seen.join("")], ["21\né\n", "bad", undefined, "21\né\n"]);
  });
  await check("interpreter: an exception is told, and the context goes on", async () => {
    const got = await code.runCode("y = 5\nraise ValueError('no')");
    assert.deepEqual([got.error.name, got.error.value], ["ValueError", "no"]);
    assert.match(got.error.traceback, /ValueError/);
    assert.equal((await code.runCode("print(y)")).stdout, "5\n");
  });
  await check("interpreter: contexts of one's own", async () => {
    const one = await code.createContext("/tmp"), two = await code.createContext();
    assert.deepEqual([one.cwd, one.language, one.active], ["/tmp", "python", true]);
    assert.deepEqual((await code.listContexts()).map((c) => c.id).sort(), [one.id, two.id].sort());
    await code.runCode("x = 'one'", { context: one });
    assert.equal((await code.runCode("import os; print(x, os.getcwd())", { context: one })).stdout, "one /tmp\n");
    assert.equal((await code.runCode("print(x)", { context: two })).error.name, "NameError");
    await code.deleteContext(one);
    await assert.rejects(() => code.runCode("1", { context: one }), /1008|not/);
    await fails("DaytonaNotFoundError", 404, () => code.deleteContext(one));
    await fails("DaytonaValidationError", 400, () => code.deleteContext({ id: "default" }));
    await code.deleteContext(two);
  });
  await check("interpreter: the environment of one run", async () => {
    const show = "import os; print(os.environ.get('ONCE'), os.environ.get('KEPT_TOO'))";
    await code.runCode("import os; os.environ['KEPT_TOO'] = 'a'");
    assert.equal((await code.runCode(show, { envs: { ONCE: "it's \"é\"\\n", KEPT_TOO: "b" } })).stdout, "it's \"é\"\\n b\n");
    assert.equal((await code.runCode(show)).stdout, "None a\n");
  });
  await check("interpreter: a time limit is an error, and the context goes on", async () => {
    await assert.rejects(() => code.runCode("import time; z = 7; time.sleep(100)", { timeout: 1 }), (error) => error.constructor.name === "DaytonaTimeoutError" || /4008|timed out/.test(error.message));
    assert.equal((await code.runCode("print(z)")).stdout, "7\n");
  });
  await check("interpreter: an exit of the process is an error", async () => {
    const got = await code.runCode("import os; os._exit(3)");
    assert.match(`${got.error?.name} ${got.error?.value}`, /ContextDied.*3/);
    assert.equal((await code.runCode("print('new')")).stdout, "new\n");
  });
}
if (Number(version) >= 167) await check("TypeScript", async () => {
  const one = await daytona.create({ labels, language: "typescript" });
  const got = await one.process.codeRun("const a: number = 2; console.log(a * 21, process.argv.slice(-2).join(), process.env.E)", { argv: ["x", "y"], env: { E: "e" } });
  assert.deepEqual([got.exitCode, got.result], [0, "42 x,y e\n"]);
  assert.equal((await one.process.codeRun("process.exit(3)")).exitCode, 3);
  const bad = await one.process.codeRun("console.log('before'); throw new Error('boom')");
  assert.equal(bad.exitCode, 1);
  assert.match(bad.result, /^before\n[^]*boom/);
  await fails(Number(version) > 200 ? "DaytonaTimeoutError" : "DaytonaError", 408, () => one.process.codeRun("while (true);", undefined, 1));
  await one.delete();
});
await box.delete();
process.exit();
