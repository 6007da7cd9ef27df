// Charts over time: one crosshair and one zoom for all of a page, gaps where nothing was read, limits
// dashed, marks of what happened, and the same values as a table.
import {useEffect, useId, useMemo, useRef, useState} from 'preact/hooks';
import {call, now} from './api';
import {clock, dayClock} from './format';
import {useEvents} from './live';
import {T} from './text';
import {Select, go, usePoll} from './ui';

export interface Point {
	time: number;
	value: number | null; // null: unknown, a gap
}

export interface Mark {
	time: number;
	kind: string;
}

const POINTS = 600;

export function keepPoint(points: Point[], point: Point): Point[] {
	const last = points[points.length - 1];
	if (last && point.time <= last.time)
		return points;
	return [...points, point].slice(-POINTS);
}

// What all charts of the page share.
let pointed: number | null = null;
let zoomed: [number, number] | null = null;
const charts = new Set<() => void>();

function share(next: {pointed?: number | null; zoomed?: [number, number] | null}): void {
	if (next.pointed !== undefined)
		pointed = next.pointed;
	if (next.zoomed !== undefined)
		zoomed = next.zoomed;
	charts.forEach((told) => told());
}

// A gap in time is a gap in the line, too.
function pieces(points: Point[], from: number, to: number, top: number, gap: number): {lines: string[]; gaps: number} {
	const lines: string[] = [];
	let line: string[] = [], gaps = 0, before: Point | null = null;
	for (const point of points) {
		const apart = before !== null && point.time - before.time > gap;
		if (line.length && (point.value === null || apart)) {
			lines.push(line.join(' '));
			line = [];
			gaps++;
		}
		if (point.value !== null)
			line.push(`${(((point.time - from) / (to - from || 1)) * 300).toFixed(1)},${(80 - (Math.min(point.value, top) / top) * 76).toFixed(1)}`);
		before = point;
	}
	if (line.length)
		lines.push(line.join(' '));
	return {lines, gaps};
}

const edge = (line: string, isLast: boolean): string => (isLast ? line.slice(line.lastIndexOf(' ') + 1) : line).split(',')[0] ?? '0';

const GAP_MS = 25000;
const WIDTH_MS = 60000; // at least
const DRAG_PART = 0.03; // of the width: less is a click

interface ChartOptions {
	label: string;
	points: Point[];
	limit: number | null;
	text: (value: number | null) => string;
	more?: {label: string; points: Point[]};
	gap?: number; // ms without a value that are a gap
	marks?: Mark[];
	width?: number; // ms at least
}

export function Chart({label, points: all, limit, text, more, gap = GAP_MS, marks = [], width = WIDTH_MS}: ChartOptions) {
	const [table, setTable] = useState(false);
	const [, redraw] = useState(0);
	const drag = useRef<number | null>(null);
	const id = useId();
	useEffect(() => {
		const told = () => redraw((old) => old + 1);
		charts.add(told);
		return () => {
			charts.delete(told);
			if (!charts.size)
				pointed = zoomed = null;
		};
	}, []);
	const to = zoomed?.[1] ?? all[all.length - 1]?.time ?? 0, from = zoomed?.[0] ?? Math.min(all[0]?.time ?? 0, to - width);
	const points = zoomed ? all.filter((one) => one.time >= from && one.time <= to) : all;
	const others = zoomed ? more?.points.filter((one) => one.time >= from && one.time <= to) : more?.points;
	const peak = Math.max(...points.map((one) => one.value ?? 0), ...(others ?? []).map((one) => one.value ?? 0), 0);
	const top = (limit !== null && peak > limit / 4 ? Math.max(limit, peak) : peak * 1.25) || 1;
	const {lines, gaps} = pieces(points, from, to, top, gap);
	const second = others ? pieces(others, from, to, top, gap).lines : [];
	const last = all[all.length - 1]?.value ?? null;
	const under = pointed === null || !points.length ? null : points.reduce((best, one) => (Math.abs(one.time - (pointed ?? 0)) < Math.abs(best.time - (pointed ?? 0)) ? one : best));
	const line = limit !== null && limit <= top ? 80 - (limit / top) * 76 : null;
	const xOf = (time: number) => ((time - from) / (to - from || 1)) * 300;
	const timeAt = (event: PointerEvent) => {
		const box = (event.currentTarget as Element).getBoundingClientRect();
		return from + ((event.clientX - box.left) / (box.width || 1)) * (to - from);
	};
	const shownClock = to - from > 86400000 ? dayClock : clock;
	const near = under && marks.find((one) => Math.abs(xOf(one.time) - xOf(under.time)) < 3);
	return <figure aria-labelledby={id} data-last={last ?? ''} data-points={all.length} data-gaps={gaps} data-marks={marks.length}>
		<figcaption><span id={id}>{label}</span><b>{text(under ? under.value : last)}</b>
			{near ? <span class="dim">{near.kind}</span> : more ? <span class="dim">{more.label} {text(more.points[more.points.length - 1]?.value ?? null)}</span>
				: limit !== null && <span class="dim">{T.limit} {text(limit)}</span>}</figcaption>
		{table ? <div class="scroll" tabIndex={0} role="group" aria-label={label}><table><thead><tr><th scope="col">{T.time}</th><th scope="col" class="number">{T.value}</th></tr></thead>
			<tbody>{[...points].reverse().map((one) => <tr key={one.time}><td>{shownClock(one.time)}</td><td class="number">{text(one.value)}</td></tr>)}</tbody></table></div>
			: <div class="plotted"><span class="top" aria-hidden="true">{peak ? text(top) : ''}</span>
				<svg class="plot" viewBox="0 0 300 84" preserveAspectRatio="none" role="img" aria-label={`${label}: ${text(last)}`}
					onPointerDown={(event) => {
						drag.current = timeAt(event);
					}} onPointerMove={(event) => share({pointed: timeAt(event)})} onPointerUp={(event) => {
						const begin = drag.current, end = timeAt(event);
						drag.current = null;
						if (begin !== null && Math.abs(end - begin) > (to - from) * DRAG_PART)
							share({zoomed: [Math.min(begin, end), Math.max(begin, end)]});
					}} onDblClick={() => share({zoomed: null})} onPointerLeave={() => share({pointed: null})}>
					<line x1="0" x2="300" y1="80" y2="80" class="rule" />
					<line x1="0" x2="300" y1="42" y2="42" class="rule" />
					<line x1="0" x2="300" y1="4" y2="4" class="rule" />
					{line !== null && <line x1="0" x2="300" y1={line} y2={line} class="limit" />}
					{lines.map((one, i) => <polygon key={`a${i}`} points={`${edge(one, false)},80 ${one} ${edge(one, true)},80`} class="area" />)}
					{lines.map((one, i) => <polyline key={i} points={one} class="series" />)}
					{second.map((one, i) => <polyline key={`b${i}`} points={one} class="series other" />)}
					{marks.filter((one) => one.time >= from && one.time <= to).map((one, i) => <line key={`m${i}`} x1={xOf(one.time)} x2={xOf(one.time)} y1="0" y2="84" class={`mark ${/^[a-z]+$/.test(one.kind) ? one.kind : ''}`} />)}
					{under && <line x1={xOf(under.time)} x2={xOf(under.time)} y1="0" y2="84" class="cross" />}
				</svg></div>}
		<div class="foot"><span>{under ? shownClock(under.time) : to ? shownClock(from) : ''}</span>
			<span>{zoomed && <button type="button" class="quiet" onClick={() => share({zoomed: null})}>{T.wholeRange}</button>}
				<button type="button" class="quiet" aria-pressed={table} onClick={() => setTable(!table)}>{T.showTable}</button></span>
			<span>{to ? shownClock(to) : ''}</span></div>
	</figure>;
}

// ------------------------------------------------------------------------------------- history

interface History {
	from: string;
	stepMs: number;
	series: {metric: string; avg: (number | null)[]}[];
	marks: {time: string; kind: string}[];
}

const RANGES: Record<string, number> = {live: 600000, hour: 3600000, day: 86400000, week: 604800000};

export const rangeNow = (): string => {
	const asked = new URLSearchParams(location.search).get('range') ?? '';
	return asked in RANGES ? asked : 'live';
};

export function Range() {
	return <Select label={T.range} options={[['live', T.live], ['hour', T.lastHour], ['day', T.lastDay], ['week', T.lastWeek]]} value={rangeNow()} pick={(next) => {
		share({zoomed: null});
		go(location.pathname + (next === 'live' ? '' : `?range=${next}`));
	}} />;
}

export interface Past {
	points: (metric: string, live: Point[]) => Point[];
	marks: Mark[];
	gap: number;
	width: number;
}

// What was before the page was opened, and the live values behind it, for the range of the address.
export function useHistory(scope: string | null, metrics: string[]): Past {
	const range = rangeNow(), ms = RANGES[range] ?? 600000;
	const metric = metrics.map((one) => `&metric=${one}`).join('');
	const [round, setRound] = useState(0);
	useEvents({kinds: ['sandbox'], ...(scope?.startsWith('sandbox:') ? {sandbox: scope.slice(8)} : {})}, () => setRound((old) => (scope?.startsWith('sandbox:') ? old + 1 : old)));
	const {value} = usePoll(async () => (scope ? await call<History>('GET',
		`/v1/metrics/history?scope=${encodeURIComponent(scope)}${metric}&from=${encodeURIComponent(new Date(now() - ms).toISOString())}`) : null), range === 'live' ? 60000 : 30000, `history ${scope} ${range} ${round}`);
	const kept = useRef<History | null>(null);
	kept.current = value ?? kept.current;
	const past = kept.current;
	const marks = useMemo(() => (past?.marks ?? []).map((one) => ({time: Date.parse(one.time), kind: one.kind})), [past]);
	return {
		gap: Math.max(GAP_MS, (past?.stepMs ?? 0) * 2.2), width: ms, marks,
		points: (name, live) => {
			const read = past?.series.find((one) => one.metric === name)?.avg ?? [], begin = Date.parse(past?.from ?? '');
			const first = live.find((one) => one.value !== null)?.time ?? Infinity;
			const old = read.map((one, i) => ({time: begin + (i + 0.5) * (past?.stepMs ?? 0), value: one})).filter((one) => one.time < first - 1000);
			while (old.length && old[old.length - 1]?.value === null)
				old.pop(); // not yet written
			while (old.length && old[0]?.value === null)
				old.shift(); // before the first
			return [...old, ...live];
		},
	};
}
