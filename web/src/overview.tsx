// The host at a glance.
import {useEffect, useState} from 'preact/hooks';
import {call, currentSession} from './api';
import {Chart, Range, keepPoint, useHistory} from './chart';
import type {Point} from './chart';
import {bytes, cores, count} from './format';
import {isOperator} from './pages';
import {fieldText} from './sandbox';
import {nameOf} from './sandboxes';
import {useFresh, useHost, useSandboxes} from './live';
import {T} from './text';
import type {Alert, Happening, Health, Page, Row, Work} from './types';
import {Ago, Fault, Link, Loading, State, Str, useTail} from './ui';

interface Seen {
	health: Health;
	alerts: Alert[];
	failed: Work[];
}

async function look(): Promise<Seen> {
	const [health, alerts, failed] = await Promise.all([
		call<Health>('GET', '/v1/health'),
		isOperator() ? call<{items: Alert[]}>('GET', '/v1/alerts?state=firing') : {items: []},
		call<Page<Work>>('GET', '/v1/executions?state=failed&limit=5'),
	]);
	return {health, alerts: alerts.items, failed: failed.items};
}

const FIELDS = ['name', 'shortId', 'cpu', 'memory']; // of rows

function Tile({label, value, to, alarm}: {label: string; value: string; to: string; alarm?: boolean}) {
	return <Link to={to} class={alarm ? 'tile alarm' : 'tile'}><span>{label}</span><b>{value}</b></Link>;
}

function Top({title, rows, text}: {title: string; rows: Row[]; text: (row: Row) => string}) {
	return <section class="panel"><h2>{title}</h2>
		{rows.length ? <ul class="plain">{rows.map((one) => <li key={one.id}><Link to={`/ui/sandboxes/${one.id}`}><Str of={nameOf(one)} max={40} /></Link><span class="number">{text(one)}</span></li>)}</ul>
			: <p class="dim">{T.nothingNow}</p>}
	</section>;
}

export function Overview() {
	const {value, fault, again} = useFresh(look, {kinds: ['alert', 'execution'], everyMs: 15000}, 'overview');
	const {value: host, fault: lost} = useHost(2000);
	const {rows, ready} = useSandboxes(FIELDS);
	const events = useTail<Happening>('/v1/events?', 3000, 'all events');
	const tenant = currentSession()?.who.tenant;
	const past = useHistory(tenant ? `tenant:${tenant}` : 'host', ['cpu', 'memory', 'sandboxes', 'createP95']);
	const [points, setPoints] = useState<Record<'cpu' | 'boxes' | 'memory' | 'count' | 'create', Point[]>>({cpu: [], boxes: [], memory: [], count: [], create: []});
	useEffect(() => {
		if (!host)
			return;
		const time = Date.parse(host.time);
		setPoints((old) => ({
			cpu: keepPoint(old.cpu, {time, value: host.cpu.used ?? host.cpu.sandboxes}),
			boxes: keepPoint(old.boxes, {time, value: host.cpu.sandboxes}),
			memory: keepPoint(old.memory, {time, value: host.memory.sandboxesBytes}),
			count: keepPoint(old.count, {time, value: (host.sandboxes['running'] ?? 0) + (host.sandboxes['frozen'] ?? 0) + (host.sandboxes['paused'] ?? 0)}),
			create: keepPoint(old.create, {time, value: host.latency.create.p95Ms}),
		}));
	}, [host]);
	const problem = fault ?? lost;
	if (!value || !host)
		return <><h1>{T.overview}</h1>{problem ? <Fault of={problem} again={again} /> : <Loading />}</>;
	const {health, alerts, failed} = value;
	const states = host.sandboxes;
	const top = (key: 'cpu' | 'memory', least: number) => rows.filter((one) => (one[key] ?? 0) > least).sort((a, b) => (b[key] ?? 0) - (a[key] ?? 0)).slice(0, 5);
	const some = (...names: string[]) => names.reduce((sum, name) => sum + (states[name] ?? 0), 0);
	const ms = (one: number | null) => (one === null ? '–' : `${one.toFixed(0)} ms`);
	return <>
		<div class="head"><h1>{T.overview}</h1><span class="push" /><Range /></div>
		{fault && <Fault of={fault} again={again} />}
		{(health.status !== 'ok' || alerts.length > 0) && <div role="status" class="fault">
			<b>{T.health}: <Str of={health.status} /></b>
			<ul>{(health.reasons ?? []).map((one) => <li key={one.code}><Str of={one.code} />{one.hint && <span class="dim"> <Str of={one.hint} max={300} /></span>}</li>)}
				{alerts.map((one) => <li key={one.id}><Link to={`/ui/alerts/${encodeURIComponent(one.id)}`}><Str of={one.summary} max={200} /></Link></li>)}</ul>
		</div>}
		<div class="tiles">
			<Tile label={T.running} value={count(some('running'))} to="/ui/sandboxes?q=state:running" />
			<Tile label={T.frozen} value={count(some('frozen', 'paused'))} to="/ui/sandboxes?q=state:frozen,paused" />
			<Tile label={T.stoppedCount} value={count(some('stopped', 'archived'))} to="/ui/sandboxes?q=state:stopped,archived" />
			<Tile label={T.failedCount} value={count(some('failed'))} to="/ui/sandboxes?q=state:failed" alarm={some('failed') > 0} />
			<Tile label={T.executions} value={count(host.executions.running)} to="/ui/executions" />
			<Tile label={T.queued} value={count(host.executions.queued)} to="/ui/executions?state=queued" />
		</div>
		<div class="charts">
			<Chart label={T.cpu} points={past.points('cpu', points.boxes)} limit={host.cpu.cores} text={cores} {...(tenant ? {} : {more: {label: T.host, points: points.cpu}})} gap={past.gap} width={past.width} />
			<Chart label={T.memory} points={past.points('memory', points.memory)} limit={host.memory.totalBytes} text={bytes} gap={past.gap} width={past.width} />
			<Chart label={T.sandboxes} points={past.points('sandboxes', points.count)} limit={null} text={(one) => (one === null ? '–' : count(Math.round(one)))} gap={past.gap} width={past.width} />
			<Chart label={T.createP95} points={past.points('createP95', points.create)} limit={null} text={ms} gap={past.gap} width={past.width} />
		</div>
		{ready && rows.length === 0 && <section class="panel"><h2>{T.firstRun}</h2>
			<pre>cove run --rm -- echo hello{'\n'}cove create --name web{'\n'}cove exec web -- uname -a</pre>
		</section>}
		<div class="columns">
			<Top title={T.topCpu} rows={top('cpu', 0.005)} text={(one) => cores(one.cpu)} />
			<Top title={T.topMemory} rows={top('memory', 0)} text={(one) => bytes(one.memory)} />
			<section class="panel"><h2>{T.lastFailures}</h2>
				{failed.length ? <ul class="plain">{failed.map((one) => <li key={one.id}><Link to={`/ui/executions/${one.id}`}><Str of={one.taskId ?? one.id} max={40} /></Link>
					<span class="dim"><Str of={one.outcome} max={40} /></span><Ago of={one.endedAt ?? one.createdAt} /></li>)}</ul> : <p class="dim">{T.nothingFailed}</p>}
			</section>
		</div>
		<section class="panel"><div class="head"><h2>{T.latestEvents}</h2><State of={health.status} />{host.disk.totalBytes !== null && host.disk.freeBytes !== null &&
			<span class="dim small">{T.hostDisk}: {T.ofTotal(bytes(host.disk.totalBytes - host.disk.freeBytes), bytes(host.disk.totalBytes))}</span>}</div>
			{events.value?.length ? <ul class="plain">{events.value.slice(0, 8).map((one) => <li key={one.id}><span><Str of={one.kind} max={40} /></span>
				<code class="dim grow"><Str of={fieldText(one.fields)} max={100} /></code>
				{one.sandbox && <Link to={`/ui/sandboxes/${one.sandbox}`}><Str of={one.sandbox.replace(/^box-/, '').slice(0, 12)} /></Link>}<Ago of={one.time} /></li>)}</ul> : <p class="dim">{T.noEvents}</p>}
		</section>
	</>;
}
