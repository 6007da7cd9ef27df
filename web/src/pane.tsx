// Terminals in a page, up to four beside each other: each with its search, the question before pasting
// several lines, and uploads of files that are dropped on it, to /workspace.
import {useEffect, useRef, useState} from 'preact/hooks';
import {shown} from './format';
import {T} from './text';
import type {Pane} from './terminal';
import {Dialog, Icon, Str, attempt} from './ui';
import {droppedOf, pickedOf, useUploads} from './uploads';

type Status = 'connecting' | 'connected' | 'reconnecting' | 'ended';

const PASTE_SHOWN = 4000;

function PasteDialog({text, close, paste}: {text: string; close: () => void; paste: () => void}) {
	const cancel = useRef<HTMLButtonElement>(null);
	useEffect(() => cancel.current?.focus(), []);
	return <Dialog title={T.pasteLines} close={close}>
		<p>{T.pasteWarning}</p>
		<pre class="log" tabIndex={0}><bdi>{text.split(/\r\n|\r|\n/).map((line) => shown(line, PASTE_SHOWN)).join('\n').slice(0, PASTE_SHOWN)}</bdi></pre>
		<p class="row">
			<button type="button" ref={cancel} onClick={close}>{T.cancel}</button>
			<button type="button" class="primary" onClick={() => {
				close();
				paste();
			}}>{T.paste}</button>
		</p>
	</Dialog>;
}

function LinkDialog({to, close}: {to: string; close: () => void}) {
	return <Dialog title={T.openLink} close={close}>
		<p class="long"><code><Str of={to} max={2000} /></code></p>
		<div class="foot"><button type="button" class="push" onClick={close}>{T.cancel}</button>
			<a class="button" href={to} target="_blank" rel="noopener noreferrer" onClick={close}>{T.openLink}</a></div>
	</Dialog>;
}

interface PaneOptions {
	id: string;
	slot: string; // of this tab's terminals in the sandbox
	isFirst: boolean;
	split: ((how: 'right' | 'down') => void) | null; // null: there are four
	shut: (() => void) | null; // null: it is the only one
}

function TerminalPane({id, slot, isFirst, split, shut}: PaneOptions) {
	const at = useRef<HTMLDivElement>(null);
	const pane = useRef<Pane | null>(null);
	const files = useRef<HTMLInputElement>(null);
	const [status, setStatus] = useState<Status>('connecting');
	const [round, setRound] = useState(0);
	const [query, setQuery] = useState<string | null>(null);
	const [paste, setPaste] = useState<{text: string; go: () => void} | null>(null);
	const [title, setTitle] = useState('');
	const [link, setLink] = useState<string | null>(null);
	const {send, view} = useUploads(id, () => undefined);
	useEffect(() => {
		let over = false;
		setStatus('connecting');
		void import('./terminal').then(({openTerminal}) => {
			if (over || !at.current)
				return;
			pane.current = openTerminal(at.current, id, slot, setStatus, {
				ask: (text, go) => setPaste({text, go}), search: () => setQuery((old) => old ?? ''), title: setTitle, link: setLink,
				leave: () => at.current?.closest('section')?.querySelector<HTMLElement>('button')?.focus(),
			});
		}).catch(() => setStatus('ended'));
		return () => {
			over = true;
			pane.current?.close();
			pane.current = null;
		};
	}, [id, round]);
	return <section class="term" aria-label={T.terminal} onDragOver={(event) => event.preventDefault()} onDrop={(event) => {
		event.preventDefault();
		void attempt(async () => send(await droppedOf(event), '/workspace'));
	}}>
		<div class="head">
			<button type="button" aria-expanded={query !== null} onClick={() => setQuery(query === null ? '' : null)}>{T.search}</button>
			<button type="button" onClick={() => files.current?.click()}>{T.uploadFiles}</button>
			<input type="file" multiple hidden ref={files} aria-label={T.chooseFiles} onChange={(event) => {
				const chosen = pickedOf(event.currentTarget.files ?? []);
				event.currentTarget.value = '';
				void attempt(() => send(chosen, '/workspace'));
			}} />
			{split && <><button type="button" class="roomy" onClick={() => split('right')}>{T.splitRight}</button><button type="button" onClick={() => split('down')}>{T.splitDown}</button></>}
			<button type="button" class="icon-only" aria-label={T.smallerText} onClick={() => pane.current?.zoom(-1)}><Icon path="M5 12h14" /></button>
			<button type="button" class="icon-only" aria-label={T.largerText} onClick={() => pane.current?.zoom(1)}><Icon path="M5 12h14M12 5v14" /></button>
			<span class="dim small grow title"><Str of={title || ''} max={80} /></span>
			{status !== 'connected' && <span role="status" class="note">{status === 'ended' ? T.ended : status === 'reconnecting' ? T.reconnecting : T.connecting}</span>}
			{status === 'ended' && <button type="button" onClick={() => setRound(round + 1)}>{T.restart}</button>}
			{shut && <button type="button" onClick={shut}>{T.closePane}</button>}
			{query !== null && <input type="search" aria-label={T.searchTerminal} placeholder={T.searchTerminal} value={query} autofocus onInput={(event) => {
				setQuery(event.currentTarget.value);
				pane.current?.find(event.currentTarget.value, false);
			}} onKeyDown={(event) => {
				if (event.key === 'Enter')
					pane.current?.find(query, event.shiftKey);
				if (event.key === 'Escape') {
					setQuery(null);
					pane.current?.focus();
				}
			}} />}
		</div>
		{view}
		<div ref={at} data-testid="terminal" data-status={status} data-first={isFirst || undefined} class="pane" />
		{paste && <PasteDialog text={paste.text} close={() => {
			setPaste(null);
			pane.current?.focus();
		}} paste={paste.go} />}
		{link && <LinkDialog to={link} close={() => setLink(null)} />}
	</section>;
}

const PANES_MAX = 4;
const keyOf = (id: string): string => `cove.panes.${id}`;

// Columns of panes, by their slots; a reload finds them again.
function keptPanes(id: string): string[][] {
	try {
		const kept: unknown = JSON.parse(sessionStorage.getItem(keyOf(id)) ?? '');
		if (Array.isArray(kept) && kept.length && kept.every((column) => Array.isArray(column) && column.length && column.every((slot) => /^\d$/.test(String(slot)))))
			return kept as string[][];
	} catch {
		// none were kept
	}
	return [['0']];
}

export function Terminal({id}: {id: string}) {
	const [columns, setColumns] = useState(() => keptPanes(id));
	const all = columns.flat();
	const keep = (next: string[][]) => {
		sessionStorage.setItem(keyOf(id), JSON.stringify(next));
		setColumns(next);
	};
	const split = (slot: string, how: 'right' | 'down') => {
		const made = ['0', '1', '2', '3'].find((one) => !all.includes(one)) ?? '0';
		keep(how === 'right' ? columns.flatMap((column) => (column.includes(slot) ? [column, [made]] : [column]))
			: columns.map((column) => column.flatMap((one) => (one === slot ? [one, made] : [one]))));
	};
	const shut = (slot: string) => keep(columns.map((column) => column.filter((one) => one !== slot)).filter((column) => column.length));
	return <div class={`panes columns-${columns.length} rows-${Math.max(...columns.map((column) => column.length))}`}>{columns.map((column) => <div class="stack" key={column[0]}>{column.map((slot) =>
		<TerminalPane key={slot} id={id} slot={slot} isFirst={slot === all[0]} split={all.length < PANES_MAX ? (how) => split(slot, how) : null} shut={all.length > 1 ? () => shut(slot) : null} />)}</div>)}</div>;
}
