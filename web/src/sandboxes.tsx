// The list of sandboxes: live rows, a filter in the address, and what can be done with one.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {call, may} from './api';
import {Create} from './create';
import {matches, readFilter} from './filter';
import {bytes, cores, labelText, shown} from './format';
import {useSandboxes} from './live';
import type {LiveRow} from './live';
import {T} from './text';
import type {Row} from './types';
import {Ago, DeleteDialog, Do, Empty, Fault, Link, Loading, Menu, Str, attempt, notify} from './ui';
import type {Item} from './ui';
import {useSpan} from './virtual';

type Column = 'name' | 'state' | 'cpu' | 'memory' | 'age';
const COLUMNS: [Column, string][] = [['name', T.name], ['state', T.state], ['cpu', T.cpu], ['memory', T.memory], ['age', T.age]];

export const nameOf = (row: {name: string | null; shortId: string}): string => row.name ?? row.shortId;

const names = new Intl.Collator('en', {numeric: true});

function compare(by: Column, a: Ranked, b: Ranked): number {
	const order = by === 'name' ? names.compare(nameOf(a.row), nameOf(b.row)) : by === 'state' ? (a.row.state < b.row.state ? -1 : +(a.row.state > b.row.state))
		: by === 'cpu' || by === 'memory' ? a.mean - b.mean
			: a.row.createdAt === b.row.createdAt ? 0 : a.row.createdAt < b.row.createdAt ? 1 : -1;
	return order || (a.row.id < b.row.id ? -1 : 1);
}

interface Ranked {
	row: LiveRow;
	mean: number; // of what is sorted by, over MEAN_MS
}

const MEAN_MS = 30000;
const STILL_MS = 5000; // rows change places no oftener

interface Order {
	key: string;
	by: Column;
	at: number;
	place: Map<string, number>;
	means: Map<string, {value: number; at: number}>;
}

function meanOf(order: Order, row: LiveRow, value: number | null): number {
	const now = performance.now(), old = order.means.get(row.id);
	if (value === null)
		return -1;
	const part = old ? Math.min(1, (now - old.at) / MEAN_MS) : 1;
	const mean = old ? old.value + (value - old.value) * part : value;
	order.means.set(row.id, {value: mean, at: now});
	return mean;
}

// The rows that match, in their order. By a live number it is that of its mean, and rows stay where
// they are for STILL_MS, and while somebody is at the table.
function useOrder(all: readonly LiveRow[], query: string, sort: {by: Column; down: boolean}, isHeld: () => boolean): LiveRow[] {
	const order = useRef<Order>({key: '', by: sort.by, at: 0, place: new Map(), means: new Map()});
	return useMemo(() => {
		const terms = readFilter(query), own = order.current, key = `${query} ${sort.by} ${sort.down}`;
		const found = all.filter((row) => matches(terms, row));
		const live = sort.by === 'cpu' || sort.by === 'memory';
		if (own.by !== sort.by)
			own.means.clear();
		own.by = sort.by;
		const still = live && own.key === key && (performance.now() - own.at < STILL_MS || isHeld());
		if (still) {
			const end = own.place.size;
			return found.sort((a, b) => (own.place.get(a.id) ?? end) - (own.place.get(b.id) ?? end));
		}
		const ranked = found.map((row) => ({row, mean: live ? meanOf(own, row, sort.by === 'cpu' ? row.cpu : row.memory) : 0}));
		ranked.sort((a, b) => compare(sort.by, a, b));
		if (sort.down)
			ranked.reverse();
		own.key = key;
		own.at = performance.now();
		own.place = new Map(ranked.map((one, i) => [one.row.id, i]));
		return ranked.map((one) => one.row);
	}, [all, query, sort]);
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

const ROW_PX = 44;
const WATCH_MS = 300; // what is shown for so long is read oftener

export function Sandboxes() {
	const [watch, setWatch] = useState<string[]>([]);
	const {rows: all, ready, fault} = useSandboxes(null, watch);
	const [query, setQuery] = useState(new URLSearchParams(location.search).get('q') ?? '');
	const [sort, setSort] = useState<{by: Column; down: boolean}>({by: 'age', down: false});
	const [creating, setCreating] = useState(new URLSearchParams(location.search).has('create'));
	const [deleting, setDeleting] = useState<Row | null>(null);
	const table = useRef<HTMLTableElement>(null);
	const body = useRef<HTMLTableSectionElement>(null);
	const rows = useOrder(all, query, sort, () => !!table.current && (table.current.matches(':hover') || table.current.contains(document.activeElement)));
	const {first, last, above, below} = useSpan(rows.length, body, ROW_PX);
	const seen = rows.slice(first, last);
	const ids = seen.map((row) => row.id);
	useEffect(() => {
		const timer = setTimeout(() => setWatch(ids), WATCH_MS);
		return () => clearTimeout(timer);
	}, [ids.join()]);
	const search = (text: string) => {
		setQuery(text);
		history.replaceState(null, '', text ? `/ui/sandboxes?q=${encodeURIComponent(text)}` : '/ui/sandboxes');
	};
	const items = (row: Row): Item[] => [
		...stepsOf(row.state).map(([verb, label]) => ({label, scope: 'make', work: () => void attempt(() => step(row, verb, label, () => undefined))})),
		{label: T.del, scope: 'make', work: () => setDeleting(row)},
	];
	return <>
		<div class="head"><h1>{T.sandboxes}</h1>
			<span class="dim">{(ready || all.length > 0) && T.of(rows.length, all.length)}</span>
			<Do label={T.createSandbox} scope="make" primary work={async () => setCreating(true)} />
		</div>
		{fault && <Fault of={fault} />}
		{all.length > 0 && <input type="search" class="filter" aria-label={T.filterSandboxes} placeholder="state:running label:team=a web"
			value={query} onInput={(event) => search(event.currentTarget.value)} />}
		{!ready && !all.length && !fault && <Loading />}
		{ready && all.length === 0 && <Empty what={T.noSandboxes} command="cove create" />}
		{all.length > 0 && rows.length === 0 && <p class="empty">{T.noMatch}</p>}
		{rows.length > 0 && <table ref={table} role="grid" aria-label={T.sandboxes} aria-rowcount={rows.length + 1} class="cards">
			<thead><tr>
				{COLUMNS.map(([by, label]) => <th scope="col" key={by} aria-sort={sort.by !== by ? 'none' : sort.down ? 'descending' : 'ascending'}>
					<button type="button" onClick={() => setSort({by, down: sort.by === by && !sort.down})}>{label}</button></th>)}
				<th scope="col">{T.template}</th><th scope="col">{T.labels}</th><th scope="col"><span class="hidden">{T.actions}</span></th>
			</tr></thead>
			<tbody ref={body}>{above > 0 && <tr key="above" aria-hidden="true" class="gap"><td colSpan={8} style={{blockSize: `${above}px`}} /></tr>}
				{seen.map((row, i) => <tr key={row.id} data-id={row.id} aria-rowindex={first + i + 2}>
				<td><Link to={`/ui/sandboxes/${row.id}`}><Str of={nameOf(row)} max={63} /></Link></td>
				<td data-label={T.state}><span class={`state ${/^[a-z]+$/.test(row.state) ? row.state : ''}`}><Str of={row.state} /></span></td>
				<td data-label={T.cpu} class="number">{cores(row.cpu)}</td>
				<td data-label={T.memory} class="number">{bytes(row.memory)}{row.limits.memory ? <span class="dim"> / {bytes(row.limits.memory)}</span> : null}</td>
				<td data-label={T.age} class="number"><Ago of={row.createdAt} /></td>
				<td data-label={T.template}><Str of={row.template} max={40} /></td>
				<td data-label={T.labels}><Str of={labelText(row.labels)} max={60} /></td>
				<td><Menu label={T.actionsFor(shown(nameOf(row)))} items={items(row)}>⋯</Menu></td>
			</tr>)}
				{below > 0 && <tr key="below" aria-hidden="true" class="gap"><td colSpan={8} style={{blockSize: `${below}px`}} /></tr>}</tbody>
		</table>}
		{creating && may('make') && <Create close={() => setCreating(false)} again={() => undefined} />}
		{deleting && <DeleteDialog path={`/v1/sandboxes/${deleting.id}`} name={nameOf(deleting)} close={() => setDeleting(null)} done={() => undefined} />}
	</>;
}
