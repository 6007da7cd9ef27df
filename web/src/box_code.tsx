// Cells of code in a sandbox: what is typed, and results as text, pictures and tables. HTML that a
// cell gives is shown as source.
import {useEffect, useRef, useState} from 'preact/hooks';
import {call} from './api';
import {plainLog} from './format';
import {T} from './text';
import {stream} from './transfer';
import type {Box, CellEvent} from './types';
import {Do, Select, Str, attempt} from './ui';

const LANGUAGES = [['python', 'Python'], ['javascript', 'JavaScript'], ['typescript', 'TypeScript']] as const;
const KEPT = 50; // cells that the page shows
const TEXT_MAX = 200000;

interface Cell {
	id: number;
	code: string;
	events: CellEvent[];
	busy: boolean;
}

const cellsOf = new Map<string, Cell[]>(); // by sandbox: they outlive the change of a tab
let serial = 0;

function isTable(data: unknown): data is Record<string, unknown>[] {
	return Array.isArray(data) && data.length > 0 && data.every((row) => typeof row === 'object' && row !== null && !Array.isArray(row));
}

function Result({of}: {of: CellEvent}) {
	const picture = of.png ? `data:image/png;base64,${of.png}` : of.jpeg ? `data:image/jpeg;base64,${of.jpeg}` : null;
	if (picture)
		return <img class="shot" src={picture} alt={T.output} />;
	if (isTable(of.data)) {
		const names = Object.keys(of.data[0] ?? {}).slice(0, 50);
		return <div class="scroll" tabIndex={0} role="group" aria-label={T.output}><table><thead><tr>{names.map((name) => <th scope="col" key={name}><Str of={name} max={40} /></th>)}</tr></thead>
			<tbody>{of.data.slice(0, 200).map((row, i) => <tr key={i}>{names.map((name) => <td key={name} class={typeof row[name] === 'number' ? 'number' : ''}><Str of={String(row[name])} max={80} /></td>)}</tr>)}</tbody></table></div>;
	}
	const source = of.html ?? of.svg;
	if (source && !of.text)
		return <><p class="dim small">{of.html ? 'HTML' : 'SVG'} {T.asSource}</p><pre><bdi>{plainLog(source.slice(0, TEXT_MAX))}</bdi></pre></>;
	const text = of.text ?? of.markdown ?? (of.json !== undefined ? JSON.stringify(of.json, null, JSON.stringify(of.json).length < 100 ? 0 : 2) : '');
	return <pre><bdi>{plainLog(text.slice(0, TEXT_MAX))}</bdi></pre>;
}

function OneEvent({of}: {of: CellEvent}) {
	if (of.type === 'stdout' || of.type === 'stderr')
		return <pre class={of.type === 'stderr' ? 'bad' : undefined}><bdi>{plainLog((of.text ?? '').slice(0, TEXT_MAX))}</bdi></pre>;
	if (of.type === 'error')
		return <pre class="bad"><bdi>{plainLog([`${of.ename ?? ''}: ${of.evalue ?? ''}`, ...of.traceback ?? []].join('\n').slice(0, TEXT_MAX))}</bdi></pre>;
	return of.type === 'result' ? <Result of={of} /> : null;
}

// Output that follows output of the same kind belongs to the same text.
function joined(events: CellEvent[], event: CellEvent): CellEvent[] {
	const last = events[events.length - 1];
	if (last && last.type === event.type && (event.type === 'stdout' || event.type === 'stderr') && (last.text ?? '').length < TEXT_MAX)
		return [...events.slice(0, -1), {...last, text: (last.text ?? '') + (event.text ?? '')}];
	return events.length < 500 ? [...events, event] : events;
}

interface Context {
	id: string;
	language: string;
	alive: boolean;
}

export function Code({box}: {box: Box}) {
	const [language, setLanguage] = useState<string>('python');
	const [cells, setCells] = useState<Cell[]>(cellsOf.get(box.id) ?? []);
	const input = useRef<HTMLTextAreaElement>(null);
	const end = useRef<HTMLDivElement>(null);
	const contexts = `/v1/sandboxes/${box.id}/api/contexts`;
	const keep = (change: (old: Cell[]) => Cell[]) => setCells((old) => {
		const next = change(old).slice(-KEPT);
		cellsOf.set(box.id, next);
		return next;
	});
	useEffect(() => {
		if (end.current)
			end.current.scrollTop = end.current.scrollHeight;
	}, [cells]);
	const context = async (): Promise<string> => {
		const {contexts: all} = await call<{contexts: Context[]}>('GET', contexts);
		return all.find((one) => one.language === language && one.alive)?.id ?? (await call<Context>('POST', contexts, {language})).id;
	};
	const run = async () => {
		const code = input.current?.value ?? '';
		if (!code.trim())
			return;
		const id = ++serial;
		keep((old) => [...old, {id, code, events: [], busy: true}]);
		const edit = (change: (cell: Cell) => Cell) => keep((old) => old.map((one) => (one.id === id ? change(one) : one)));
		try {
			const contextId = await context();
			await stream(`/v1/sandboxes/${box.id}/api/execute/code`, {context_id: contextId, code, language}, (data) => {
				const event = JSON.parse(data) as CellEvent;
				edit((cell) => ({...cell, events: joined(cell.events, event)}));
			}, new AbortController().signal);
		} finally {
			edit((cell) => ({...cell, busy: false}));
		}
	};
	return <>
		<div class="panel">
			<div class="field"><label for="code">{T.code}</label>
				<textarea id="code" ref={input} rows={6} spellcheck={false} aria-describedby="code-hint" onKeyDown={(event) => {
					if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
						event.preventDefault();
						void attempt(run);
					}
				}} /><span class="hint" id="code-hint">{T.codeHint}</span></div>
			<div class="row">
				<Select label={T.language} options={LANGUAGES} value={language} pick={setLanguage} />
				<span class="grow" />
				<Do label={T.restartKernel} scope="use" work={async () => void await call('POST', `${contexts}/${await context()}/restart`)} />
				<Do label={T.interrupt} scope="use" work={async () => void await call('POST', `${contexts}/${await context()}/interrupt`)} />
				<Do label={T.runCell} scope="use" primary work={run} />
			</div>
		</div>
		<div class="panel" role="log" aria-label={T.output} tabIndex={0} ref={end}>
			{!cells.length && <p class="dim">{T.codeEmpty}</p>}
			{cells.map((cell) => <div key={cell.id} class="cell" aria-busy={cell.busy}>
				<pre class="in"><bdi>{cell.code}</bdi></pre>
				{cell.events.map((event, i) => <OneEvent key={i} of={event} />)}
				{cell.busy && <p class="dim small">{T.running}…</p>}
			</div>)}
		</div>
	</>;
}
