// One sandbox: its charts and facts, and a tab for each thing that can be done in it.
import type {ComponentChildren} from 'preact';
import {useEffect, useRef, useState} from 'preact/hooks';
import {Failure, bytesOf, call, may} from './api';
import {Chart, Range, keepPoint, useHistory} from './chart';
import type {Point} from './chart';
import {Code} from './box_code';
import {Files} from './box_files';
import {Network, Ports} from './box_network';
import {BoxSettings, Limits} from './box_settings';
import {cliOf, createLike, curlOf} from './copy';
import {absolute, bytes, cores, count, labelText, percent, plainLog, shown} from './format';
import {useFresh, useStats} from './live';
import {Terminal} from './pane';
import {Player} from './player';
import {reading, treeOf} from './processes';
import type {Reading} from './processes';
import {nameOf, step, stepsOf} from './sandboxes';
import {T} from './text';
import type {Box, Happening, Process, Ps, Stats} from './types';
import {Ago, DeleteDialog, Do, Empty, Fault, FormDialog, Grid, Link, Listed, Loading, Menu, State, Str, attempt, copyText, go, usePoll, useTail} from './ui';

const TABS: [string, string][] = [['overview', T.overview], ['terminal', T.terminal], ['processes', T.processes], ['files', T.files], ['network', T.network],
	['ports', T.ports], ['code', T.code], ['events', T.events], ['settings', T.settings]];

interface Seen {
	box: Box;
	stats: Stats | null;
}

type Series = Record<'cpu' | 'memory' | 'disk' | 'in' | 'out', Point[]>;

const rate = (value: number | null): string => (value === null ? '–' : `${bytes(value)}/s`);

function Facts({seen, points}: {seen: Seen; points: Series}) {
	const {box, stats} = seen;
	const events = usePoll(async () => (await call<{items: Process[]} & {processes: Process[]}>('GET', `/v1/sandboxes/${box.id}/api/process/list`)).processes,
		['running', 'frozen'].includes(box.state) && may('use') ? 5000 : 3600000, 'last' + box.id + box.state);
	const past = useHistory(`sandbox:${box.id}`, ['cpu', 'memory', 'disk', 'netIn', 'netOut']);
	const more = {gap: past.gap, width: past.width, marks: past.marks};
	return <>
		<div class="head"><span class="push" /><Range /></div>
		<div class="charts">
			<Chart label={T.cpu} points={past.points('cpu', points.cpu)} limit={stats?.cpu.limitCores ?? null} text={cores} {...more} />
			<Chart label={T.memory} points={past.points('memory', points.memory)} limit={stats?.memory.limitBytes ?? null} text={bytes} {...more} />
			<Chart label={T.network} points={past.points('netIn', points.in)} limit={null} text={rate} more={{label: T.sent, points: past.points('netOut', points.out)}} {...more} />
			<Chart label={T.disk} points={past.points('disk', points.disk)} limit={stats?.disk.limitBytes ?? null} text={bytes} {...more} />
		</div>
		<div class="columns">
			<div class="panel"><h2>{T.facts}</h2><dl class="facts">
				<dt>{T.id}</dt><dd><code class="long"><Str of={box.id} /></code></dd>
				{box.tenant && <><dt>{T.tenant}</dt><dd><Str of={box.tenant} /></dd></>}
				<dt>{box.image ? T.image : T.template}</dt><dd><Str of={box.image ?? box.template} /></dd>
				<dt>{T.labels}</dt><dd><Str of={labelText(box.labels) || '–'} max={400} /></dd>
				<dt>{T.user}</dt><dd><Str of={box.user} /> <span class="dim"><Str of={box.workdir} /></span></dd>
				<dt>{T.created}</dt><dd><Ago of={box.createdAt} /></dd>
				<dt>{T.idle}</dt><dd>{box.keepAlive || !box.sleepAfter ? T.neverSleeps : T.idleLadder(box.sleepAfter)}</dd>
				{box.archiveBytes !== undefined && <><dt>{T.archive}</dt><dd class="number">{bytes(box.archiveBytes)}</dd></>}
				{box.endsAt && <><dt>{T.ends}</dt><dd>{absolute(box.endsAt)}</dd></>}
				{box.reason && <><dt>{T.reason}</dt><dd><Str of={box.reason} max={400} /></dd></>}
				<dt>{T.processes}</dt><dd>{count(stats?.pids.count)}{stats?.pids.limit ? <span class="dim"> / {count(stats.pids.limit)}</span> : null}</dd>
				<dt>{T.network}</dt><dd>↓ {bytes(stats?.network.bytesIn)} ↑ {bytes(stats?.network.bytesOut)}
					{stats?.network.denied ? <> · <Link to={`/ui/sandboxes/${box.id}/network`}>{count(stats.network.denied)} {T.denied.toLowerCase()}</Link></> : null}</dd>
			</dl></div>
			<div class="panel"><h2>{T.limits}</h2><Limits box={box} /></div>
		</div>
		{events.value && events.value.length > 0 && <div class="panel"><h2>{T.lastCommands}</h2><ul class="plain">{[...events.value].reverse().slice(0, 5).map((one) =>
			<li key={one.id}><code class="long"><Str of={one.command} max={120} /></code><State of={one.status} /></li>)}</ul></div>}
	</>;
}

function Output({id, process}: {id: string; process: string}) {
	const {value, fault, again} = usePoll(() => bytesOf(`/v1/sandboxes/${id}/api/process/${process}/tape`), 1500, process);
	if (!value)
		return fault ? <Fault of={fault} again={again} /> : <Loading />;
	const text = plainLog(new TextDecoder().decode(value.slice(-200000)));
	return <pre class="log" role="log" tabIndex={0} aria-label={T.output}>{text ? <bdi>{text}</bdi> : T.outputEmpty}</pre>;
}

interface Shown {
	id: string;
	command: string;
	status: string;
	pid: number;
	attached: number;
	outputBytes: number;
	startedAt: string;
}

function absent(fault: unknown): null {
	if (fault instanceof Failure && (fault.status === 409 || fault.status === 501))
		return null;
	throw fault;
}

function Processes({box}: {box: Box}) {
	const base = `/v1/sandboxes/${box.id}/api`;
	const last = useRef<Reading | null>(null);
	// A sandbox of an older cove, or one that does not run, has no tree: then what the API started.
	const list = usePoll(async () => {
		const [{processes}, tree] = await Promise.all([call<{processes: Process[]}>('GET', `${base}/process/list`),
			box.state === 'running' ? call<{items: Ps[]}>('GET', `/v1/sandboxes/${box.id}/ps`).catch(absent) : null]);
		const time = performance.now(), rows = treeOf(tree?.items ?? null, processes, last.current, time);
		last.current = tree && reading(tree.items, time);
		return rows;
	}, 2000, 'ps' + box.id + box.state);
	const terminals = usePoll(async () => (await call<{terminals: Shown[]}>('GET', `${base}/terminals`)).terminals, 3000, 'tty' + box.id);
	const [open, setOpen] = useState<string | null>(null);
	const [playing, setPlaying] = useState(new URLSearchParams(location.search).get('play')); // api/terminals/ID or api/process/ID
	const play = (of: string) => <button type="button" class="quiet" aria-pressed={playing === of} onClick={() => setPlaying(playing === of ? null : of)}>{T.play}</button>;
	const [starting, setStarting] = useState(false);
	const start = <Do label={T.startProcess} scope="use" primary work={async () => setStarting(true)} />;
	return <>
		{list.value && list.value.length > 0 && <div class="head"><span class="grow" />{start}</div>}
		<Listed of={list} empty={T.noProcesses} command="cove exec -d NAME -- COMMAND" add={start}>{(rows) => <Grid label={T.processes} rows={rows} id={(one) => one.key} columns={[
			{label: T.command_, cell: (one) => <code class={one.depth ? `deep deep-${Math.min(one.depth, 6)}` : undefined}><Str of={one.command} max={160} /></code>},
			{label: T.pid, number: true, minor: true, cell: (one) => one.pid || '–'},
			{label: T.user, minor: true, cell: (one) => <Str of={one.user} max={32} />},
			{label: T.status, cell: (one) => <><State of={one.status} />{one.exitCode !== undefined && <span class="dim"> {one.exitCode}</span>}</>},
			{label: T.cpu, number: true, cell: (one) => (one.percent === null ? '–' : percent(one.percent / 100))},
			{label: T.memory, number: true, cell: (one) => bytes(one.rssBytes)},
			{label: T.age, number: true, cell: (one) => <Ago of={one.startedAt} />},
		]} acts={({started, ps, command, status}) => <>
			{started && <button type="button" class="quiet" aria-expanded={open === started.id} onClick={() => setOpen(open === started.id ? null : started.id)}>{open === started.id ? T.hideOutput : T.showOutput}</button>}
			{started && play(`process/${started.id}`)}
			{(started ? ['running', 'starting'].includes(started.status) : ps !== null && ps.pid !== 1 && status !== 'zombie') &&
				<Do quiet label={T.endProcess} name={T.endNamed(shown(command, 40))} scope="use" work={async () => {
					await (started ? call('DELETE', `${base}/process/${started.id}`)
						: call('POST', `/v1/sandboxes/${box.id}/ps/${ps?.pid}/signal`, {signal: 'TERM', startedAt: ps?.startedAt}));
					list.again();
				}} />}
		</>} />}</Listed>
		{open && <Output id={box.id} process={open} />}
		{terminals.value && terminals.value.length > 0 && <><h2>{T.terminals}</h2>
			<Grid label={T.terminals} rows={terminals.value} id={(one) => one.id} columns={[
				{label: T.command_, cell: (one) => <code><Str of={one.command} max={160} /></code>},
				{label: T.pid, number: true, minor: true, cell: (one) => one.pid || '–'},
				{label: T.status, cell: (one) => <State of={one.status} />},
				{label: T.output, number: true, cell: (one) => bytes(one.outputBytes)},
				{label: T.age, number: true, cell: (one) => <Ago of={one.startedAt} />},
			]} acts={(one) => <>{play(`terminals/${one.id}`)}<Do quiet label={T.endProcess} name={T.endNamed(shown(one.id, 40))} scope="use" work={async () => {
				await call('DELETE', `${base}/terminals/${encodeURIComponent(one.id)}`);
				terminals.again();
			}} /></>} /></>}
		{playing && /^(terminals|process)\/[\w.-]+$/.test(playing) && <Player key={playing} path={`${base}/${playing}/cast`} link={`/ui/sandboxes/${box.id}/processes?play=${encodeURIComponent(playing)}`} />}
		{starting && <FormDialog title={T.startProcess} verb={T.start} close={() => setStarting(false)} done={list.again}
			inputs={[{name: 'command', label: T.command_, required: true, wide: true, placeholder: 'python3 -m http.server 8000'}]}
			act={({command}) => ({method: 'POST', path: `${base}/process/start`, body: {command}, cli: ['exec', '-d', nameOf(box), '--', 'bash', '-c', command ?? '']})} />}
	</>;
}

// The fields of an event as words.
export function fieldText(fields: Record<string, unknown>): string {
	return Object.entries(fields).map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`).join('  ');
}

function Events({id}: {id: string}) {
	const list = useTail<Happening>(`/v1/events?sandbox=${id}&`, 2000, 'events' + id);
	return <Listed of={list} empty={T.noEvents}>{(rows) => <Grid label={T.events} rows={rows} id={(one) => String(one.id)} columns={[
		{label: T.kind, cell: (one) => <Str of={one.kind} />},
		{label: T.details, cell: (one) => <code class="dim"><Str of={fieldText(one.fields)} max={240} /></code>},
		{label: T.age, number: true, cell: (one) => <Ago of={one.time} />},
	]} />}</Listed>;
}

export function Sandbox({id, tab}: {id: string; tab: string}) {
	const [known, setKnown] = useState<string | null>(null);
	const {value: box, fault, again} = useFresh(() => call<Box>('GET', `/v1/sandboxes/${encodeURIComponent(id)}`),
		{kinds: ['sandbox', 'snapshot'], everyMs: 15000, ...(known ? {sandbox: known} : {})}, id);
	useEffect(() => setKnown(box?.id ?? null), [box?.id]);
	const stats = useStats(box?.id ?? null, 1000);
	const [points, setPoints] = useState<Series>({cpu: [], memory: [], disk: [], in: [], out: []});
	const counted = useRef<{time: number; in: number; out: number} | null>(null);
	const [deleting, setDeleting] = useState(false);
	useEffect(() => {
		if (!stats)
			return;
		const time = Date.parse(stats.time), {bytesIn, bytesOut} = stats.network;
		const old = counted.current;
		const each = (now: number | null, before: number | undefined) =>
			(now === null || before === undefined || !old || time <= old.time || now < before ? null : (now - before) / ((time - old.time) / 1000));
		const flow = {in: each(bytesIn, old?.in), out: each(bytesOut, old?.out)};
		if (bytesIn !== null && bytesOut !== null && (!old || time > old.time))
			counted.current = {time, in: bytesIn, out: bytesOut};
		setPoints((was) => ({
			cpu: keepPoint(was.cpu, {time, value: stats.cpu.cores}),
			memory: keepPoint(was.memory, {time, value: stats.memory.workingSetBytes}),
			disk: keepPoint(was.disk, {time, value: stats.disk.bytes}),
			in: old ? keepPoint(was.in, {time, value: flow.in}) : was.in,
			out: old ? keepPoint(was.out, {time, value: flow.out}) : was.out,
		}));
	}, [stats]);
	const tabs = useRef<HTMLDivElement>(null);
	useEffect(() => tabs.current?.querySelector('[aria-selected=true]')?.scrollIntoView({block: 'nearest', inline: 'center'}), [tab, box === null]);
	if (!box && fault?.status === 404)
		return <><h1>{T.sandbox}</h1><p class="empty">{T.gone}</p><Link to="/ui/sandboxes">{T.backToSandboxes}</Link></>;
	if (!box)
		return <><h1><Str of={id} max={20} /></h1>{fault ? <Fault of={fault} again={again} /> : <Loading />}</>;
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
	const asleep = !['running', 'frozen'].includes(box.state);
	const panel = (): ComponentChildren => {
		if (tab === 'events')
			return <Events id={box.id} />;
		if (tab === 'settings')
			return <BoxSettings key={box.id} box={box} again={again} />;
		if (tab === 'network')
			return <Network box={box} again={again} />;
		if (tab === 'overview' || !TABS.some(([key]) => key === tab))
			return <Facts seen={{box, stats}} points={points} />;
		if (tab === 'ports')
			return <Ports box={box} />;
		if (!may('use'))
			return <Empty what={T.noScope('use')} />;
		if (asleep)
			return <Empty what={box.state === 'paused' ? T.boxPaused : box.state === 'stopped' ? T.boxStopped : box.state === 'archived' ? T.boxArchived : T.notRunning}>
				<p>{stepsOf(box.state).slice(0, 1).map(([verb, label]) => <Do key={verb} label={verb === 'resume' ? T.resumeSandbox : T.startSandbox} primary scope="make" work={() => step(box, verb, label, again)} />)}</p>
			</Empty>;
		return tab === 'terminal' ? <Terminal id={box.id} /> : tab === 'processes' ? <Processes box={box} /> : tab === 'files' ? <Files box={box} /> : <Code box={box} />;
	};
	const copy = (text: string | null) => void attempt(() => copyText(text ?? ''));
	return <>
		<div class="head">
			<h1><Str of={nameOf(box)} max={63} /></h1>
			<State of={box.state} tid="state" />
			<span class="push" />
			{stepsOf(box.state).map(([verb, label]) => <Do key={verb} label={label} scope="make" work={() => step(box, verb, label, again)} />)}
			<Menu label={T.copyAs} items={[
				{label: T.copyCli, scope: 'read', work: () => copy(cliOf(createLike(box)))},
				{label: T.copyCurl, scope: 'read', work: () => copy(curlOf(createLike(box)))},
			]}>{T.copyAs}</Menu>
			<Do label={T.del} scope="make" work={async () => setDeleting(true)} />
		</div>
		{fault && <Fault of={fault} again={again} />}
		{box.waiting && <p class="fault"><Str of={box.waiting.reason} max={300} />{box.waiting.position !== undefined && ` (${box.waiting.position})`}</p>}
		<div role="tablist" ref={tabs} aria-label={T.sandbox} onKeyDown={move}>
			{TABS.map(([key, label]) => <Link key={key} role="tab" to={`/ui/sandboxes/${box.id}/${key}`} aria-selected={tab === key}
				tabIndex={tab === key ? 0 : -1}>{label}</Link>)}
		</div>
		<div role="tabpanel" aria-label={TABS.find(([key]) => key === tab)?.[1] ?? T.overview}>{panel()}</div>
		{deleting && <DeleteDialog path={`/v1/sandboxes/${box.id}`} name={shown(nameOf(box)) === nameOf(box) ? nameOf(box) : box.shortId}
			close={() => setDeleting(false)} done={() => go('/ui/sandboxes')} />}
	</>;
}
