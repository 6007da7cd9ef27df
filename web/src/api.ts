// Requests to the daemon. The session token is in memory and in the storage of this tab; a new tab
// asks the open ones for it. It is in no address, and in no element of the page.
import {T} from './text';

export interface Who {
	role: 'operator' | 'tenant' | 'sandbox';
	tenant: string | null;
	scopes: string[];
	key: string | null;
	name: string | null;
}

export interface Session {
	id: string;
	token: string;
	who: Who;
}

export class Failure extends Error {
	constructor(readonly status: number, readonly code: string, message: string, readonly hint: string, readonly requestId: string) {
		super(message);
	}
}

export type Link = 'Live' | 'Reconnecting…' | 'Offline';

let session: Session | null = null;
let clockAhead = 0; // of the server, in ms
let link: Link = 'Live';
let feed: 'unused' | 'up' | 'down' = 'unused';
const onSession = new Set<() => void>();
const onLink = new Set<() => void>();
const KEPT = 'cove.session';
const channel = new BroadcastChannel('cove.session');

export const currentSession = (): Session | null => session;
export const currentLink = (): Link => link;
export const now = (): number => Date.now() + clockAhead;
export const may = (scope: string): boolean => session?.who.scopes.includes(scope) ?? false;

export function watchSession(told: () => void): () => void {
	onSession.add(told);
	return () => onSession.delete(told);
}

export function watchLink(told: () => void): () => void {
	onLink.add(told);
	return () => onLink.delete(told);
}

function setLink(next: Link): void {
	if (next === link)
		return;
	link = next;
	onLink.forEach((told) => told());
}

// The feed of live.ts: while it is wanted, it says whether the pages are live.
export function feedIs(next: typeof feed): void {
	feed = next;
	setLink(feed !== 'down' ? 'Live' : navigator.onLine ? 'Reconnecting…' : 'Offline');
}

// The server's clock, unless it is as this one.
export function clockIs(time: number): void {
	if (!Number.isNaN(time))
		clockAhead = Math.abs(time - Date.now()) > 2000 ? time - Date.now() : 0;
}

function setSession(next: Session | null): void {
	session = next;
	if (next)
		sessionStorage.setItem(KEPT, JSON.stringify(next));
	else
		sessionStorage.removeItem(KEPT);
	onSession.forEach((told) => told());
}

function isSession(value: unknown): value is Session {
	const one = value as Session | null;
	return typeof one === 'object' && one !== null && typeof one.id === 'string' && typeof one.token === 'string' &&
		typeof one.who === 'object' && Array.isArray(one.who.scopes);
}

channel.onmessage = (event: MessageEvent) => {
	const {kind, value} = event.data as {kind: string; value?: unknown};
	if (kind === 'ask' && session)
		channel.postMessage({kind: 'have', value: session});
	else if (kind === 'have' && !session && isSession(value))
		setSession(value);
	else if (kind === 'out' && session && session.id === value)
		setSession(null);
};

// From the storage of the tab, else from another tab.
export async function resume(): Promise<void> {
	try {
		const kept: unknown = JSON.parse(sessionStorage.getItem(KEPT) ?? 'null');
		if (isSession(kept)) {
			setSession(kept);
			return;
		}
	} catch {
		sessionStorage.removeItem(KEPT);
	}
	channel.postMessage({kind: 'ask'});
	await new Promise((go) => setTimeout(go, 120));
}

export async function failure(reply: Response): Promise<Failure> {
	const requestId = reply.headers.get('X-Request-Id') ?? '';
	try {
		const body = await reply.json() as {message?: string; reason?: string; hint?: string};
		return new Failure(reply.status, body.reason ?? '', body.message ?? `${reply.status}`, body.hint ?? '', requestId);
	} catch {
		return new Failure(reply.status, '', `${reply.status} ${reply.statusText}`, '', requestId);
	}
}

async function send(method: string, path: string, body: unknown, token: string | null): Promise<Response> {
	const headers: Record<string, string> = {};
	if (token)
		headers['Authorization'] = `Bearer ${token}`;
	if (body !== undefined)
		headers['Content-Type'] = 'application/json';
	let reply: Response;
	try {
		reply = await fetch(path, {
			method, headers, credentials: 'omit', cache: 'no-store', redirect: 'error',
			signal: AbortSignal.timeout(60000), ...(body === undefined ? {} : {body: JSON.stringify(body)}),
		});
	} catch {
		setLink(navigator.onLine ? 'Reconnecting…' : 'Offline');
		throw new Failure(0, 'offline', T.unreachable, '', '');
	}
	if (feed !== 'down')
		setLink('Live');
	clockIs(Date.parse(reply.headers.get('Date') ?? ''));
	if (reply.status === 401 && token && session?.token === token)
		setSession(null);
	if (!reply.ok)
		throw await failure(reply);
	return reply;
}

export async function call<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
	const reply = await send(method, path, body, session?.token ?? null);
	return (reply.status === 204 ? undefined : await reply.json()) as Answer;
}

export async function bytesOf(path: string): Promise<Uint8Array> {
	const reply = await send('GET', path, undefined, session?.token ?? null);
	return new Uint8Array(await reply.arrayBuffer());
}

// The key is forgotten as soon as it was exchanged.
export async function signIn(key: string): Promise<void> {
	const reply = await send('POST', '/v1/auth/sessions', {name: 'dashboard'}, key);
	setSession(await reply.json() as Session);
}

export async function exchange(code: string): Promise<void> {
	const reply = await send('POST', '/v1/auth/exchange', {code}, null);
	setSession(await reply.json() as Session);
}

export async function signOut(): Promise<void> {
	const old = session;
	if (!old)
		return;
	try {
		await send('DELETE', `/v1/auth/sessions/${old.id}`, undefined, old.token);
	} catch (fault) {
		if (!(fault instanceof Failure) || fault.status !== 401)
			throw fault;
	}
	channel.postMessage({kind: 'out', value: old.id});
	setSession(null);
}

export function openSocket(path: string): WebSocket {
	const at = new URL(path, location.href);
	at.protocol = at.protocol === 'https:' ? 'wss:' : 'ws:';
	return new WebSocket(at, ['cove.v1', `bearer.${session?.token ?? ''}`]);
}
