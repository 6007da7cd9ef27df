// Snapshots, images that are built, forks and pauses, as the SDK uses them.
import { assert, check, client, fails, sdk, version } from "./tap.mjs";

const daytona = client();
const name = (word) => `${word}-${version}`;
const run = async (box, command) => (await box.process.executeCommand(command)).result;
const box = await daytona.create({ labels: { run: name("snapshot") }, user: "root", resources: { memory: 2 } });
await run(box, "echo kept > /opt/file; echo tool > /usr/local/tool");

await check("an image that the SDK describes is built, once", async () => {
  const image = sdk.Image.base("cove://host").runCommands("echo built > /usr/local/built").env({ FROM_IMAGE: name("yes") }).workdir("/usr/local");
  const one = await daytona.create({ image, labels: { run: name("built") } }, { timeout: 0 });
  assert.equal(await run(one, "cat /usr/local/built; echo $FROM_IMAGE; pwd"), `built\n${name("yes")}\n/usr/local\n`);
  const two = await daytona.create({ image }, { timeout: 0 });
  assert.equal(two.snapshot, one.snapshot);
  await one.delete();
  await two.delete();
});
await check("a snapshot of an image: create, get, list, use, delete", async () => {
  const made_name = `Org/Snap_A:${version}`;
  const made = await daytona.snapshot.create({ name: made_name, image: sdk.Image.base("cove://host").runCommands("echo snap > /usr/local/snap") }, { onLogs: () => {} });
  assert.deepEqual([made.name, made.state, made.imageName, made.errorReason], [made_name, "active", null, null]);
  const got = await daytona.snapshot.get(made_name);
  assert.deepEqual([got.id, got.name, got.sourceSandboxId, got.gpu], [made.id, made_name, null, 0]);
  assert.ok(Date.parse(got.createdAt) > 0);
  const list = await daytona.snapshot.list();
  assert.ok(list.items.some((one) => one.name === made_name) && list.total >= 2 && list.page === 1);
  await fails("DaytonaConflictError", 409, () => daytona.snapshot.create({ name: made_name, image: sdk.Image.base("cove://host").runCommands("true") }));
  const one = await daytona.create({ snapshot: made_name });
  assert.equal(one.snapshot, made_name);
  assert.equal(await run(one, "cat /usr/local/snap"), "snap\n");
  await one.delete();
  assert.equal((await daytona.snapshot.activate(made)).state, "active");
  await daytona.snapshot.delete(made);
  await fails("DaytonaNotFoundError", 404, () => daytona.snapshot.get(made_name));
  await fails("DaytonaNotFoundError", 404, () => daytona.snapshot.delete({ ...made }));
});
await check("a build that fails tells what went wrong, and leaves nothing", async () => {
  const image = sdk.Image.base("cove://host").runCommands("echo broken >&2; exit 3");
  await assert.rejects(() => daytona.snapshot.create({ name: name("bad"), image }), /3|fail/i);
  const bad = await daytona.snapshot.get(name("bad"));
  assert.equal(bad.state, "build_failed");
  assert.match(bad.errorReason, /3/);
  await fails("DaytonaValidationError", 400, () => daytona.create({ snapshot: name("bad") }));
  await fails("DaytonaError", 501, () => daytona.snapshot.create({ name: name("big"), image: "cove://host", resources: { cpu: 1 } }));
  await fails("DaytonaValidationError", 400, () => daytona.snapshot.create({ name: "a\nb", image: sdk.Image.base("cove://host").runCommands("true") }));
});
if (box._experimental_createSnapshot) await check("a snapshot of a running sandbox", async () => {
  await (box.createSnapshot ?? box._experimental_createSnapshot).call(box, name("live"));
  assert.equal(box.state, "started");
  const got = await daytona.snapshot.get(name("live"));
  assert.deepEqual([got.sourceSandboxId, got.mem, got.state], [box.id, 2, "active"]);
  const one = await daytona.create({ snapshot: name("live") });
  assert.equal(await run(one, "cat /opt/file /usr/local/tool"), "kept\ntool\n");
  assert.equal(one.memory, 2);
  await one.delete();
  await daytona.snapshot.delete(got);
});
const fork = box.fork ?? box._experimental_fork;
if (fork) await check("a fork has the files, and goes its own way", async () => {
  const other = await fork.call(box, { name: name("fork") });
  assert.deepEqual([other.name, other.state], [name("fork"), "started"]);
  await run(other, "echo changed > /opt/file");
  assert.equal(await run(box, "cat /opt/file"), "kept\n");
  assert.equal(await run(other, "cat /usr/local/tool /opt/file"), "tool\nchanged\n");
  await other.delete();
});
if (box.pause) await check("a paused sandbox goes on where it was", async () => {
  await run(box, "(while :; do date +%N > /tmp/tick; sleep 0.05; done) >/dev/null 2>&1 & echo $! > /tmp/pid");
  await box.pause();
  assert.equal(box.state, "paused");
  await box.start();
  assert.equal(box.state, "started");
  assert.equal(await run(box, "kill -0 $(cat /tmp/pid) && echo alive"), "alive\n");
});
await box.delete();
process.exit();
