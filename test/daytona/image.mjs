// Images with files of the client, and logs of builds, as the SDK makes them.
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assert, check, client, sdk, version } from "./tap.mjs";

const daytona = client();
const name = (word) => `${word}-${version}`;
const dir = mkdtempSync(join(tmpdir(), "cove-image-"));
mkdirSync(join(dir, "tree", "deep"), { recursive: true });
writeFileSync(join(dir, "one.txt"), `one ${version}\n`);
writeFileSync(join(dir, "tree", "deep", "two.txt"), "two\n");
const big = Buffer.alloc(12 << 20, `${version} `);
writeFileSync(join(dir, "big.bin"), big);
const run = async (box, command) => (await box.process.executeCommand(command)).result;

await check("an image with a file and a directory of the client", async () => {
  const image = sdk.Image.base("cove://host").addLocalFile(join(dir, "one.txt"), "/opt/one.txt").addLocalDir(join(dir, "tree"), "/opt/tree");
  const one = await daytona.create({ image }, { timeout: 0 });
  assert.equal(await run(one, "cat /opt/one.txt /opt/tree/deep/two.txt"), `one ${version}\ntwo\n`);
  const two = await daytona.create({ image }, { timeout: 0 });
  assert.equal(two.snapshot, one.snapshot);
  await one.delete();
  await two.delete();
});
await check("a file in parts", async () => {
  const one = await daytona.create({ image: sdk.Image.base("cove://host").addLocalFile(join(dir, "big.bin"), "/opt/big.bin") }, { timeout: 0 });
  assert.equal(await run(one, "stat -c %s /opt/big.bin; head -c 4 /opt/big.bin"), `${big.length}\n${version} `);
  await one.delete();
});
await check("a snapshot with a file; its log is streamed", async () => {
  const logs = [];
  const image = sdk.Image.base("cove://host").addLocalFile(join(dir, "one.txt"), "/opt/one.txt").runCommands("echo told-by-the-build; cat /opt/one.txt");
  const made = await daytona.snapshot.create({ name: name("logged"), image }, { onLogs: (text) => logs.push(text) });
  assert.equal(made.state, "active");
  assert.ok(logs.join("\n").includes("told-by-the-build") && logs.join("\n").includes(`one ${version}`), logs.join("\n"));
  await daytona.snapshot.delete(made);
});
process.exit();
