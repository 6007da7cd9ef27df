// The command palette, and keys: pages, sandboxes by name, and what can be done with them.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {call, may, signOut} from './api';
import {createLike, cliOf} from './copy';
import {shown} from './format';
import {PAGES} from './pages';
import {setTheme} from './preferences';
import {nameOf, step, stepsOf} from './sandboxes';
import {T} from './text';
import type {Box, Page, Row} from './types';
import {Dialog, attempt, copyText, go} from './ui';

export interface Command {
	label: string;
	group: string;
	scope?: string;
	work: () => void;
}

// What the page that is shown offers.
let local: Command[] = [];

export function useCommands(commands: Command[]): void {
	useEffect(() => {
		local = commands;
		return () => {
			local = [];
		};
	});
}

function general(): Command[] {
	return [
		...PAGES.filter((one) => one.may()).map((one) => ({label: one.label, group: T.page, work: () => go(one.path)})),
		{label: T.createSandbox, group: T.sandboxes, scope: 'make', work: () => go('/ui/sandboxes?create=1')},
		...([['system', T.system], ['light', T.light], ['dark', T.dark]] as const).map(([value, label]) => ({label: `${T.theme}: ${label}`, group: T.settings, work: () => setTheme(value)})),
		{label: T.shortcuts, group: T.settings, work: () => dispatchEvent(new CustomEvent('cove-help'))},
		{label: T.signOut, group: T.account, work: () => void attempt(signOut)},
	];
}

function ofBox(row: Row): Command[] {
	const name = shown(nameOf(row), 63), at = `/ui/sandboxes/${row.id}`;
	return [
		{label: name, group: T.sandbox, work: () => go(at)},
		...([['terminal', T.terminal], ['files', T.files], ['network', T.network], ['ports', T.ports]] as const).map(([tab, label]) =>
			({label: `${name}: ${label}`, group: T.sandbox, work: () => go(`${at}/${tab}`)})),
		...stepsOf(row.state).map(([verb, label]) => ({label: `${label} ${name}`, group: T.sandbox, scope: 'make', work: () => void attempt(() => step(row, verb, label, () => undefined))})),
		{label: `${T.copyCli}: ${name}`, group: T.sandbox, work: () => void attempt(async () => copyText(cliOf(createLike(await call<Box>('GET', `/v1/sandboxes/${row.id}`))) ?? ''))},
		{label: T.deleteNamed(name), group: T.sandbox, scope: 'make', work: () => go(`${at}/settings?delete=1`)},
	];
}

// Every word occurs; what begins with the text comes first.
function found(all: Command[], text: string): Command[] {
	const words = text.toLowerCase().split(/\s+/).filter(Boolean);
	const good = all.filter((one) => words.every((word) => `${one.label} ${one.group}`.toLowerCase().includes(word)));
	const first = (one: Command) => Number(one.label.toLowerCase().startsWith(words[0] ?? ''));
	return (words.length ? good.sort((a, b) => first(b) - first(a)) : good).slice(0, 50);
}

export function Palette({close}: {close: () => void}) {
	const [text, setText] = useState('');
	const [at, setAt] = useState(0);
	const [rows, setRows] = useState<Row[]>([]);
	const list = useRef<HTMLDivElement>(null);
	useEffect(() => {
		if (may('read'))
			void attempt(async () => setRows((await call<Page<Row>>('GET', '/v1/sandboxes?view=summary&limit=1000')).items));
	}, []);
	const all = useMemo(() => [...local, ...general(), ...rows.flatMap(ofBox)].filter((one) => !one.scope || may(one.scope)), [rows]);
	const shownNow = found(all, text);
	const run = (one: Command | undefined) => {
		if (!one)
			return;
		close();
		setTimeout(one.work); // the focus has come back by then
	};
	useEffect(() => list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({block: 'nearest'}));
	return <Dialog title={T.palette} close={close} look="palette">
		<input type="text" role="combobox" aria-label={T.searchCommands} aria-expanded="true" aria-controls="palette-list" aria-activedescendant={shownNow.length ? `palette-${at}` : undefined}
			aria-autocomplete="list" autocomplete="off" spellcheck={false} placeholder={T.searchCommands} value={text} autofocus onInput={(event) => {
				setText(event.currentTarget.value);
				setAt(0);
			}} onKeyDown={(event) => {
				const by = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
				if (event.key === 'Enter')
					run(shownNow[at]);
				else if (by && shownNow.length)
					setAt((at + by + shownNow.length) % shownNow.length);
				else
					return;
				event.preventDefault();
			}} />
		<div role="listbox" id="palette-list" aria-label={T.searchCommands} ref={list}>
			{shownNow.map((one, i) => <div role="option" id={`palette-${i}`} key={one.group + one.label} aria-selected={i === at} onClick={() => run(one)} onPointerMove={() => setAt(i)}>
				<bdi>{one.label}</bdi><span class="dim">{one.group}</span></div>)}
			{!shownNow.length && <div role="option" aria-disabled="true" aria-selected="false" class="dim">{T.nothingFound}</div>}
		</div>
	</Dialog>;
}

const KEYS: [string, string][] = [
	['Ctrl K  /', T.palette], ['?', T.shortcuts], ['g o', T.overview], ['g s', T.sandboxes], ['g e', T.executions], ['g a', T.agentSessions], ['g t', T.templates],
	['g l', T.alerts], ['g u', T.usage], ['g k', T.keys], ['g n', T.nodes], ['g d', T.audit], ['j  k', T.nextRow], ['Enter', T.openRow], ['x', T.selectRow], ['.', T.rowActions], ['c', T.create],
];

export function Shortcuts({close}: {close: () => void}) {
	return <Dialog title={T.shortcuts} close={close}>
		<dl class="facts">{KEYS.map(([keys, what]) => <><dt key={keys}>{keys.split('  ').map((one) => <kbd key={one}>{one}</kbd>)}</dt><dd>{what}</dd></>)}</dl>
		<div class="foot"><button type="button" class="push" onClick={close}>{T.close}</button></div>
	</Dialog>;
}

const GO: Record<string, string> = {o: '/ui/', s: '/ui/sandboxes', e: '/ui/executions', a: '/ui/agent-sessions', t: '/ui/templates', l: '/ui/alerts', u: '/ui/usage', k: '/ui/keys', n: '/ui/nodes', d: '/ui/audit'};

const isTyping = (event: KeyboardEvent): boolean => event.composedPath().some((one) => one instanceof HTMLElement &&
	(['INPUT', 'TEXTAREA', 'SELECT'].includes(one.tagName) && !['checkbox', 'radio'].includes((one as HTMLInputElement).type) || one.isContentEditable || one.classList.contains('xterm')));

function moveRow(by: number): void {
	const rows = [...document.querySelectorAll<HTMLElement>('main [role=grid] tbody tr, main [role=grid] [role=row][data-id]')];
	const here = rows.findIndex((row) => row.contains(document.activeElement));
	const next = rows[here < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, here + by))];
	next?.querySelector<HTMLElement>('a, button')?.focus();
}

// Keys of all pages. None while something is typed, in a terminal or in a dialog.
export function useKeys(show: (what: 'palette' | 'help') => void): void {
	useEffect(() => {
		let led = false; // by a g: the next key says where to
		const pressed = (event: KeyboardEvent) => {
			if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === 'k' && !event.composedPath().some((one) => one instanceof HTMLElement && one.classList.contains('xterm'))) {
				event.preventDefault();
				if (!document.querySelector('dialog[open]'))
					show('palette');
				return;
			}
			if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event) || document.querySelector('dialog[open], [role=menu]'))
				return;
			const row = document.activeElement?.closest('tr, [role=row]');
			const leader = led;
			led = false;
			if (leader && GO[event.key])
				go(GO[event.key] ?? '/ui/');
			else if (event.key === 'g')
				led = true;
			else if (event.key === '/')
				show('palette');
			else if (event.key === '?')
				show('help');
			else if (event.key === 'j' || event.key === 'k')
				moveRow(event.key === 'j' ? 1 : -1);
			else if (event.key === 'x')
				row?.querySelector<HTMLElement>('input[type=checkbox]')?.click();
			else if (event.key === '.')
				(row ?? document).querySelector<HTMLElement>(row ? '[aria-haspopup=menu]' : 'main [aria-haspopup=menu]')?.click();
			else if (event.key === 'c')
				document.querySelector<HTMLElement>('main button.primary')?.click();
			else
				return;
			event.preventDefault();
		};
		const help = () => show('help');
		addEventListener('keydown', pressed);
		addEventListener('cove-help', help);
		return () => {
			removeEventListener('keydown', pressed);
			removeEventListener('cove-help', help);
		};
	}, []);
}
