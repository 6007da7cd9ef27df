// The list of sandboxes: live rows, a filter in the address, and what can be done with one.
import {useMemo, useState} from 'preact/hooks';
import {call, may} from './api';
import {Create} from './create';
import {matches, readFilter} from './filter';
import {bytes, cores, labelText, shown} from './format';
import {T} from './text';
import type {Page, Row} from './types';
import {Ago, DeleteDialog, Do, Empty, Fault, Link, Loading, Menu, Str, attempt, notify, usePoll} from './ui';
import type {Item} from './ui';

type Column = 'name' | 'state' | 'cpu' | 'memory' | 'age';
const COLUMNS: [Column, string][] = [['name', T.name], ['state', T.state], ['cpu', T.cpu], ['memory', T.memory], ['age', T.age]];

export const nameOf = (row: {name: string | null; shortId: string}): string => row.name ?? row.shortId;

// All pages of the list.
async function readAll(): Promise<Row[]> {
	const rows: Row[] = [];
	let cursor: string | null = null;
	do {
		const page: Page<Row> = await call('GET', '/v1/sandboxes?view=summary&limit=1000' + (cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''));
		rows.push(...page.items);
		cursor = page.cursor;
	} while (cursor && rows.length < 5000);
	return rows;
}

function compare(by: Column, a: Row, b: Row): number {
	const order = by === 'name' ? nameOf(a).localeCompare(nameOf(b)) : by === 'state' ? a.state.localeCompare(b.state)
		: by === 'cpu' ? (a.cpu ?? -1) - (b.cpu ?? -1) : by === 'memory' ? (a.memory ?? -1) - (b.memory ?? -1)
			: Date.parse(b.createdAt) - Date.parse(a.createdAt);
	return order || a.id.localeCompare(b.id);
}

// What undoes a step; the others cannot be undone.
const BACK: Record<string, string> = {stop: 'start', pause: 'resume', start: 'stop', resume: 'pause'};

export async function step(row: {id: string; name: string | null; shortId: string}, verb: string, label: string, again: () => void): Promise<void> {
	const path = `/v1/sandboxes/${row.id}/`;
	await call('POST', path + verb);
	again();
	notify(T.done(label, shown(nameOf(row))), () => void attempt(async () => {
		await call('POST', path + BACK[verb]);
		again();
	}));
}

export function stepsOf(state: string): [string, string][] {
	if (state === 'running' || state === 'frozen')
		return [['stop', T.stop], ['pause', T.pause]];
	if (state === 'paused')
		return [['resume', T.resume], ['stop', T.stop]];
	return state === 'stopped' || state === 'failed' ? [['start', T.start]] : [];
}

const SHOWN = 500; // rows in the page at a time

export function Sandboxes() {
	const {value, fault, again} = usePoll(readAll, 2000, 'sandboxes');
	const [query, setQuery] = useState(new URLSearchParams(location.search).get('q') ?? '');
	const [sort, setSort] = useState<{by: Column; down: boolean}>({by: 'age', down: false});
	const [creating, setCreating] = useState(new URLSearchParams(location.search).has('create'));
	const [deleting, setDeleting] = useState<Row | null>(null);
	const rows = useMemo(() => {
		const terms = readFilter(query);
		const found = (value ?? []).filter((row) => matches(terms, row)).sort((a, b) => compare(sort.by, a, b));
		return sort.down ? found.reverse() : found;
	}, [value, query, sort]);
	const search = (text: string) => {
		setQuery(text);
		history.replaceState(null, '', text ? `/ui/sandboxes?q=${encodeURIComponent(text)}` : '/ui/sandboxes');
	};
	const items = (row: Row): Item[] => [
		...stepsOf(row.state).map(([verb, label]) => ({label, scope: 'make', work: () => void attempt(() => step(row, verb, label, again))})),
		{label: T.del, scope: 'make', work: () => setDeleting(row)},
	];
	return <>
		<div class="head"><h1>{T.sandboxes}</h1>
			<span class="dim">{value && T.of(rows.length, value.length)}</span>
			<Do label={T.createSandbox} scope="make" primary work={async () => setCreating(true)} />
		</div>
		{fault && <Fault of={fault} again={again} />}
		{value && value.length > 0 && <input type="search" class="filter" aria-label={T.filterSandboxes} placeholder="state:running label:team=a web"
			value={query} onInput={(event) => search(event.currentTarget.value)} />}
		{!value && !fault && <Loading />}
		{value?.length === 0 && <Empty what={T.noSandboxes} command="cove create" />}
		{value && value.length > 0 && rows.length === 0 && <p class="empty">{T.noMatch}</p>}
		{rows.length > 0 && <table role="grid" aria-label={T.sandboxes} aria-rowcount={rows.length + 1} class="cards">
			<thead><tr>
				{COLUMNS.map(([by, label]) => <th scope="col" key={by} aria-sort={sort.by !== by ? 'none' : sort.down ? 'descending' : 'ascending'}>
					<button type="button" onClick={() => setSort({by, down: sort.by === by && !sort.down})}>{label}</button></th>)}
				<th scope="col">{T.template}</th><th scope="col">{T.labels}</th><th scope="col"><span class="hidden">{T.actions}</span></th>
			</tr></thead>
			<tbody>{rows.slice(0, SHOWN).map((row) => <tr key={row.id} data-id={row.id}>
				<td><Link to={`/ui/sandboxes/${row.id}`}><Str of={nameOf(row)} max={63} /></Link></td>
				<td data-label={T.state}><span class={`state ${/^[a-z]+$/.test(row.state) ? row.state : ''}`}><Str of={row.state} /></span></td>
				<td data-label={T.cpu} class="number">{cores(row.cpu)}</td>
				<td data-label={T.memory} class="number">{bytes(row.memory)}{row.limits.memory ? <span class="dim"> / {bytes(row.limits.memory)}</span> : null}</td>
				<td data-label={T.age} class="number"><Ago of={row.createdAt} /></td>
				<td data-label={T.template}><Str of={row.template} max={40} /></td>
				<td data-label={T.labels}><Str of={labelText(row.labels)} max={60} /></td>
				<td><Menu label={T.actionsFor(shown(nameOf(row)))} items={items(row)}>⋯</Menu></td>
			</tr>)}</tbody>
		</table>}
		{creating && may('make') && <Create close={() => setCreating(false)} again={again} />}
		{deleting && <DeleteDialog path={`/v1/sandboxes/${deleting.id}`} name={nameOf(deleting)} close={() => setDeleting(null)} done={again} />}
	</>;
}
