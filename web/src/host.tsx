// The host: its node, what the janitor does, whether records and kernel agree; and the audit log.
import type {ComponentChildren} from 'preact';
import {useState} from 'preact/hooks';
import {call, may} from './api';
import {Chart} from './chart';
import type {Point} from './chart';
import {absolute, bytes, cores, count, span} from './format';
import {isOperator} from './pages';
import {fieldText} from './sandbox';
import {T} from './text';
import type {AuditRow, Health, HostStats} from './types';
import {Ago, Do, Fault, Grid, Listed, Loading, Meter, State, Str, notify, usePoll, useTail} from './ui';


interface Node {
	id: string;
	name: string;
	status: string;
	version: string;
	uptimeMs: number;
	stats: HostStats;
}

interface Examined {
	ok: boolean;
	time: string;
	features: {feature: string; required: boolean; ok: boolean; found: string; without: string; fix: string | null}[];
	warnings: {message: string; fix: string}[];
	reasons: {code: string; hint: string}[];
}

interface Verified {
	ok: boolean;
	differences: {what: string; name: string; detail: string}[];
	counts: Record<string, number>;
}

interface Sweep {
	scanned: number;
	orphansTerminated: number;
	stuckTerminated: number;
	oldDeleted: number;
	failedAttempts: number;
	startedAt?: string;
	durationMs: number;
}

// The button, and below it what was found.
export function useDoctor(): {button: ComponentChildren; found: ComponentChildren} {
	const [examined, setExamined] = useState<Examined | null>(null);
	return {
		button: <Do label={T.runDoctor} scope="admin" work={async () => setExamined(await call<Examined>('GET', '/v1/doctor'))} />,
		found: examined && <div role="status" aria-label={T.doctor} class={examined.ok ? 'panel' : 'fault'}>
			<b>{examined.ok ? T.doctorOk : T.doctorNot}</b> <span class="dim">{absolute(examined.time)}</span>
			<Grid label={T.features} rows={examined.features} id={(one) => one.feature} columns={[
				{label: T.feature, cell: (one) => one.feature},
				{label: T.state, cell: (one) => <State of={one.ok ? 'ok' : one.required ? 'failed' : 'missing'} />},
				{label: T.found, cell: (one) => <Str of={one.found} max={100} />},
				{label: T.fix, minor: true, cell: (one) => (one.fix ? <span class="dim">{one.without}: {one.fix}</span> : '–')},
			]} />
			<ul>{[...examined.warnings, ...examined.reasons.map((one) => ({message: one.code, fix: one.hint}))].map((one) =>
				<li key={one.message}>{one.message} <span class="dim">{one.fix}</span></li>)}</ul>
		</div>,
	};
}

export function Nodes() {
	const {value, fault, again} = usePoll(async () => (await call<{items: Node[]}>('GET', '/v1/nodes')).items, 3000, 'nodes');
	const health = usePoll(() => call<Health>('GET', '/v1/health'), 10000, 'node health');
	const doctor = useDoctor();
	const host = value?.[0]?.stats;
	const cleanup = usePoll(() => call<{history: Sweep[]; running: boolean}>('GET', '/v1/cleanup'), 10000, 'cleanup');
	const history = usePoll(() => call<{stepMs: number; from: string; series: {metric: string; avg: (number | null)[]}[]}>('GET',
		`/v1/metrics/history?scope=host&metric=cpu&metric=memory&from=${encodeURIComponent(new Date(Date.now() - 3600000).toISOString())}`), 60000, 'history');
	const [verified, setVerified] = useState<Verified | null>(null);
	const points = (metric: string): Point[] => (history.value?.series.find((one) => one.metric === metric)?.avg ?? []).map((each, i) =>
		({time: Date.parse(history.value?.from ?? '') + i * (history.value?.stepMs ?? 0), value: each}));
	const memory = (host: HostStats) => (host.memory.totalBytes !== null && host.memory.availableBytes !== null ? 1 - host.memory.availableBytes / host.memory.totalBytes : null);
	const disk = (host: HostStats) => (host.disk.totalBytes !== null && host.disk.freeBytes !== null ? 1 - host.disk.freeBytes / host.disk.totalBytes : null);
	const gap = (history.value?.stepMs ?? 0) * 1.5;
	return <>
		<div class="head"><h1>{T.nodes}</h1><span class="push" />
			<Do label={T.cleanUp} scope="admin" work={async () => {
				const round = await call<Sweep>('POST', '/v1/cleanup');
				notify(T.cleaned(round.orphansTerminated + round.stuckTerminated + round.oldDeleted));
				cleanup.again();
			}} />
			{doctor.button}
			<Do label={T.verify} scope="admin" work={async () => setVerified(await call<Verified>('GET', '/v1/verify'))} /></div>
		{fault && <Fault of={fault} again={again} />}
		{!value && !fault && <Loading />}
		{value && <Grid label={T.nodes} rows={value} id={(one) => one.id} columns={[
			{label: T.name, cell: (one) => <b><Str of={one.name} max={64} /></b>},
			{label: T.state, cell: (one) => <State of={one.status} />},
			{label: T.cpu, cell: ({stats: host}) => <><span class="number">{cores(host.cpu.used)}<span class="dim"> / {cores(host.cpu.cores)}</span></span>
				<Meter label={T.hostCpu} part={host.cpu.used !== null && host.cpu.cores ? host.cpu.used / host.cpu.cores : null} /></>},
			{label: T.memory, cell: ({stats: host}) => <><span class="number">{memory(host) === null ? '–' : bytes((memory(host) ?? 0) * (host.memory.totalBytes ?? 0))}<span class="dim"> / {bytes(host.memory.totalBytes)}</span></span>
				<Meter label={T.hostMemory} part={memory(host)} /></>},
			{label: T.disk, cell: ({stats: host}) => <><span class="number">{disk(host) === null ? '–' : bytes((disk(host) ?? 0) * (host.disk.totalBytes ?? 0))}<span class="dim"> / {bytes(host.disk.totalBytes)}</span></span>
				<Meter label={T.hostDisk} part={disk(host)} /></>},
			{label: T.version, minor: true, cell: (one) => one.version},
			{label: T.uptime, number: true, minor: true, cell: (one) => span(one.uptimeMs)},
		]} />}
		{doctor.found}
		{verified && <div role="status" class={verified.ok ? 'panel' : 'fault'}><b>{verified.ok ? T.verifiedOk : T.verifiedNot}</b>
			<ul>{verified.differences.map((one, i) => <li key={i}><Str of={`${one.what} ${one.name}: ${one.detail}`} max={300} /></li>)}</ul>
			<p class="dim small">{Object.entries(verified.counts).map(([key, many]) => `${key} ${many}`).join(' · ')}</p></div>}
		{history.value && <div class="charts">
			<Chart label={T.cpuHour} points={points('cpu')} limit={host?.cpu.cores ?? null} text={cores} gap={gap} />
			<Chart label={T.memoryHour} points={points('memory')} limit={host?.memory.totalBytes ?? null} text={bytes} gap={gap} />
		</div>}
		{health.value?.host && <div class="panel"><h2>{T.facts}</h2><dl class="facts">
			{Object.entries(health.value.host).map(([key, one]) => <><dt key={key}><code>{key}</code></dt><dd class="number">{typeof one === 'number' ? (key.endsWith('Bytes') ? bytes(one) : count(one)) : String(one)}</dd></>)}
		</dl></div>}
		{cleanup.value && cleanup.value.history.length > 0 && <><h2>{T.cleanup}</h2><Grid label={T.cleanup} rows={cleanup.value.history.slice(0, 10)} id={(one) => one.startedAt ?? ''} columns={[
			{label: T.started, cell: (one) => <Ago of={one.startedAt} />},
			{label: T.scanned, number: true, cell: (one) => count(one.scanned)},
			{label: T.orphans, number: true, cell: (one) => count(one.orphansTerminated)},
			{label: T.stuck, number: true, cell: (one) => count(one.stuckTerminated)},
			{label: T.deleted, number: true, cell: (one) => count(one.oldDeleted)},
			{label: T.failedCount, number: true, cell: (one) => count(one.failedAttempts)},
			{label: T.duration, number: true, cell: (one) => `${one.durationMs} ms`},
		]} /></>}
	</>;
}

export function Audit() {
	const [filter, setFilter] = useState('');
	const [checked, setChecked] = useState('');
	const list = useTail<AuditRow>('/v1/audit?', 3000, 'audit');
	const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
	const good = (one: AuditRow) => words.every((word) => `${one.who} ${one.action} ${one.target} ${one.outcome} ${one.tenant} ${fieldText(one.fields)}`.toLowerCase().includes(word));
	return <>
		<div class="head"><h1>{T.audit}</h1><span role="status" aria-label={T.chain} class="note">{checked}</span><span class="push" />
			{isOperator() && <Do label={T.checkChain} scope="admin" work={async () => {
				const answer = await call<{ok: boolean; rows: number; firstBad: number | null}>('GET', '/v1/audit/check');
				setChecked(answer.ok ? T.chainGood(count(answer.rows)) : T.chainBad(String(answer.firstBad)));
			}} />}</div>
		<input type="search" class="filter" aria-label={T.filterAudit} placeholder={T.filterHint} value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
		<Listed of={list} empty={T.noAudit}>{(rows) => <Grid label={T.audit} rows={rows.filter(good).slice(0, 200)} id={(one) => String(one.id)} columns={[
			{label: T.action, cell: (one) => <code><Str of={one.action} max={80} /></code>},
			{label: T.who, cell: (one) => <Str of={one.who} max={40} />},
			{label: T.target, cell: (one) => <code class="dim"><Str of={one.target || '–'} max={28} /></code>},
			{label: T.outcome, cell: (one) => <State of={one.outcome} />},
			{label: T.details, minor: true, cell: (one) => <code class="dim"><Str of={fieldText(Object.fromEntries(Object.entries(one.fields).filter(([key]) => ['via', 'peer', 'status', 'reason'].includes(key))))} max={120} /></code>},
			{label: T.age, number: true, cell: (one) => <Ago of={one.time} />},
		]} />}</Listed>
		{!may('admin') && <p class="dim">{T.noScope('admin')}</p>}
	</>;
}
