// One sandbox: its facts and charts, its terminal, processes and events.
import {useEffect, useRef, useState} from 'preact/hooks';
import {Failure, call, may} from './api';
import {bytes, cores, count, labelText, shown} from './format';
import {nameOf, step, stepsOf} from './sandboxes';
import {T} from './text';
import type {Box, Happenings, Process, Stats} from './types';
import {Ago, Chart, DeleteDialog, Do, Empty, Fault, Link, Loading, Str, go, keepPoint, usePoll} from './ui';
import type {Point} from './ui';

const TABS: [string, string][] = [['overview', T.overview], ['terminal', T.terminal], ['processes', T.processes], ['events', T.events]];

interface Seen {
	box: Box;
	stats: Stats | null;
}

function Facts({seen, points}: {seen: Seen; points: {cpu: Point[]; memory: Point[]}}) {
	const {box, stats} = seen;
	return <>
		<div class="charts">
			<Chart label={T.cpu} points={points.cpu} limit={stats?.cpu.limitCores ?? null} text={cores} />
			<Chart label={T.memory} points={points.memory} limit={stats?.memory.limitBytes ?? null} text={bytes} />
		</div>
		<h2>{T.facts}</h2>
		<dl class="facts">
			<dt>{T.id}</dt><dd><code class="long"><Str of={box.id} /></code></dd>
			{box.tenant && <><dt>{T.tenant}</dt><dd><Str of={box.tenant} /></dd></>}
			<dt>{T.template}</dt><dd><Str of={box.template} /></dd>
			<dt>{T.labels}</dt><dd><Str of={labelText(box.labels) || '–'} max={400} /></dd>
			<dt>{T.created}</dt><dd><Ago of={box.createdAt} /></dd>
			{box.reason && <><dt>{T.reason}</dt><dd><Str of={box.reason} max={400} /></dd></>}
			<dt>{T.processes}</dt><dd>{count(stats?.pids.count)}</dd>
			<dt>{T.disk}</dt><dd>{bytes(stats?.disk.bytes)}</dd>
			<dt>{T.network}</dt><dd>↓ {bytes(stats?.network.bytesIn)} ↑ {bytes(stats?.network.bytesOut)}</dd>
		</dl>
	</>;
}

function Processes({id}: {id: string}) {
	const {value, fault, again} = usePoll(() => call<{processes: Process[]}>('GET', `/v1/sandboxes/${id}/api/process/list`), 2000, 'ps' + id);
	if (!value)
		return fault ? <Fault of={fault} again={again} /> : <Loading />;
	if (!value.processes.length)
		return <Empty what={T.noProcesses} command="cove exec -d NAME -- COMMAND" />;
	return <table role="grid" aria-label={T.processes} class="cards">
		<thead><tr><th scope="col">{T.pid}</th><th scope="col">{T.name}</th><th scope="col">{T.status}</th><th scope="col">{T.age}</th></tr></thead>
		<tbody>{value.processes.map((one) => <tr key={one.id}>
			<td data-label={T.pid} class="number">{one.pid || '–'}</td>
			<td><code><Str of={one.command} max={160} /></code></td>
			<td data-label={T.status}><Str of={one.status} />{one.exitCode !== undefined && ` (${one.exitCode})`}</td>
			<td data-label={T.age}><Ago of={one.startTime} /></td>
		</tr>)}</tbody>
	</table>;
}

function Events({id}: {id: string}) {
	const {value, fault, again} = usePoll(async () => {
		const page = await call<Happenings>('GET', `/v1/events?sandbox=${id}&limit=200`);
		return page.items.reverse();
	}, 3000, 'events' + id);
	if (!value)
		return fault ? <Fault of={fault} again={again} /> : <Loading />;
	if (!value.length)
		return <p class="empty">{T.noEvents}</p>;
	return <table role="grid" aria-label={T.events} class="cards">
		<thead><tr><th scope="col">{T.age}</th><th scope="col">{T.kind}</th><th scope="col">{T.details}</th></tr></thead>
		<tbody>{value.map((one) => <tr key={one.id}>
			<td data-label={T.age}><Ago of={one.time} /></td>
			<td><Str of={one.kind} /></td>
			<td><code><Str of={JSON.stringify(one.fields)} max={240} /></code></td>
		</tr>)}</tbody>
	</table>;
}

type Status = 'connecting' | 'connected' | 'reconnecting' | 'ended';

function Terminal({id}: {id: string}) {
	const at = useRef<HTMLDivElement>(null);
	const [status, setStatus] = useState<Status>('connecting');
	const [round, setRound] = useState(0);
	useEffect(() => {
		let over = false;
		let close = () => undefined as void;
		setStatus('connecting');
		void import('./terminal').then(({openTerminal}) => {
			if (!over && at.current)
				close = openTerminal(at.current, id, setStatus);
		}).catch(() => setStatus('ended'));
		return () => {
			over = true;
			close();
		};
	}, [id, round]);
	return <>
		<div ref={at} data-testid="terminal" data-status={status} class="pane" />
		{status === 'ended' && <p class="row">{T.ended} <button type="button" onClick={() => setRound(round + 1)}>{T.restart}</button></p>}
		{status === 'reconnecting' && <p role="status">{T.reconnecting}</p>}
	</>;
}

export function Sandbox({id, tab}: {id: string; tab: string}) {
	const {value, fault, again} = usePoll<Seen>(async () => {
		const box = await call<Box>('GET', `/v1/sandboxes/${encodeURIComponent(id)}`);
		const stats = await call<Stats>('GET', `/v1/sandboxes/${box.id}/stats`).catch((problem: unknown) => {
			if (problem instanceof Failure && problem.status >= 400)
				return null;
			throw problem;
		});
		return {box, stats};
	}, 1500, id);
	const [points, setPoints] = useState<{cpu: Point[]; memory: Point[]}>({cpu: [], memory: []});
	const [deleting, setDeleting] = useState(false);
	useEffect(() => {
		const stats = value?.stats;
		if (!stats)
			return;
		const time = Date.parse(stats.time);
		setPoints((old) => ({
			cpu: keepPoint(old.cpu, {time, value: stats.cpu.cores}),
			memory: keepPoint(old.memory, {time, value: stats.memory.workingSetBytes}),
		}));
	}, [value]);
	if (!value && fault?.status === 404)
		return <><h1>{T.sandbox}</h1><p class="empty">{T.gone}</p><Link to="/ui/sandboxes">{T.backToSandboxes}</Link></>;
	if (!value)
		return <><h1><Str of={id} max={20} /></h1>{fault ? <Fault of={fault} again={again} /> : <Loading />}</>;
	const {box} = value;
	const move = (event: KeyboardEvent) => {
		const here = TABS.findIndex(([key]) => key === tab);
		const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? TABS.length - 1 : 0;
		const next = TABS[(here + by) % TABS.length];
		if (!by || !next)
			return;
		event.preventDefault();
		go(`/ui/sandboxes/${box.id}/${next[0]}`);
		const list = event.currentTarget as HTMLElement;
		requestAnimationFrame(() => list.querySelector<HTMLElement>('[aria-selected=true]')?.focus());
	};
	return <>
		<div class="head">
			<h1><Str of={nameOf(box)} max={63} /></h1>
			<span data-testid="state" class={`state ${/^[a-z]+$/.test(box.state) ? box.state : ''}`}><Str of={box.state} /></span>
			{stepsOf(box.state).map(([verb, label]) => <Do key={verb} label={label} scope="make" work={() => step(box, verb, label, again)} />)}
			<Do label={T.del} scope="make" work={async () => setDeleting(true)} />
		</div>
		{fault && <Fault of={fault} again={again} />}
		<div role="tablist" aria-label={T.sandbox} onKeyDown={move}>
			{TABS.map(([key, label]) => <Link key={key} role="tab" to={`/ui/sandboxes/${box.id}/${key}`} aria-selected={tab === key}
				tabIndex={tab === key ? 0 : -1}>{label}</Link>)}
		</div>
		<div role="tabpanel" aria-label={TABS.find(([key]) => key === tab)?.[1] ?? T.overview}>
			{tab === 'terminal' ? (!may('use') ? <p class="empty">{T.noScope('use')}</p>
				: ['running', 'frozen', 'paused'].includes(box.state) ? <Terminal id={box.id} /> : <p class="empty">{T.notRunning}</p>)
				: tab === 'processes' ? (['running', 'frozen'].includes(box.state) ? <Processes id={box.id} /> : <p class="empty">{T.notRunning}</p>)
					: tab === 'events' ? <Events id={box.id} /> : <Facts seen={value} points={points} />}
		</div>
		{deleting && <DeleteDialog path={`/v1/sandboxes/${box.id}`} name={shown(nameOf(box)) === nameOf(box) ? nameOf(box) : box.shortId}
			close={() => setDeleting(false)} done={() => go('/ui/sandboxes')} />}
	</>;
}
