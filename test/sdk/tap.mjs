// One line a check, read by test/e2e/sdk.t. A check that throws is a failure, not the end.
import assert from "node:assert/strict";

export { assert };
export async function check(name, fn) {
  let timer;
  const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error("no answer in 60 s")), 60000); });
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

export async function fails(code, fn) {
  try {
    await fn();
  } catch (error) {
    // A stream that fails over the WebSocket transport is told by its message alone.
    const told = error.code ?? error.errorResponse?.code ?? /"code":"(\w+)"/.exec(error.message)?.[1];
    assert.equal(told, code, error.message);
    return error;
  }
  assert.fail(`it should have failed with ${code}`);
}

export const gather = async (events) => {
  const all = [];
  for await (const event of events) all.push(event);
  return all;
};
export const text = (events, type) =>
  events.filter((e) => e.type === type).map((e) => e.data).join("");
export const url = process.env.SDK_URL; // with the credential in its path
export const plainUrl = process.env.SDK_PLAIN_URL;
export const key = process.env.SDK_KEY;
export const repo = process.env.SDK_REPO; // a git repository inside the sandbox
