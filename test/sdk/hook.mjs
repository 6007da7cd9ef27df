// The clients are made for Cloudflare's runtime. Node lacks one module of it, and @cloudflare/containers
// imports its own files without their endings and does not say that they are ES modules, which Node 18
// needs to be told. All three are answered here: the packages stay as they were published.
const workers = `
import { webcrypto } from "node:crypto";
globalThis.crypto ??= webcrypto; // a global only from Node 20 on
export class DurableObject { constructor(ctx, env) { this.ctx = ctx; this.env = env; } }
export class WorkerEntrypoint {}
export class RpcTarget {}
export const env = {};
export const tracing = { enterSpan: (name, fn) => fn({ setAttribute() {} }) };
`;

export async function resolve(specifier, context, next) {
  if (specifier === "cloudflare:workers") return { url: "cloudflare:workers", shortCircuit: true };
  if (/^\.\.?\//.test(specifier) && !/\.[a-z]+$/.test(specifier) && /containers/.test(context.parentURL ?? ""))
    return next(specifier + ".js", context);
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (url === "cloudflare:workers") return { format: "module", source: workers, shortCircuit: true };
  if (/\/@cloudflare\/containers\/.*\.js$/.test(url)) return next(url, { ...context, format: "module" });
  return next(url, context);
}
