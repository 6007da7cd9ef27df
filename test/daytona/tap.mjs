// One line a check, read by test/e2e/daytona.t. A check that throws is a failure, not the end.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";

export { assert };
export const version = process.env.DAYTONA_VERSION; // 154, 200, 218
const at = `./node_modules/daytona-${version}`;
// The ESM build of 0.218 loads modules in a way that Node.js before 20.16 does not have.
const old = !process.getBuiltinModule && existsSync(`${at}/cjs/index.js`);
export const sdk = old ? createRequire(import.meta.url)(`${at}/cjs/index.js`)
  : await import(existsSync(`${at}/esm/index.js`) ? `${at}/esm/index.js` : `${at}/src/index.js`);
export const client = () => new sdk.Daytona();

export async function check(name, fn) {
  let timer;
  const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error("no answer in 100 s")), 100000); });
  try {
    await Promise.race([fn(), late]);
    console.log(`ok - ${name}`);
  } catch (error) {
    console.log(`not ok - ${name}`);
    for (const line of String(error?.stack ?? error).split("\n").slice(0, 12)) console.log(`# ${line}`);
  } finally {
    clearTimeout(timer);
  }
}

// The error of a call that fails: of that class where the SDK has it, else with that status.
export async function fails(name, status, fn) {
  try {
    await fn();
  } catch (error) {
    if (sdk[name]) assert.ok(error instanceof sdk[name], `${error.constructor.name}: ${error.message}`);
    if (error.statusCode !== undefined) assert.equal(error.statusCode, status, error.message);
    return error;
  }
  assert.fail(`it should have failed with ${name}`);
}

export async function collect(daytona, query) {
  if (Number(version) < 180) return (await daytona.list(query.labels)).items;
  const all = [];
  for await (const one of daytona.list(query)) all.push(one);
  return all;
}
