// The list of sandboxes: live rows, a filter in the address, and what can be done with one.
import {Component} from 'preact';
import type {ComponentChildren} from 'preact';
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {call, may} from './api';
import {Bulk} from './bulk';
import {cliOf, createLike, curlOf} from './copy';
import {Create} from './create';
import {matches, readFilter} from './filter';
import {FilterBox} from './filter_box';
import {bytes, cores, count, labelText, shown} from './format';
import {useSandboxes} from './live';
import type {LiveRow} from './live';
import {columns, setColumns} from './preferences';
import {T} from './text';
import type {Box, Row} from './types';
import {Ago, Check, DeleteDialog, Dialog, Do, Empty, Fault, Link, Loading, Menu, State, Str, attempt, copyText, notify} from './ui';
import type {Item} from './ui';
import {useSpan} from './virtual';

type Column = 'name' | 'state' | 'cpu' | 'memory' | 'age';
type Shown = Column | 'disk' | 'processes' | 'requests' | 'tenant' | 'template' | 'labels';

// The columns; those without `sort` have no order. A table begins with those that are `usual`.
const COLUMNS: {key: Shown; label: string; sort?: Column; number?: boolean; usual?: boolean; cell: (row: LiveRow) => ComponentChildren}[] = [
	{key: 'name', label: T.name, sort: 'name', usual: true, cell: (row) => <Link to={`/ui/sandboxes/${row.id}`}><Str of={nameOf(row)} max={63} /></Link>},
	{key: 'state', label: T.state, sort: 'state', usual: true, cell: (row) => <><State of={row.state} />{row.reason && <span class="dim small"> <Str of={row.reason} max={60} /></span>}</>},
	{key: 'cpu', label: T.cpu, sort: 'cpu', usual: true, number: true, cell: (row) => cores(row.cpu)},
	{key: 'memory', label: T.memory, sort: 'memory', usual: true, number: true, cell: (row) => <>{bytes(row.memory)}{row.limits.memory ? <span class="dim"> / {bytes(row.limits.memory)}</span> : null}</>},
	{key: 'disk', label: T.disk, number: true, cell: (row) => bytes(row.disk)},
	{key: 'processes', label: T.processes, number: true, cell: (row) => count(row.pids)},
	{key: 'requests', label: T.requests, number: true, cell: (row) => count(row.requests)},
	{key: 'tenant', label: T.tenant, cell: (row) => <Str of={row.tenant} max={40} />},
	{key: 'template', label: T.template, usual: true, cell: (row) => <Str of={row.template} max={40} />},
	{key: 'labels', label: T.labels, usual: true, cell: (row) => <Str of={labelText(row.labels)} max={60} />},
	{key: 'age', label: T.age, sort: 'age', usual: true, number: true, cell: (row) => <Ago of={row.createdAt} />},
];

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
export const BACK: Record<string, string> = {stop: 'start', pause: 'resume', start: 'stop', resume: 'pause'};

export async function step(row: {id: string; name: string | null; shortId: string}, verb: string, label: string, again: () => void): Promise<void> {
	const path = `/v1/sandboxes/${row.id}/`;
	await call('POST', path + verb);
	again();
	const back = BACK[verb];
	notify(T.done(label, shown(nameOf(row))), back ? () => void attempt(async () => {
		await call('POST', path + back);
		again();
	}) : undefined);
}

export function stepsOf(state: string): [string, string][] {
	if (state === 'running' || state === 'frozen')
		return [['stop', T.stop], ['pause', T.pause]];
	if (state === 'paused')
		return [['resume', T.resume], ['stop', T.stop]];
	if (state === 'stopped')
		return [['start', T.start], ['archive', T.archive]];
	return state === 'archived' || state === 'failed' ? [['start', T.start]] : [];
}

const ROW_PX = 44;
const WATCH_MS = 300; // what is shown for so long is read oftener

// The creation of an equal sandbox, as a command.
export const copyLike = (id: string, text: typeof cliOf) => void attempt(async () =>
	copyText(text(createLike(await call<Box>('GET', `/v1/sandboxes/${id}`))) ?? ''));

function ColumnsDialog({shownKeys, close}: {shownKeys: readonly string[]; close: (keys: string[]) => void}) {
	const [keys, setKeys] = useState<readonly string[]>(shownKeys);
	return <Dialog title={T.columns} close={() => close([...keys])}>
		<div class="fields">{COLUMNS.filter((one) => one.key !== 'name').map((one) => <Check key={one.key} label={one.label} value={keys.includes(one.key)}
			pick={(on) => setKeys(on ? [...keys, one.key] : keys.filter((key) => key !== one.key))} />)}</div>
		<div class="foot"><button type="button" class="primary push" onClick={() => close([...keys])}>{T.close}</button></div>
	</Dialog>;
}

export function Sandboxes() {
	const [watch, setWatch] = useState<string[]>([]);
	const {rows: all, ready, fault} = useSandboxes(null, watch);
	const [query, setQuery] = useState(new URLSearchParams(location.search).get('q') ?? '');
	const [sort, setSort] = useState<{by: Column; down: boolean}>({by: 'age', down: false});
	const [creating, setCreating] = useState(new URLSearchParams(location.search).has('create'));
	const [deleting, setDeleting] = useState<Row | null>(null);
	const [choosing, setChoosing] = useState(false);
	const [keys, setKeys] = useState<readonly string[]>(() => columns() ?? COLUMNS.filter((one) => one.usual).map((one) => one.key));
	const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
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
	const chosen = selected.size ? all.filter((row) => selected.has(row.id)) : [];
	const search = (text: string) => {
		setQuery(text);
		history.replaceState(null, '', text ? `/ui/sandboxes?q=${encodeURIComponent(text)}` : '/ui/sandboxes');
	};
	const select = (id: string, on: boolean) => setSelected((old) => {
		const next = new Set(old);
		if (on)
			next.add(id);
		else
			next.delete(id);
		return next;
	});
	const items = (row: Row): Item[] => [
		...stepsOf(row.state).map(([verb, label]) => ({label, scope: 'make', work: () => void attempt(() => step(row, verb, label, () => undefined))})),
		{label: T.copyCli, scope: 'read', work: () => copyLike(row.id, cliOf)},
		{label: T.copyCurl, scope: 'read', work: () => copyLike(row.id, curlOf)},
		{label: T.del, scope: 'make', work: () => setDeleting(row)},
	];
	const shownColumns = COLUMNS.filter((one) => one.key === 'name' || keys.includes(one.key));
	const wide = shownColumns.length + 2;
	const isAll = rows.length > 0 && rows.every((row) => selected.has(row.id));
	const create = <Do label={T.createSandbox} scope="make" primary work={async () => setCreating(true)} />;
	return <>
		<div class="head"><h1>{T.sandboxes}</h1>
			<span class="dim">{(ready || all.length > 0) && T.of(rows.length, all.length)}</span>
			{(all.length > 0 || !ready) && create}
		</div>
		{fault && <Fault of={fault} />}
		{all.length > 0 && <div class="bar">
			<FilterBox label={T.filterSandboxes} value={query} rows={all} search={search} />
			<button type="button" onClick={() => setChoosing(true)}>{T.columns}</button>
		</div>}
		{selected.size > 0 && <Bulk rows={chosen} clear={() => setSelected(new Set())} keep={(kept) => setSelected(new Set(kept))} />}
		{!ready && !all.length && !fault && <Loading />}
		{ready && all.length === 0 && <Empty what={T.noSandboxes} command="cove create"><p>{create}</p></Empty>}
		{all.length > 0 && rows.length === 0 && <p class="empty">{T.noMatch}</p>}
		{rows.length > 0 && <table ref={table} role="grid" aria-label={T.sandboxes} aria-rowcount={rows.length + 1} class="cards choose">
			<thead><tr>
				<th scope="col" class="pick"><input type="checkbox" aria-label={T.selectAll} checked={isAll} onChange={() => setSelected(isAll ? new Set() : new Set(rows.map((row) => row.id)))} /></th>
				{shownColumns.map((one) => <th scope="col" key={one.key} class={one.number ? 'number' : undefined}
					aria-sort={!one.sort ? undefined : sort.by !== one.sort ? 'none' : sort.down ? 'descending' : 'ascending'}>
					{one.sort ? <button type="button" onClick={() => one.sort && setSort({by: one.sort, down: sort.by === one.sort && !sort.down})}>{one.label}</button> : one.label}</th>)}
				<th scope="col"><span class="hidden">{T.actions}</span></th>
			</tr></thead>
			<tbody ref={body}>{above > 0 && <tr key="above" aria-hidden="true" class="gap"><td colSpan={wide} style={{blockSize: `${above}px`}} /></tr>}
				{seen.map((row, i) => <SandboxRow key={row.id} row={row} index={first + i + 2} isSelected={selected.has(row.id)} shownColumns={shownColumns} select={select} items={items} />)}
				{below > 0 && <tr key="below" aria-hidden="true" class="gap"><td colSpan={wide} style={{blockSize: `${below}px`}} /></tr>}</tbody>
		</table>}
		{creating && may('make') && <Create close={() => setCreating(false)} again={() => undefined} />}
		{choosing && <ColumnsDialog shownKeys={keys} close={(next) => {
			setChoosing(false);
			setKeys(next);
			setColumns(next);
		}} />}
		{deleting && <DeleteDialog path={`/v1/sandboxes/${deleting.id}`} name={nameOf(deleting)} close={() => setDeleting(null)} done={() => undefined} />}
	</>;
}

interface RowOptions {
	row: LiveRow;
	index: number;
	isSelected: boolean;
	shownColumns: typeof COLUMNS;
	select: (id: string, on: boolean) => void;
	items: (row: Row) => Item[];
}

// A row is drawn again when its values change, not whenever others do.
class SandboxRow extends Component<RowOptions> {
	override shouldComponentUpdate(next: RowOptions): boolean {
		return next.row !== this.props.row || next.isSelected !== this.props.isSelected || next.index !== this.props.index ||
			next.shownColumns.length !== this.props.shownColumns.length || next.shownColumns.some((one, i) => one !== this.props.shownColumns[i]);
	}

	override render({row, index, isSelected, shownColumns, select, items}: RowOptions) {
		const name = shown(nameOf(row), 63);
		return <tr data-id={row.id} aria-rowindex={index} aria-selected={isSelected}>
			<td class="pick"><input type="checkbox" aria-label={T.selectNamed(name)} checked={isSelected} onChange={(event) => select(row.id, event.currentTarget.checked)} /></td>
			{shownColumns.map((one) => <td key={one.key} class={one.key === 'name' ? 'first' : one.number ? 'number' : undefined} data-label={one.key === 'name' ? undefined : one.label}>{one.cell(row)}</td>)}
			<td class="acts"><Menu label={T.actionsFor(name)} items={() => items(row)}>{T.more}</Menu></td>
		</tr>;
	}
}
