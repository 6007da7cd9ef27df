// Files, as the SDK uses them.
import { assert, check, client, fails, version } from "./tap.mjs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const box = await client().create({ labels: { run: `files-${version}` } });
const fs = box.fs;
const run = async (command) => (await box.process.executeCommand(command)).result;
const tricky = "/home/daytona/a b/é\"'%;.txt";

await check("upload and download: bytes, parents, names with quotes and letters beyond ASCII", async () => {
  const bytes = Buffer.from(Array.from({ length: 300000 }, (_, n) => (n * 7) & 255));
  await fs.uploadFile(bytes, tricky);
  assert.deepEqual(await fs.downloadFile(tricky), bytes);
  assert.equal(await run(`stat -c '%s %u' "$(ls -d /home/daytona/a\\ b/*)"`), "300000 1000\n");
});
await check("upload: relative to the work directory; it replaces, and keeps the mode", async () => {
  await fs.uploadFile(Buffer.from("one"), "rel/file");
  await run("chmod 755 /home/daytona/rel/file");
  await fs.uploadFile(Buffer.from("two"), "rel/file");
  assert.equal(await run("cat /home/daytona/rel/file; stat -c %a /home/daytona/rel/file"), "two755\n");
  assert.equal(String(await fs.downloadFile("rel/file")), "two");
});
await check("a file that holds boundaries arrives whole, and an empty one", async () => {
  const text = "\r\n--DAYTONA-FILE-BOUNDARY\r\n\r\n----------------------------\r\n--DAYTONA-FILE-BOUNDARY--\r\n\r";
  await fs.uploadFiles([{ source: Buffer.from(text), destination: "/tmp/bounds" }, { source: Buffer.alloc(0), destination: "/tmp/empty" }]);
  assert.equal(String(await fs.downloadFile("/tmp/bounds")), text);
  assert.equal(await run("stat -c %s /tmp/empty"), "0\n");
});
await check("local files, both ways, and many at once", async () => {
  const dir = await mkdtemp(join(tmpdir(), "cove-daytona-"));
  try {
    await writeFile(join(dir, "in"), "x".repeat(5 << 20));
    await fs.uploadFile(join(dir, "in"), "/tmp/large");
    const got = await fs.downloadFiles([{ source: "/tmp/large", destination: join(dir, "out") }, { source: "/tmp/none" }, { source: "/tmp/bounds" }, { source: "/tmp" }]);
    assert.equal((await readFile(join(dir, "out"))).length, 5 << 20);
    assert.deepEqual(got.map((one) => Boolean(one.error)), [false, true, false, true]);
    assert.match(got[1].error, /none|no such|no file/i);
  } finally {
    await rm(dir, { recursive: true });
  }
});
await check("download: a missing file is NotFound, a directory is not a file", async () => {
  const error = await fails(Number(version) > 200 ? "DaytonaNotFoundError" : "DaytonaError", 404, () => fs.downloadFile("/tmp/none"));
  if (Number(version) > 200) assert.equal(error.constructor.name, "DaytonaFileNotFoundError");
  await fails("DaytonaError", 400, () => fs.downloadFile("/tmp"));
});
await check("upload: what cannot be written is told", async () => {
  const error = await fails(Number(version) > 164 ? "DaytonaValidationError" : "DaytonaError", 400, () => fs.uploadFiles([{ source: Buffer.from("1"), destination: "/tmp" }, { source: Buffer.from("2"), destination: "/tmp/beside" }]));
  assert.match(error.message, /\/tmp/);
  assert.equal(await run("cat /tmp/beside"), "2");
});
await check("list and info", async () => {
  await run("mkdir -p /tmp/tree/sub && echo 12345 > /tmp/tree/.dot && echo 1 > /tmp/tree/sub/leaf && chmod 640 /tmp/tree/.dot && ln -s leaf /tmp/tree/sub/link");
  const items = (await fs.listFiles("/tmp/tree")).sort((a, b) => (a.name < b.name ? -1 : 1));
  assert.deepEqual(items.map((one) => [one.name, one.isDir, one.mode]), [[".dot", false, "-rw-r-----"], ["sub", true, "drwxr-xr-x"]]);
  assert.deepEqual([items[0].size, items[0].permissions, items[0].owner], [6, "0640", "1000"]);
  if (Number(version) > 200) {
    const deep = await fs.listFiles("/tmp/tree", { depth: 2 });
    assert.deepEqual(deep.map((one) => one.path).sort(), ["/tmp/tree/.dot", "/tmp/tree/sub", "/tmp/tree/sub/leaf", "/tmp/tree/sub/link"]);
  }
  const info = await fs.getFileDetails("/tmp/tree/.dot");
  assert.deepEqual([info.name, info.size, info.isDir], [".dot", 6, false]);
  assert.match(info.modTime, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d.* \+0000 UTC$/);
  assert.ok(Math.abs(Date.parse(info.modTime.slice(0, 19).replace(" ", "T") + "Z") - Date.now()) < 600000);
  await fails("DaytonaNotFoundError", 404, () => fs.getFileDetails("/tmp/none"));
  await fails("DaytonaNotFoundError", 404, () => fs.listFiles("/tmp/none"));
});
await check("folder, move, permissions, delete", async () => {
  await fs.createFolder("/tmp/made/deep", "700");
  assert.equal(await run("stat -c %a /tmp/made/deep"), "700\n");
  await fs.moveFiles("/tmp/made/deep", "/tmp/made/moved");
  await fails("DaytonaConflictError", 409, () => fs.moveFiles("/tmp/made/moved", "/tmp/tree"));
  await fails("DaytonaNotFoundError", 404, () => fs.moveFiles("/tmp/none", "/tmp/other"));
  await fs.setFilePermissions("/tmp/made/moved", { owner: "daemon", group: "12", mode: "1755" });
  assert.equal(await run("stat -c '%a %U %g' /tmp/made/moved"), "1755 daemon 12\n");
  await fails("DaytonaValidationError", 400, () => fs.setFilePermissions("/tmp/made", { owner: "no-such-user" }));
  await fails("DaytonaValidationError", 400, () => fs.setFilePermissions("/tmp/made", { mode: "9" }));
  await fails("DaytonaValidationError", 400, () => fs.deleteFile("/tmp/made"));
  await fs.deleteFile("/tmp/made", true);
  await fails("DaytonaNotFoundError", 404, () => fs.deleteFile("/tmp/made", true));
});
await check("find, search, replace", async () => {
  await run("mkdir -p /tmp/src/in && printf 'a.c\\nx a+c\\n' > /tmp/src/one.js && printf 'a+c a+c' > /tmp/src/in/two.js && printf 'a+c\\0' > /tmp/src/three.bin");
  const found = (await fs.findFiles("/tmp/src", "a+c")).sort((a, b) => (a.file < b.file ? -1 : 1));
  assert.deepEqual(found.map((one) => [one.file, one.line, one.content]), [["/tmp/src/in/two.js", 1, "a+c a+c"], ["/tmp/src/one.js", 2, "x a+c"]]);
  assert.deepEqual((await fs.findFiles("/tmp/src/one.js", "x a")).map((one) => one.file), ["/tmp/src/one.js"]);
  assert.deepEqual((await fs.searchFiles("/tmp/src", "*.js")).files.sort(), ["/tmp/src/in/two.js", "/tmp/src/one.js"]);
  assert.deepEqual((await fs.searchFiles("/tmp/src", "*.none")).files, []);
  const done = await fs.replaceInFiles(["/tmp/src/one.js", "/tmp/src/in/two.js", "/tmp/src/none"], "a+c", "$1");
  assert.deepEqual(done.map((one) => one.success), [true, true, false]);
  assert.equal(await run("cat /tmp/src/one.js /tmp/src/in/two.js"), "a.c\nx $1\n$1 $1");
});
await box.delete();
process.exit();
