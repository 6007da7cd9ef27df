// A stream that is silent for longer than the server keeps silent: the comment lines of the server mean nothing to the clients.
import { SandboxClient as New, parseSSEStream as readNew } from "sandbox-new";
import { SandboxClient as Old, parseSSEStream as readOld } from "sandbox-old";
import { assert, check, gather, key, plainUrl, text, url } from "./tap.mjs";

const pairs = {
  "0.12.10": [new New({ baseUrl: plainUrl, defaultHeaders: { Authorization: `Bearer ${key}` } }), readNew],
  "0.4.18": [new Old({ baseUrl: url }), readOld],
};
for (const [version, [box, read]] of Object.entries(pairs)) {
  await check(`${version} skips the comment lines of a silent command`, async () => {
    const events = await gather(read(await box.commands.executeStream("echo one; sleep 2; echo two", "__DISABLE_SESSION__")));
    assert.deepEqual(events.map((e) => e.type), ["start", "stdout", "stdout", "complete"]);
    assert.equal(text(events, "stdout"), "one\ntwo\n");
  });
  await check(`${version} skips those of a silent process`, async () => {
    const { processId } = await box.processes.startProcess("echo one; sleep 2; echo two", "__DISABLE_SESSION__");
    const events = await gather(read(await box.processes.streamProcessLogs(processId)));
    assert.equal(text(events, "stdout"), "one\ntwo\n");
    assert.equal(events.at(-1).type, "exit");
  });
}
await check("0.12.10 skips those of a silent cell and of a silent watch", async () => {
  const [box, read] = pairs["0.12.10"];
  const context = await box.interpreter.createCodeContext({ language: "python" });
  const told = await gather(read(await box.interpreter.streamCode(context.id, "import time\ntime.sleep(2)\nprint('late')")));
  assert.ok(told.some((e) => e.type === "stdout" && e.text.includes("late")), JSON.stringify(told));
  const events = read(await box.watch.watch({ path: "/workspace" }));
  const first = (await events.next()).value;
  assert.equal(first.type, "watching");
  setTimeout(() => box.commands.execute("touch /workspace/late", "__DISABLE_SESSION__"), 2000);
  assert.equal((await events.next()).value.type, "event");
  await events.return?.();
});
