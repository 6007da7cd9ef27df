// Parts of all pages: text that a sandbox controls, polling, notices, dialogs, charts.
import type {ComponentChildren, InputHTMLAttributes} from 'preact';
import {useEffect, useId, useLayoutEffect, useRef, useState} from 'preact/hooks';
import {Failure, call, currentSession, may, now} from './api';
import {absolute, shown, span} from './format';
import {T} from './text';

// A text node in an element of its own direction: nothing in it is markup, nothing in it turns the
// text around it.
export function Str({of, max}: {of: string | null | undefined; max?: number}) {
	return <bdi title={of && of.length > (max ?? 200) ? shown(of, 2000) : undefined}>{shown(of ?? '–', max)}</bdi>;
}

export function Ago({of}: {of: string | null | undefined}) {
	if (!of)
		return <span>–</span>;
	return <time dateTime={of} title={absolute(of)}>{span(now() - Date.parse(of))}</time>;
}

export function go(path: string): void {
	history.pushState(null, '', path);
	dispatchEvent(new PopStateEvent('popstate'));
	scrollTo(0, 0);
}

interface LinkOptions {
	to: string;
	children: ComponentChildren;
	class?: string;
	role?: 'tab';
	tabIndex?: number;
	'aria-current'?: 'page' | undefined;
	'aria-selected'?: boolean;
}

export function Link({to, children, ...more}: LinkOptions) {
	const follow = (event: MouseEvent) => {
		if (event.metaKey || event.ctrlKey || event.shiftKey || event.button)
			return;
		event.preventDefault();
		go(to);
	};
	return <a {...more} href={to} onClick={follow}>{children}</a>;
}

export interface Polled<Answer> {
	value: Answer | null;
	fault: Failure | null;
	again: () => void;
}

const asFailure = (fault: unknown): Failure =>
	fault instanceof Failure ? fault : new Failure(0, '', String(fault), '', '');

// Asks every `ms` while the page is seen; after a fault later and later, up to 8 s. What was read
// stays until something newer is.
export function usePoll<Answer>(ask: () => Promise<Answer>, ms: number, key: string): Polled<Answer> {
	const [state, setState] = useState<{key: string; value: Answer | null; fault: Failure | null}>({key, value: null, fault: null});
	const again = useRef<() => void>(() => undefined);
	useEffect(() => {
		let timer = 0, over = false, running = false, wait = 500;
		const turn = async () => {
			clearTimeout(timer);
			if (running || over)
				return;
			running = true;
			let next = ms;
			try {
				const value = await ask();
				if (!over)
					setState({key, value, fault: null});
				wait = 500;
			} catch (fault) {
				const failure = asFailure(fault);
				if (!over)
					setState((old) => ({key, value: old.key === key && failure.status !== 404 ? old.value : null, fault: failure}));
				next = wait;
				wait = Math.min(8000, wait * 2);
			}
			running = false;
			if (!over && !document.hidden && currentSession())
				timer = setTimeout(turn, next);
		};
		const seen = () => {
			if (!document.hidden)
				void turn();
		};
		again.current = () => void turn();
		void turn();
		document.addEventListener('visibilitychange', seen);
		addEventListener('online', seen);
		addEventListener('focus', seen);
		return () => {
			over = true;
			clearTimeout(timer);
			document.removeEventListener('visibilitychange', seen);
			removeEventListener('online', seen);
			removeEventListener('focus', seen);
		};
	}, [key, ms]);
	const current = state.key === key ? state : {value: null, fault: null};
	return {value: current.value, fault: current.fault, again: () => again.current()};
}

export function Fault({of, again}: {of: Failure; again?: () => void}) {
	return <div role="alert" class="fault">
		<Str of={of.message} max={400} />
		{of.hint && <p><Str of={of.hint} max={400} /></p>}
		{of.requestId && <p class="dim">{T.requestId} <code>{of.requestId}</code></p>}
		{again && <button type="button" onClick={again}>{T.retry}</button>}
	</div>;
}

// Nothing for a moment: most answers come before it is over.
export function Loading() {
	const [late, setLate] = useState(false);
	useEffect(() => {
		const timer = setTimeout(() => setLate(true), 150);
		return () => clearTimeout(timer);
	}, []);
	return late ? <p class="dim" role="status">{T.loading}</p> : null;
}

export function Empty({what, command, children}: {what: string; command: string; children?: ComponentChildren}) {
	return <div class="empty">
		<p>{what}</p>
		{children}
		<p class="dim">{T.command} <code>{command}</code></p>
	</div>;
}

// ------------------------------------------------------------------------------------- notices

interface Notice {
	id: number;
	text: string;
	isFault: boolean;
	undo: (() => void) | undefined;
}

let notices: Notice[] = [];
let serial = 0;
let noticesChanged: () => void = () => undefined;

function dropNotice(id: number): void {
	notices = notices.filter((one) => one.id !== id);
	noticesChanged();
}

export function notify(text: string, undo?: () => void, isFault = false): void {
	const id = ++serial;
	notices = [...notices.slice(-4), {id, text, undo, isFault}];
	noticesChanged();
	setTimeout(() => dropNotice(id), 8000);
}

// Does something, and tells when it failed.
export async function attempt(work: () => Promise<void>): Promise<void> {
	try {
		await work();
	} catch (fault) {
		const failure = asFailure(fault);
		notify(failure.hint ? `${failure.message} (${failure.hint})` : failure.message, undefined, true);
	}
}

export function Notices() {
	const [, redraw] = useState(0);
	useEffect(() => {
		noticesChanged = () => redraw((old) => old + 1);
	}, []);
	return <section aria-label={T.notifications} class="notices" aria-live="polite">
		{notices.map((one) => <div key={one.id} class={one.isFault ? 'notice fault' : 'notice'}>
			<Str of={one.text} max={300} />
			{one.undo && <button type="button" onClick={() => {
				dropNotice(one.id);
				one.undo?.();
			}}>{T.undo}</button>}
			<button type="button" onClick={() => dropNotice(one.id)}>{T.dismiss}</button>
		</div>)}
	</section>;
}

// --------------------------------------------------------------------------- dialogs and buttons

export function Dialog({title, close, children}: {title: string; close: () => void; children: ComponentChildren}) {
	const at = useRef<HTMLDialogElement>(null);
	const id = useId();
	useLayoutEffect(() => {
		const back = document.activeElement;
		at.current?.showModal();
		return () => {
			if (back instanceof HTMLElement)
				back.focus();
		};
	}, []);
	return <dialog ref={at} aria-labelledby={id} onClose={close}>
		<h2 id={id}>{title}</h2>
		{children}
	</dialog>;
}

export function Field({label, ...more}: {label: string} & InputHTMLAttributes<HTMLInputElement>) {
	const id = useId();
	return <p class="field"><label for={id}>{label}</label><input id={id} autocomplete="off" spellcheck={false} {...more} /></p>;
}

// A button that waits for its work, and says which scope it lacks.
export function Do({label, work, scope, primary, name}: {label: string; work: () => Promise<void>; scope: string; primary?: boolean; name?: string}) {
	const [busy, setBusy] = useState(false);
	const allowed = may(scope);
	const press = async () => {
		if (!allowed || busy)
			return;
		setBusy(true);
		await attempt(work);
		setBusy(false);
	};
	return <button type="button" class={primary ? 'primary' : undefined} aria-disabled={!allowed || busy} aria-label={name} aria-busy={busy}
		title={allowed ? undefined : T.noScope(scope)} onClick={press}>{label}</button>;
}

export interface Item {
	label: string;
	scope: string;
	work: () => void;
}

export function Menu({label, children, items}: {label: string; children: ComponentChildren; items: Item[]}) {
	const [open, setOpen] = useState(false);
	const at = useRef<HTMLDivElement>(null);
	const opener = useRef<HTMLButtonElement>(null);
	const close = () => {
		setOpen(false);
		opener.current?.focus();
	};
	useEffect(() => {
		if (!open)
			return undefined;
		at.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
		const away = (event: Event) => {
			if (event.target instanceof Node && !at.current?.contains(event.target))
				setOpen(false);
		};
		addEventListener('pointerdown', away);
		return () => removeEventListener('pointerdown', away);
	}, [open]);
	const key = (event: KeyboardEvent) => {
		const all = [...at.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? []];
		const here = all.indexOf(document.activeElement as HTMLElement);
		if (event.key === 'Escape')
			close();
		else if (event.key === 'ArrowDown')
			all[(here + 1) % all.length]?.focus();
		else if (event.key === 'ArrowUp')
			all[(here + all.length - 1) % all.length]?.focus();
		else
			return;
		event.preventDefault();
	};
	return <div class="menu" ref={at} onKeyDown={open ? key : undefined}>
		<button type="button" ref={opener} aria-haspopup="menu" aria-expanded={open} aria-label={label} onClick={() => setOpen(!open)}>{children}</button>
		{open && <div role="menu" aria-label={label}>
			{items.map((one) => <button type="button" role="menuitem" key={one.label} tabIndex={-1} aria-disabled={!may(one.scope)}
				title={may(one.scope) ? undefined : T.noScope(one.scope)} onClick={() => {
					if (!may(one.scope))
						return;
					close();
					one.work();
				}}>{one.label}</button>)}
		</div>}
	</div>;
}

// Typing the name is the confirmation; Enter alone deletes nothing.
export function DeleteDialog({path, name, close, done}: {path: string; name: string; close: () => void; done: () => void}) {
	const [typed, setTyped] = useState('');
	const cancel = useRef<HTMLButtonElement>(null);
	useEffect(() => cancel.current?.focus(), []);
	const ready = typed === name;
	return <Dialog title={T.deleteSandbox} close={close}>
		<p><Str of={name} />: {T.deleteWarning}</p>
		<Field label={T.confirm(shown(name))} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
		<p class="row">
			<button type="button" ref={cancel} onClick={close}>{T.cancel}</button>
			<button type="button" class="danger" disabled={!ready} onClick={() => {
				close();
				void attempt(async () => {
					await call('DELETE', path);
					notify(T.done(T.del, shown(name)));
					done();
				});
			}}>{T.del}</button>
		</p>
	</Dialog>;
}

// -------------------------------------------------------------------------------------- charts

export interface Point {
	time: number;
	value: number | null; // null: unknown, a gap
}

const POINTS = 120;

export function keepPoint(points: Point[], point: Point): Point[] {
	const last = points[points.length - 1];
	if (last && point.time <= last.time)
		return points;
	return [...points, point].slice(-POINTS);
}

// A gap in time is a gap in the line, too.
function pieces(points: Point[], from: number, to: number, top: number): {lines: string[]; gaps: number} {
	const lines: string[] = [];
	let line: string[] = [], gaps = 0, before: Point | null = null;
	for (const point of points) {
		const apart = before !== null && (before.value === null || point.time - before.time > 6000);
		if (line.length && (point.value === null || apart)) {
			lines.push(line.join(' '));
			line = [];
			gaps++;
		}
		if (point.value !== null)
			line.push(`${(((point.time - from) / (to - from || 1)) * 300).toFixed(1)},${(80 - (point.value / top) * 76).toFixed(1)}`);
		before = point;
	}
	if (line.length)
		lines.push(line.join(' '));
	return {lines, gaps};
}

export function Chart({label, points, limit, text}: {label: string; points: Point[]; limit: number | null; text: (value: number | null) => string}) {
	const [table, setTable] = useState(false);
	const id = useId();
	const known = points.map((one) => one.value ?? 0);
	const peak = Math.max(...known, 0);
	const top = (limit !== null && peak > limit / 4 ? Math.max(limit, peak) : peak * 1.25) || 1;
	const to = points[points.length - 1]?.time ?? 0;
	const from = Math.min(points[0]?.time ?? 0, to - 60000);
	const {lines, gaps} = pieces(points, from, to, top);
	const last = points[points.length - 1]?.value ?? null;
	const line = limit !== null && limit <= top ? 80 - (limit / top) * 76 : null;
	return <figure aria-labelledby={id} data-last={last ?? ''} data-points={points.length} data-gaps={gaps}>
		<figcaption><span id={id}>{label}</span><b>{text(last)}</b>{limit !== null && <span class="dim">{T.limit} {text(limit)}</span>}</figcaption>
		{table ? <div class="scroll"><table><thead><tr><th scope="col">{T.time}</th><th scope="col">{T.value}</th></tr></thead>
			<tbody>{[...points].reverse().map((one) => <tr key={one.time}><td>{new Date(one.time).toLocaleTimeString('en-GB')}</td><td>{text(one.value)}</td></tr>)}</tbody></table></div>
			: <svg viewBox="0 0 300 84" preserveAspectRatio="none" role="img" aria-label={`${label}: ${text(last)}`}>
				{line !== null && <line x1="0" x2="300" y1={line} y2={line} class="limit" />}
				{lines.map((one, i) => <polyline key={i} points={one} class="series" />)}
			</svg>}
		<button type="button" class="quiet" aria-pressed={table} onClick={() => setTable(!table)}>{T.showTable}</button>
	</figure>;
}
