// The host at a glance.
import {useEffect, useState} from 'preact/hooks';
import {call} from './api';
import {bytes, cores, count} from './format';
import {T} from './text';
import type {Health, HostStats, Page, Row} from './types';
import {Chart, Fault, Link, Loading, Str, keepPoint, usePoll} from './ui';
import type {Point} from './ui';

interface Seen {
	host: HostStats;
	health: Health;
	rows: Row[];
}

async function look(): Promise<Seen> {
	const [host, health, page] = await Promise.all([
		call<HostStats>('GET', '/v1/stats'),
		call<Health>('GET', '/v1/health'),
		call<Page<Row>>('GET', '/v1/sandboxes?view=summary&limit=1000'),
	]);
	return {host, health, rows: page.items};
}

function Tile({label, value, to}: {label: string; value: string; to: string}) {
	return <Link to={to} class="tile"><span>{label}</span><b>{value}</b></Link>;
}

export function Overview() {
	const {value, fault, again} = usePoll(look, 2000, 'overview');
	const [cpu, setCpu] = useState<Point[]>([]);
	const [memory, setMemory] = useState<Point[]>([]);
	useEffect(() => {
		if (!value)
			return;
		const {host} = value, time = Date.parse(host.time);
		const used = host.memory.totalBytes !== null && host.memory.availableBytes !== null ? host.memory.totalBytes - host.memory.availableBytes : null;
		setCpu((old) => keepPoint(old, {time, value: host.cpu.used ?? host.cpu.sandboxes}));
		setMemory((old) => keepPoint(old, {time, value: used ?? host.memory.sandboxesBytes}));
	}, [value]);
	if (!value)
		return <><h1>{T.overview}</h1>{fault ? <Fault of={fault} again={again} /> : <Loading />}</>;
	const {host, health, rows} = value;
	const states = host.sandboxes;
	const busy = rows.filter((one) => (one.cpu ?? 0) > 0.005).sort((a, b) => (b.cpu ?? 0) - (a.cpu ?? 0)).slice(0, 5);
	return <>
		<h1>{T.overview}</h1>
		{health.status !== 'ok' && <div role="status" class="fault">
			<b>{T.health}: <Str of={health.status} /></b>
			<ul>{(health.reasons ?? []).map((one) => <li key={one.code}><Str of={one.code} />{one.hint && <>: <Str of={one.hint} max={300} /></>}</li>)}</ul>
		</div>}
		<div class="tiles">
			<Tile label={T.running} value={count(states['running'])} to="/ui/sandboxes?q=state:running" />
			<Tile label={T.frozen} value={count((states['frozen'] ?? 0) + (states['paused'] ?? 0))} to="/ui/sandboxes?q=state:frozen,paused" />
			<Tile label={T.stoppedCount} value={count(states['stopped'])} to="/ui/sandboxes?q=state:stopped" />
			<Tile label={T.failedCount} value={count(states['failed'])} to="/ui/sandboxes?q=state:failed" />
			<Tile label={T.executions} value={count(host.executions.running)} to="/ui/executions" />
			<Tile label={T.queued} value={count(host.executions.queued)} to="/ui/executions" />
		</div>
		<div class="charts">
			<Chart label={T.hostCpu} points={cpu} limit={host.cpu.cores} text={cores} />
			<Chart label={T.hostMemory} points={memory} limit={host.memory.totalBytes} text={bytes} />
		</div>
		<dl class="facts">
			<dt>{T.hostDisk}</dt>
			<dd>{host.disk.totalBytes !== null && host.disk.freeBytes !== null
				? T.ofTotal(bytes(host.disk.totalBytes - host.disk.freeBytes), bytes(host.disk.totalBytes)) : '–'}</dd>
			<dt>{T.createP95}</dt>
			<dd>{host.latency.create.p95Ms === null ? '–' : `${host.latency.create.p95Ms.toFixed(0)} ms`}</dd>
		</dl>
		{busy.length > 0 && <section><h2>{T.topCpu}</h2>
			<ul class="plain">{busy.map((one) => <li key={one.id}><Link to={`/ui/sandboxes/${one.id}`}><Str of={one.name ?? one.shortId} /></Link> {cores(one.cpu)}</li>)}</ul>
		</section>}
		{rows.length === 0 && <section><h2>{T.firstRun}</h2>
			<pre>cove run --rm -- echo hello{'\n'}cove create --name web{'\n'}cove exec web -- uname -a</pre>
		</section>}
	</>;
}
