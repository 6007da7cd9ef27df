// Parts of all pages: text that a sandbox controls, polling, notices, dialogs, charts.
import type {ComponentChildren, InputHTMLAttributes} from 'preact';
import {useEffect, useId, useLayoutEffect, useRef, useState} from 'preact/hooks';
import {Failure, call, currentSession, may, now} from './api';
import {cliOf, curlOf} from './copy';
import type {Act} from './copy';
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

// A state, as a word and by colour.
export function State({of, tid}: {of: string; tid?: string}) {
	return <span data-testid={tid} class={`state ${/^[a-z_]+$/.test(of) ? of : ''}`}><Str of={of} /></span>;
}

export function Icon({path}: {path: string}) {
	return <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d={path} /></svg>;
}

export const perform = <Answer,>(act: Act): Promise<Answer> => call<Answer>(act.method, act.path, act.body);

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

export {Failure};

export const asFailure = (fault: unknown): Failure =>
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

interface Numbered {
	items: {id: number}[];
}

const TAIL = 500;

// The number of a row, not more than TAIL before the last one: rows of a long log are not read from the
// first on.
async function nearEnd(path: string): Promise<number> {
	const isAfter = async (at: number) => (await call<Numbered>('GET', `${path}after=${at}&limit=1`)).items.length > 0;
	let low = 0, high = TAIL;
	while (await isAfter(high)) {
		low = high;
		high *= 4;
	}
	while (high - low > TAIL / 2) {
		const middle = Math.floor((low + high) / 2);
		if (await isAfter(middle))
			low = middle;
		else
			high = middle;
	}
	return Math.max(0, low - TAIL / 2);
}

// The newest rows of a log whose rows are numbered, newest first: those near its end, then what came
// after. `path` ends where "after=" goes.
export function useTail<Row extends {id: number}>(path: string, ms: number, key: string): Polled<Row[]> {
	const seen = useRef<{key: string; last: number; rows: Row[]}>({key: '', last: -1, rows: []});
	return usePoll(async () => {
		if (seen.current.key !== key)
			seen.current = {key, last: await nearEnd(path), rows: []};
		let page: Numbered;
		do {
			page = await call<Numbered>('GET', `${path}after=${seen.current.last}&limit=500`);
			const items = page.items as Row[];
			const last = items[items.length - 1];
			if (last)
				seen.current = {key, last: last.id, rows: [...items.reverse(), ...seen.current.rows].slice(0, TAIL)};
		} while (page.items.length === 500);
		return seen.current.rows;
	}, ms, key);
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

export function Empty({what, command, children}: {what: string; command?: string; children?: ComponentChildren}) {
	return <div class="empty">
		<p>{what}</p>
		{children}
		{command && <p class="dim">{T.command} <code>{command}</code></p>}
	</div>;
}

// What stands for a list that is not there yet, or is empty.
export function Listed<Item>({of, empty, command, add, children}: {
	of: Polled<Item[]>; empty: string; command?: string; add?: ComponentChildren; children: (items: Item[]) => ComponentChildren;
}) {
	return <>
		{of.fault && <Fault of={of.fault} again={of.again} />}
		{!of.value ? !of.fault && <Loading /> : of.value.length ? children(of.value)
			: <Empty what={empty} {...(command ? {command} : {})}>{add && <p>{add}</p>}</Empty>}
	</>;
}

// -------------------------------------------------------------------------------------- tables

export interface Column<Row> {
	label: string;
	cell: (row: Row) => ComponentChildren;
	number?: boolean; // aligned at the end
	minor?: boolean; // not shown where there is little room
	hide?: boolean;
}

// A table of rows; on a phone each row is a card. `acts` is what can be done with one.
export function Grid<Row>({label, rows, id, columns, acts, state}: {
	label: string; rows: Row[]; id: (row: Row) => string; columns: Column<Row>[]; acts?: (row: Row) => ComponentChildren; state?: (row: Row) => string;
}) {
	const all = columns.filter((one) => !one.hide);
	const classOf = (one: Column<Row>) => [one.number ? 'number' : '', one.minor ? 'wide-only' : ''].join(' ').trim() || undefined;
	return <table role="grid" aria-label={label} aria-rowcount={rows.length + 1} class="cards">
		<thead><tr>
			{all.map((one) => <th scope="col" key={one.label} class={classOf(one)}>{one.label}</th>)}
			{acts && <th scope="col"><span class="hidden">{T.actions}</span></th>}
		</tr></thead>
		<tbody>{rows.map((row) => <tr key={id(row)} data-id={id(row)} data-state={state?.(row)}>
			{all.map((one, i) => <td key={one.label} class={classOf(one)} data-label={i ? one.label : undefined}>{one.cell(row)}</td>)}
			{acts && <td class="acts">{acts(row)}</td>}
		</tr>)}</tbody>
	</table>;
}

// `isGood`: full is as it should be.
export function Meter({label, part, isGood}: {label: string; part: number | null; isGood?: boolean}) {
	const at = useRef<HTMLElement>(null);
	useLayoutEffect(() => {
		at.current?.style.setProperty('inline-size', `${Math.min(100, Math.max(0, (part ?? 0) * 100))}%`);
	}, [part]);
	return <span role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round((part ?? 0) * 100)}
		class={`meter ${isGood ? '' : (part ?? 0) >= 1 ? 'over' : (part ?? 0) >= 0.8 ? 'high' : ''}`}><i ref={at} /></span>;
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

export function Dialog({title, close, children, look}: {title: string; close: () => void; children: ComponentChildren; look?: string}) {
	const at = useRef<HTMLDialogElement>(null);
	const id = useId();
	useLayoutEffect(() => {
		const back = document.activeElement;
		at.current?.showModal();
		return () => {
			if (back instanceof HTMLElement && back.isConnected)
				back.focus();
			else
				document.getElementById('main')?.focus();
		};
	}, []);
	return <dialog ref={at} aria-labelledby={id} onClose={close} class={look}>
		<h2 id={id}>{title}</h2>
		{children}
	</dialog>;
}

export function Field({label, hint, ...more}: {label: string; hint?: string} & InputHTMLAttributes<HTMLInputElement>) {
	const id = useId();
	return <div class="field"><label for={id}>{label}</label>
		<input id={id} autocomplete="off" spellcheck={false} aria-describedby={hint ? id + 'h' : undefined} {...more} />
		{hint && <span class="hint" id={id + 'h'}>{hint}</span>}
	</div>;
}

export function Select({label, options, value, pick}: {label: string; options: readonly (readonly [string, string])[]; value: string; pick: (value: string) => void}) {
	const id = useId();
	return <div class="field"><label for={id}>{label}</label><select id={id} value={value} onChange={(event) => pick(event.currentTarget.value)}>
		{options.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
	</select></div>;
}

export function Check({label, value, pick}: {label: string; value: boolean; pick: (on: boolean) => void}) {
	const id = useId();
	return <div class="field check"><input id={id} type="checkbox" checked={value} onChange={(event) => pick(event.currentTarget.checked)} /><label for={id}>{label}</label></div>;
}

export type Values = Record<string, string>;

export interface Input {
	name: string;
	label: string;
	hint?: string;
	placeholder?: string;
	value?: string;
	required?: boolean;
	wide?: boolean;
	kind?: 'text' | 'number' | 'password' | 'area' | 'check';
	options?: readonly (readonly [string, string])[];
}

function OneInput({of}: {of: Input}) {
	const id = useId();
	const common = {id, name: of.name, required: of.required ?? false, placeholder: of.placeholder, 'aria-describedby': of.hint ? id + 'h' : undefined};
	const hint = of.hint && <span class="hint" id={id + 'h'}>{of.hint}</span>;
	if (of.kind === 'check')
		return <div class="field check wide"><input {...common} type="checkbox" value="1" defaultChecked={of.value === '1'} /><label for={id}>{of.label}</label>{hint}</div>;
	return <div class={of.wide || of.kind === 'area' ? 'field wide' : 'field'}><label for={id}>{of.label}</label>
		{of.options ? <select {...common} defaultValue={of.value ?? ''}>{of.options.map(([key, text]) => <option key={key} value={key} selected={key === (of.value ?? '')}>{text}</option>)}</select>
			: of.kind === 'area' ? <textarea {...common} rows={4} spellcheck={false} defaultValue={of.value ?? ''} />
				: of.kind === 'password' ? <input {...common} type="password" autocomplete="off" />
					: <input {...common} inputMode={of.kind === 'number' ? 'decimal' : undefined} autocomplete="off" spellcheck={false} defaultValue={of.value ?? ''} />}
		{hint}</div>;
}

export async function copyText(text: string): Promise<void> {
	await navigator.clipboard.writeText(text);
	notify(T.copied);
}

export function CopyButtons({act, cliOnly}: {act: () => Act | string; cliOnly?: boolean}) {
	const copy = (text: (act: Act) => string | null) => void attempt(async () => {
		const made = act();
		if (typeof made === 'string')
			throw new Failure(0, '', made, '', '');
		await copyText(text(made) ?? curlOf(made));
	});
	return <>
		<button type="button" class="quiet" onClick={() => copy(cliOf)}>{T.copyCli}</button>
		{!cliOnly && <button type="button" class="quiet" onClick={() => copy(curlOf)}>{T.copyCurl}</button>}
	</>;
}

// A form in a dialog: its inputs are described once, `act` says what they ask for, or what is wrong.
export function FormDialog<Answer>({title, inputs, verb, act, close, done, lead}: {
	title: string; inputs: Input[]; verb: string; act: (values: Values) => Act | string; close: () => void; done: (answer: Answer, values: Values) => void; lead?: string;
}) {
	const form = useRef<HTMLFormElement>(null);
	const [busy, setBusy] = useState(false);
	const [fault, setFault] = useState<Failure | null>(null);
	const read = (): Values => Object.fromEntries(inputs.map((one) => [one.name, form.current ? String(new FormData(form.current).get(one.name) ?? '') : '']));
	const submit = async (event: Event) => {
		event.preventDefault();
		if (busy)
			return;
		const values = read();
		setBusy(true);
		try {
			const made = act(values);
			if (typeof made === 'string')
				throw new Failure(0, '', made, '', '');
			const answer = await perform<Answer>(made);
			close();
			done(answer, values);
		} catch (problem) {
			setFault(asFailure(problem));
			setBusy(false);
		}
	};
	return <Dialog title={title} close={close}>
		{lead && <p class="dim">{lead}</p>}
		<form ref={form} onSubmit={submit}>
			{fault && <Fault of={fault} />}
			<div class="fields">{inputs.map((one) => <OneInput key={one.name} of={one} />)}</div>
			<div class="foot">
				<CopyButtons act={() => act(inputs.reduce((all, one) => (one.kind === 'password' ? {...all, [one.name]: ''} : all), read()))} />
				<button type="button" class="push" onClick={close}>{T.cancel}</button>
				<button type="submit" class="primary" aria-disabled={busy}>{verb}</button>
			</div>
		</form>
	</Dialog>;
}

// A button that waits for its work, and says which scope it lacks.
export function Do({label, work, scope, primary, name, quiet}: {label: string; work: () => Promise<void>; scope: string; primary?: boolean; name?: string; quiet?: boolean}) {
	const [busy, setBusy] = useState(false);
	const allowed = may(scope);
	const press = async () => {
		if (!allowed || busy)
			return;
		setBusy(true);
		await attempt(work);
		setBusy(false);
	};
	return <button type="button" class={primary ? 'primary' : quiet ? 'quiet' : undefined} aria-disabled={!allowed || busy} aria-label={name} aria-busy={busy}
		title={allowed ? undefined : T.noScope(scope)} onClick={press}>{label}</button>;
}

export interface Item {
	label: string;
	scope: string;
	work: () => void;
}

// `items` may be a function that is called when the menu opens.
export function Menu({label, children, items}: {label: string; children: ComponentChildren; items: Item[] | (() => Item[])}) {
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
			{(typeof items === 'function' ? items() : items).map((one) => <button type="button" role="menuitem" key={one.label} tabIndex={-1} aria-disabled={!may(one.scope)}
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
export function ConfirmDialog({title, what, name, verb, act, close, done}: {
	title: string; what: string; name: string; verb: string; act: Act; close: () => void; done: () => void;
}) {
	const [typed, setTyped] = useState('');
	const cancel = useRef<HTMLButtonElement>(null);
	useEffect(() => cancel.current?.focus(), []);
	const ready = typed === shown(name);
	return <Dialog title={title} close={close}>
		<p><b><Str of={name} /></b>: {what}</p>
		<Field label={T.confirm(shown(name))} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
		<div class="foot">
			<CopyButtons act={() => act} />
			<button type="button" class="push" ref={cancel} onClick={close}>{T.cancel}</button>
			<button type="button" class="danger" disabled={!ready} onClick={() => {
				close();
				void attempt(async () => {
					await perform(act);
					notify(T.done(verb, shown(name)));
					done();
				});
			}}>{verb}</button>
		</div>
	</Dialog>;
}

export function DeleteDialog({path, name, close, done}: {path: string; name: string; close: () => void; done: () => void}) {
	return <ConfirmDialog title={T.deleteSandbox} what={T.deleteWarning} name={name} verb={T.del} close={close} done={done}
		act={{method: 'DELETE', path, cli: ['rm', '--force', decodeURIComponent(path.split('/').pop() ?? '')]}} />;
}

