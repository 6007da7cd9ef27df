// The feed of this tab: one WebSocket, /v1/live, for all that pages follow. It is connected again by
// itself, and every subscription goes on where it was. Pages use the hooks:
//
//   const {rows, ready} = useSandboxes();            rows of the list, live; ready: all have come
//   const host = useHost(2000);                      the object of GET /v1/stats; null: none yet
//   const stats = useStats(id, 1000);                that of GET /v1/sandboxes/{id}/stats, or null
//   const operations = useOperations();              those of GET /v1/operations, live
//   useEvents({kinds: ['alert', 'port']}, (event) => …);   'alert' is alert, alert.firing, …
//   const {value, fault, again} = useFresh(() => call<Page<Volume>>('GET', '/v1/volumes'),
//                                          {kinds: ['volume']}, 'volumes');
//
// useFresh() asks once, and again when an event of these kinds has come, when the feed was lost and
// is back, and every `everyMs` if that is given. It is for all that has events and no topic; its
// answer has the shape of usePoll(). The last parameter is a key: another one asks anew.
// Outside of components: subscribe(), onEvents(), followLog(). A whole log with its search: log.tsx.
import {useEffect, useRef, useState} from 'preact/hooks';
import {Failure, call, clockIs, currentSession, feedIs, openSocket, watchSession} from './api';
import type {Happening, HostStats, Row, Stats} from './types';
import type {Polled} from './ui';

type Members = Record<string, unknown>;

export interface Trouble {
	reason: string;
	message: string;
	hint: string | null;
	status: number;
}

interface Subscription {
	id: string;
	topic: string;
	members: () => Members;
	told: (message: Members) => void;
}

export interface Sub {
	set(): void; // sends its members again
	acknowledge(bytes: number): void; // of a log
	close(): void;
}

const QUIET_MS = 40000; // the server says something every 15 s
const IDLE_MS = 3000; // without a subscription
const USED_MS = 300000; // between two requests of a page that is used and only reads

const subs = new Map<string, Subscription>();
let socket: WebSocket | null = null;
let timer = 0, quiet = 0, idle = 0;
let wait = 500, serial = 0;
let rounds = 0; // connections that were opened
let build: string | null = null;
let isOld = false;
const onBuild = new Set<() => void>();
const onBack = new Set<() => void>();

export const isOldPage = (): boolean => isOld;

export function watchBuild(told: () => void): () => void {
	onBuild.add(told);
	return () => onBuild.delete(told);
}

function post(message: Members): void {
	if (socket?.readyState === WebSocket.OPEN)
		socket.send(JSON.stringify(message));
}

function begin(sub: Subscription): void {
	post({op: 'sub', id: sub.id, topic: sub.topic, ...sub.members()});
}

function hello(message: Members): void {
	if (typeof message['build'] !== 'string')
		return;
	if (build !== null && build !== message['build'] && !isOld) {
		isOld = true;
		onBuild.forEach((told) => told());
	}
	build ??= message['build'];
}

function receive(own: WebSocket, text: string): void {
	const message = JSON.parse(text) as Members;
	feedIs('up');
	clearTimeout(quiet);
	quiet = setTimeout(() => own.close(), QUIET_MS);
	if (typeof message['time'] === 'string')
		clockIs(Date.parse(message['time']));
	if (message['op'] === 'hello')
		hello(message);
	else if (typeof message['id'] === 'string')
		subs.get(message['id'])?.told(message);
}

function lost(own: WebSocket, wasOpen: boolean): void {
	if (socket !== own)
		return;
	socket = null;
	clearTimeout(quiet);
	if (!subs.size || !currentSession()) {
		feedIs('unused');
		return;
	}
	feedIs('down');
	// A session that has ended says so here, and the page asks to sign in.
	void call('GET', '/v1/auth/sessions').then(() => undefined, () => undefined);
	timer = setTimeout(connect, wasOpen ? 100 : wait);
	wait = wasOpen ? 500 : Math.min(8000, wait * 2);
}

function connect(): void {
	clearTimeout(timer);
	if (socket || !subs.size || !currentSession())
		return;
	const own = openSocket('/v1/live');
	let wasOpen = false;
	socket = own;
	own.onopen = () => {
		wasOpen = true;
		wait = 500;
		subs.forEach(begin);
		if (rounds++)
			onBack.forEach((told) => told());
	};
	own.onmessage = (event: MessageEvent<string>) => receive(own, event.data);
	own.onclose = () => lost(own, wasOpen);
}

function disconnect(): void {
	const own = socket;
	socket = null;
	clearTimeout(timer);
	clearTimeout(quiet);
	own?.close(1000);
	feedIs('unused');
}

watchSession(() => (currentSession() ? connect() : disconnect()));
for (const name of ['online', 'focus'])
	addEventListener(name, () => {
		wait = 500;
		connect();
	});

// A page that only reads the feed makes no requests: who uses it stays signed in all the same.
let used = Date.now();
for (const name of ['pointerdown', 'keydown'])
	addEventListener(name, () => {
		if (Date.now() - used < USED_MS || !currentSession())
			return;
		used = Date.now();
		void call('GET', '/v1/auth/sessions').then(() => undefined, () => undefined);
	}, {passive: true});

// `members` is called at each connection: it may tell where to go on.
export function subscribe(topic: string, members: () => Members, told: (message: Members) => void): Sub {
	const sub: Subscription = {id: `s${++serial}`, topic, members, told};
	subs.set(sub.id, sub);
	clearTimeout(idle);
	if (socket?.readyState === WebSocket.OPEN)
		begin(sub);
	else
		connect();
	return {
		set: () => post({op: 'set', id: sub.id, ...members()}),
		acknowledge: (bytes) => post({op: 'ack', id: sub.id, bytes}),
		close: () => {
			subs.delete(sub.id);
			post({op: 'unsub', id: sub.id});
			clearTimeout(idle);
			idle = setTimeout(() => {
				if (!subs.size)
					disconnect();
			}, IDLE_MS);
		},
	};
}

const troubleOf = (message: Members): Failure | null => {
	const error = message['error'] as Trouble | undefined;
	return error ? new Failure(error.status, error.reason, error.message, error.hint ?? '', '') : null;
};

// ---------------------------------------------------------------------------------------- events

export interface Wanted {
	kinds: string[];
	sandbox?: string;
}

interface Listener extends Wanted {
	told: (event: Happening) => void;
	missed: () => void;
}

const listeners = new Set<Listener>();
let eventSub: Sub | null = null;
let after: number | null = null; // the last event, or where the feed began
const KINDS_MAX = 16;

const isKind = (kind: string, wanted: string): boolean => kind === wanted || kind.startsWith(wanted + '.');

function eventMembers(): Members {
	const kinds = new Set<string>();
	listeners.forEach((one) => one.kinds.forEach((kind) => kinds.add(kind)));
	return {...(after === null ? {} : {after}), ...(kinds.size > KINDS_MAX ? {} : {kinds: [...kinds]})};
}

function takeEvent(message: Members): void {
	if (typeof message['after'] === 'number')
		after = message['after'];
	if (message['missed'])
		listeners.forEach((one) => one.missed());
	const event = message['event'] as Happening | undefined;
	if (!event || (after !== null && event.id <= after))
		return;
	after = event.id;
	listeners.forEach((one) => {
		if ((!one.sandbox || one.sandbox === event.sandbox) && one.kinds.some((kind) => isKind(event.kind, kind)))
			one.told(event);
	});
}

// One subscription has the kinds of all listeners. `missed`: some were deleted before they came.
export function onEvents(wanted: Wanted, told: (event: Happening) => void, missed: () => void = () => undefined): () => void {
	const listener: Listener = {...wanted, told, missed};
	listeners.add(listener);
	if (eventSub)
		eventSub.set();
	else
		eventSub = subscribe('events', eventMembers, takeEvent);
	return () => {
		listeners.delete(listener);
		if (listeners.size) {
			eventSub?.set();
			return;
		}
		eventSub?.close();
		eventSub = null;
		after = null;
	};
}

export function useEvents(wanted: Wanted, told: (event: Happening) => void): void {
	const latest = useRef(told);
	latest.current = told;
	useEffect(() => onEvents(wanted, (event) => latest.current(event)), [wanted.kinds.join(), wanted.sandbox]);
}

export interface FreshOptions {
	kinds: string[];
	sandbox?: string;
	everyMs?: number;
}

const SETTLE_MS = 150; // events that come together are one reason to ask

export function useFresh<Answer>(ask: () => Promise<Answer>, options: FreshOptions, key: string): Polled<Answer> {
	const [state, setState] = useState<{key: string; value: Answer | null; fault: Failure | null}>({key, value: null, fault: null});
	const again = useRef<() => void>(() => undefined);
	const latest = useRef(ask);
	latest.current = ask;
	useEffect(() => {
		let over = false, running = false, isDue = false, due = 0, every = 0;
		const turn = async () => {
			clearTimeout(due);
			clearTimeout(every);
			isDue = running;
			if (running || over)
				return;
			running = true;
			try {
				const value = await latest.current();
				if (!over)
					setState({key, value, fault: null});
			} catch (problem) {
				const fault = problem instanceof Failure ? problem : new Failure(0, '', String(problem), '', '');
				if (!over)
					setState((old) => ({key, value: old.key === key && fault.status !== 404 ? old.value : null, fault}));
			}
			running = false;
			if (over || !currentSession())
				return;
			if (isDue)
				soon();
			else if (options.everyMs)
				every = setTimeout(turn, options.everyMs);
		};
		const soon = () => {
			clearTimeout(due);
			due = setTimeout(turn, SETTLE_MS);
		};
		const end = onEvents(options, soon, soon);
		onBack.add(soon);
		again.current = () => void turn();
		void turn();
		return () => {
			over = true;
			clearTimeout(due);
			clearTimeout(every);
			end();
			onBack.delete(soon);
		};
	}, [key, options.kinds.join(), options.sandbox, options.everyMs]);
	const current = state.key === key ? state : {value: null, fault: null};
	return {value: current.value, fault: current.fault, again: () => again.current()};
}

// ------------------------------------------------------------------------------------- sandboxes

export interface LiveRow extends Row {
	version: number;
}

export interface Rows {
	rows: readonly LiveRow[];
	ready: boolean; // all have come
	fault: Failure | null;
}

interface RowStore {
	byId: Map<string, LiveRow>;
	fresh: Map<string, LiveRow> | null; // of a snapshot that is not whole
	view: Rows;
	sub: Sub;
	watched: string[];
	readers: Set<() => void>;
	frame: number;
}

// Applies a message to rows, by their versions: the older one is ignored.
export function applyRows(rows: Map<string, LiveRow>, message: Members): void {
	for (const part of message['set'] as LiveRow[] ?? []) {
		const old = rows.get(part.id);
		if (!old || part.version >= old.version)
			rows.set(part.id, old ? {...old, ...part} : part);
	}
	for (const id of message['gone'] as string[] ?? [])
		rows.delete(id);
}

const SHOW_MS = 250;
const stores = new Map<string, RowStore>();

function showRows(store: RowStore, fault: Failure | null): void {
	const isFirst = !store.byId.size && store.fresh !== null;
	store.view = {rows: [...(isFirst ? store.fresh ?? store.byId : store.byId).values()], ready: store.fresh === null && !fault, fault};
	store.readers.forEach((told) => told());
}

function takeRows(store: RowStore, message: Members): void {
	const fault = troubleOf(message);
	if (message['reset'])
		store.fresh = new Map();
	if (!fault)
		applyRows(store.fresh ?? store.byId, message);
	if (store.fresh && !message['more'] && !fault) {
		store.byId = store.fresh;
		store.fresh = null;
	}
	// The first rows and the last ones are shown at once, those between a few times a second.
	const soon = store.fresh === null || !store.view.rows.length;
	if (soon)
		clearTimeout(store.frame);
	if (soon || !store.frame)
		store.frame = setTimeout(() => {
			store.frame = 0;
			showRows(store, fault);
		}, soon ? 0 : SHOW_MS);
}

function openRows(key: string, fields: string[] | null): RowStore {
	const store: RowStore = {
		byId: new Map(), fresh: new Map(), view: {rows: [], ready: false, fault: null}, watched: [], readers: new Set(), frame: 0,
		sub: {set: () => undefined, acknowledge: () => undefined, close: () => undefined},
	};
	stores.set(key, store);
	store.sub = subscribe('sandboxes', () => ({...(fields ? {fields} : {}), watch: store.watched}), (message) => takeRows(store, message));
	return store;
}

// `fields`: the members of a row that are needed; null: all. `watch`: ids that are read every second,
// 64 at most; the others are read every 10 s.
export function useSandboxes(fields: string[] | null = null, watch: string[] = []): Rows {
	const key = fields ? fields.join() : '*';
	const [, redraw] = useState(0);
	const store = useRef<RowStore | null>(null);
	useEffect(() => {
		const own = stores.get(key) ?? openRows(key, fields);
		const told = () => redraw((old) => old + 1);
		own.readers.add(told);
		store.current = own;
		told();
		return () => {
			own.readers.delete(told);
			store.current = null;
			if (own.readers.size)
				return;
			clearTimeout(own.frame);
			own.sub.close();
			stores.delete(key);
		};
	}, [key]);
	useEffect(() => {
		if (!store.current || !watch.length && !store.current.watched.length)
			return;
		store.current.watched = watch.slice(0, 64);
		store.current.sub.set();
	}, [key, watch.join()]);
	return store.current?.view ?? {rows: [], ready: false, fault: null};
}

// --------------------------------------------------------------------------- stats, host, operations

export function useHost(everyMs = 2000): {value: HostStats | null; fault: Failure | null} {
	const [state, setState] = useState<{value: HostStats | null; fault: Failure | null}>({value: null, fault: null});
	useEffect(() => subscribe('host', () => ({everyMs}), (message) => {
		const fault = troubleOf(message);
		setState((old) => (fault ? {value: old.value, fault} : {value: message['host'] as HostStats, fault: null}));
	}).close, [everyMs]);
	return state;
}

// `sandbox` is an id: null: of none.
export function useStats(sandbox: string | null, everyMs = 2000): Stats | null {
	const [state, setState] = useState<{sandbox: string | null; stats: Stats | null}>({sandbox, stats: null});
	useEffect(() => {
		if (!sandbox)
			return undefined;
		return subscribe('stats', () => ({sandboxes: [sandbox], everyMs}), (message) => {
			const one = (message['stats'] as Stats[] | undefined)?.[0];
			if (one && typeof one.state === 'string')
				setState({sandbox, stats: one});
		}).close;
	}, [sandbox, everyMs]);
	return state.sandbox === sandbox ? state.stats : null;
}

export interface Operation extends Members {
	id: string;
}

export function useOperations(): readonly Operation[] {
	const [all, setAll] = useState<readonly Operation[]>([]);
	useEffect(() => subscribe('operations', () => ({}), (message) => {
		const one = message['operation'] as Operation | undefined;
		if (message['operations'])
			setAll(message['operations'] as Operation[]);
		else if (one)
			setAll((old) => [...old.filter((other) => other.id !== one.id), one]);
	}).close, []);
	return all;
}

// -------------------------------------------------------------------------------------------- logs

const LOG_AGAIN_MS = 1000;

// Follows a log: `of` is executions/ID, operations/ID, sandboxes/ID/processes/ID or
// agent-sessions/ID/runs/ID. After a cut it goes on behind what came. `other` gets what is no output,
// `end` is called at its end, or with what is wrong. The server waits while the page is busy.
export function followLog(of: string, output: (text: string, stream: string) => void, end: (fault: Failure | null) => void,
	other: (kind: string, value: Members) => void = () => undefined): () => void {
	let offset = 0;
	const decoders = new Map<string, TextDecoder>();
	let timer = 0;
	const told = (message: Members) => {
		const stream = message['stream'], data = message['data'], base64 = message['base64'], was = offset;
		if (typeof message['offset'] === 'number')
			offset = message['offset'];
		if (typeof stream === 'string' && typeof base64 === 'string') {
			const decoder = decoders.get(stream) ?? new TextDecoder();
			decoders.set(stream, decoder);
			output(decoder.decode(Uint8Array.from(atob(base64), (one) => one.charCodeAt(0)), {stream: true}), stream);
		} else if (typeof stream === 'string' && typeof data === 'string') {
			output(data, stream);
		} else if (typeof message['kind'] === 'string') {
			other(message['kind'], message['value'] as Members);
		} else if (message['end'] || message['error']) {
			const fault = troubleOf(message);
			end(fault?.code === 'no_log' ? null : fault);
			if (fault && (fault.code === 'no_log' || fault.status === 503))
				timer = setTimeout(open, LOG_AGAIN_MS); // it has not begun, or is cut
		}
		if (offset > was)
			sub?.acknowledge(offset - was);
	};
	const open = () => {
		sub?.close();
		sub = subscribe('log', () => ({of, offset}), told);
	};
	let sub: Sub | null = null;
	open();
	return () => {
		clearTimeout(timer);
		sub?.close();
	};
}
