// Executions: the list, and one with its steps, limits, log and artifacts.
import {useState} from 'preact/hooks';
import {call} from './api';
import {bytes, count, labelText, readLabels, shown, span} from './format';
import {Log} from './log';
import {useFresh} from './live';
import {T} from './text';
import {Player} from './player';
import {save} from './transfer';
import type {Artifact, Page, Work} from './types';
import {Ago, ConfirmDialog, Do, Empty, Fault, FormDialog, Grid, Link, Listed, Loading, Meter, Select, State, Str, go, notify, usePoll} from './ui';

const isOver = (one: Work): boolean => one.state === 'completed' || one.state === 'failed';
const nameOfWork = (one: Work): string => one.taskId ?? one.id;
const brief = (ms: number): string => (ms < 1000 ? `${ms} ms` : ms < 60000 ? `${(ms / 1000).toFixed(1)} s` : span(ms));
const STATES = [['', T.allStates], ...['queued', 'initializing', 'ready', 'running', 'completed', 'failed'].map((one) => [one, one] as const)] as const;

function NewExecution({close}: {close: () => void}) {
	return <FormDialog<Work> title={T.newExecution} verb={T.create} close={close} lead={T.executionLead}
		inputs={[
			{name: 'command', label: T.command_, kind: 'area', required: true, placeholder: 'python3 main.py'},
			{name: 'task', label: T.task, hint: T.optional}, {name: 'type', label: T.type, hint: T.optional},
			{name: 'template', label: T.template, placeholder: 'host'}, {name: 'image', label: T.image, placeholder: 'python:3.12'},
			{name: 'memory', label: T.memoryMiB, kind: 'number'}, {name: 'timeout', label: T.wallTimeSeconds, kind: 'number'},
			{name: 'artifacts', label: T.artifacts, placeholder: 'out/**', hint: T.artifactsHint}, {name: 'labels', label: T.labels, placeholder: 'team=a'},
		]}
		act={({command, task, type, template, image, memory, timeout, artifacts, labels}) => {
			const read = readLabels(labels ?? '');
			if (!read)
				return T.badLabels;
			const paths = (artifacts ?? '').split(/[\s,]+/).filter(Boolean);
			const limits = {...(memory ? {memoryMB: Number(memory)} : {}), ...(timeout ? {wallTimeMs: Number(timeout) * 1000} : {})};
			const option = (key: string, value: string | undefined, unit = '') => (value ? [key, value + unit] : []);
			return {
				method: 'POST', path: '/v1/executions',
				body: {command, ...(task ? {taskId: task} : {}), ...(type ? {agentType: type} : {}), ...(template ? {template} : {}), ...(image ? {image} : {}),
					...(Object.keys(limits).length ? {limits} : {}), ...(paths.length ? {artifacts: {paths}} : {}), ...(Object.keys(read).length ? {labels: read} : {})},
				cli: ['submit', ...option('--task', task), ...option('--type', type), ...option('--template', template), ...option('--image', image), ...option('--memory', memory, 'm'),
					...option('--timeout', timeout, 's'), ...paths.flatMap((one) => ['--artifact', one]), ...Object.entries(read).flatMap(([key, value]) => ['--label', `${key}=${value}`]), '-c', command ?? ''],
			};
		}}
		done={(made) => go(`/ui/executions/${made.id}`)} />;
}

export function Executions() {
	const state = new URLSearchParams(location.search).get('state') ?? '';
	const list = useFresh(async () => (await call<Page<Work>>('GET', `/v1/executions?limit=200${state ? `&state=${encodeURIComponent(state)}` : ''}`)).items, {kinds: ['execution']}, 'executions' + state);
	const [creating, setCreating] = useState(new URLSearchParams(location.search).has('create'));
	const create = <Do label={T.newExecution} scope="make" primary work={async () => setCreating(true)} />;
	return <>
		<div class="head"><h1>{T.executions}</h1><span class="dim">{list.value?.length || ''}</span>{(list.value?.length !== 0 || state) && create}</div>
		{(state || (list.value?.length ?? 0) > 0) && <div class="row"><Select label={T.state} options={STATES} value={state} pick={(next) => go('/ui/executions' + (next ? `?state=${next}` : ''))} /></div>}
		<Listed of={list} empty={state ? T.noMatchingExecution : T.noExecutions} command="cove submit -- echo hello" add={!state && create}>{(rows) => <Grid label={T.executions} rows={rows} id={(one) => one.id} columns={[
			{label: T.name, cell: (one) => <Link to={`/ui/executions/${one.id}`}><Str of={nameOfWork(one)} max={63} /></Link>},
			{label: T.state, cell: (one) => <State of={one.state} />},
			{label: T.type, minor: true, cell: (one) => <Str of={one.agentType ?? one.profile} max={40} />},
			{label: T.outcome, cell: (one) => <span class={one.state === 'failed' ? undefined : 'dim'}><Str of={one.outcome} /></span>},
			{label: T.duration, number: true, cell: (one) => (one.durations.runMs === null ? '–' : brief(one.durations.runMs))},
			{label: T.memory, number: true, minor: true, cell: (one) => bytes(one.usage?.memoryPeakBytes)},
			{label: T.age, number: true, cell: (one) => <Ago of={one.createdAt} />},
		]} />}</Listed>
		{creating && <NewExecution close={() => setCreating(false)} />}
	</>;
}

function Limit({label, used, limit, text}: {label: string; used: number | null | undefined; limit: number | undefined; text: (value: number) => string}) {
	return <><dt>{label}</dt><dd><span class="number">{used === null || used === undefined ? '–' : text(used)}{limit ? <span class="dim"> / {text(limit)}</span> : null}</span>
		{limit && used !== null && used !== undefined ? <Meter label={label} part={used / limit} /> : null}</dd></>;
}

function Artifacts({of}: {of: Work}) {
	const list = usePoll(async () => (await call<{items: Artifact[]}>('GET', `/v1/executions/${of.id}/artifacts`)).items, isOver(of) ? 60000 : 4000, 'artifacts' + of.id + of.state);
	if (!list.value?.length)
		return null;
	const path = (one: Artifact) => `/v1/executions/${of.id}/artifacts/${one.path.split('/').map(encodeURIComponent).join('/')}`;
	return <>
		<div class="head"><h2>{T.artifacts}</h2><span class="dim">{bytes(of.artifacts?.bytes)}</span><span class="push" />
			<Do label={T.downloadAll} scope="use" work={() => save(`/v1/executions/${of.id}/artifacts.tar`, `${of.id}.tar`)} /></div>
		{of.artifacts?.missing.length ? <p class="fault">{T.missing} <Str of={of.artifacts.missing.join(', ')} max={300} /></p> : null}
		<Grid label={T.artifacts} rows={list.value} id={(one) => one.path} columns={[
			{label: T.path, cell: (one) => <code><Str of={one.path} max={120} /></code>},
			{label: T.size, number: true, cell: (one) => bytes(one.size)},
			{label: T.mode, minor: true, cell: (one) => <code>{one.mode}</code>},
		]} acts={(one) => one.type === 'file' && <Do quiet label={T.download} name={T.downloadNamed(shown(one.path, 80))} scope="use" work={() => save(path(one), one.path.split('/').pop() ?? 'artifact')} />} />
	</>;
}

interface Diff {
	same: boolean;
	outcome: {this: unknown; with: unknown; same: boolean};
	exitCode: {this: unknown; with: unknown; same: boolean};
	stdout: {same: boolean};
	stderr: {same: boolean};
	artifacts: {onlyThis: string[]; onlyWith: string[]; changed: string[]; same: boolean};
}

function Compared({of}: {of: Work}) {
	const {value} = usePoll(() => call<Diff>('GET', `/v1/executions/${of.id}/diff?with=${of.replayOf}`), isOver(of) ? 60000 : 4000, 'diff' + of.id + of.state);
	if (!value)
		return null;
	const parts: [string, boolean][] = [[T.outcome, value.outcome.same], [T.exitCode, value.exitCode.same], ['stdout', value.stdout.same], ['stderr', value.stderr.same], [T.artifacts, value.artifacts.same]];
	return <div class="panel"><h2>{T.comparedWith} <Link to={`/ui/executions/${of.replayOf}`}><Str of={of.replayOf} max={24} /></Link></h2>
		<dl class="facts">{parts.map(([label, same]) => <><dt key={label}>{label}</dt><dd>{same ? T.same : <b>{T.different}</b>}</dd></>)}</dl></div>;
}

export function Execution({id}: {id: string}) {
	const {value, fault, again} = useFresh(() => call<Work>('GET', `/v1/executions/${encodeURIComponent(id)}`), {kinds: ['execution'], everyMs: 5000}, id);
	const suggestion = usePoll(() => call<{suggested: Record<string, number> | null; executions: number}>('GET', `/v1/executions/${encodeURIComponent(id)}/suggestion`), 60000, 'suggest' + id);
	const [removing, setRemoving] = useState(false);
	const [playing, setPlaying] = useState(new URLSearchParams(location.search).has('play'));
	if (!value && fault?.status === 404)
		return <><h1>{T.executions}</h1><Empty what={T.noSuchExecution}><p><Link to="/ui/executions">{T.allExecutions}</Link></p></Empty></>;
	if (!value)
		return <><h1><Str of={id} max={20} /></h1>{fault ? <Fault of={fault} again={again} /> : <Loading />}</>;
	const path = `/v1/executions/${value.id}`, name = nameOfWork(value);
	const repeat = (verb: string, label: string) => <Do label={label} scope="make" work={async () => {
		const made = await call<Work>('POST', `${path}/${verb}`);
		notify(T.done(label, shown(name)));
		go(`/ui/executions/${made.id}`);
	}} />;
	const suggested = suggestion.value?.suggested;
	return <>
		<div class="head">
			<h1><Str of={name} max={63} /></h1>
			<State of={value.state} tid="state" />
			<span class="push" />
			{!isOver(value) && <Do label={T.cancelExecution} scope="make" work={async () => {
				await call('POST', `${path}/cancel`);
				again();
				notify(T.done(T.cancelExecution, shown(name)));
			}} />}
			{isOver(value) && <>
				{value.startedAt && <button type="button" aria-pressed={playing} onClick={() => setPlaying(!playing)}>{T.playRecording}</button>}{repeat('retry', T.retry)}{repeat('replay', T.replay)}<Do label={T.del} scope="make" work={async () => setRemoving(true)} /></>}
		</div>
		{fault && <Fault of={fault} again={again} />}
		<div class="columns">
			<div class="panel"><dl class="facts">
				<dt>{T.id}</dt><dd><code class="long"><Str of={value.id} /></code></dd>
				<dt>{T.type}</dt><dd><Str of={value.agentType ?? value.profile} /></dd>
				<dt>{T.outcome}</dt><dd><Str of={value.outcome} />{value.reason && <span class="dim"> (<Str of={value.reason} max={300} />)</span>}</dd>
				<dt>{T.exitCode}</dt><dd class="number">{value.exitCode ?? '–'}</dd>
				{value.queue && <><dt>{T.queued}</dt><dd>{value.queue.position} <Str of={value.queue.reason ?? ''} /></dd></>}
				{value.image && <><dt>{T.image}</dt><dd><Str of={value.image} max={120} /></dd></>}
				{Object.keys(value.labels).length > 0 && <><dt>{T.labels}</dt><dd><Str of={labelText(value.labels)} max={300} /></dd></>}
				<dt>{T.created}</dt><dd><Ago of={value.createdAt} /></dd>
				{value.sandbox && <><dt>{T.sandbox}</dt><dd><Link to={`/ui/sandboxes/${value.sandbox}`}><Str of={value.sandbox} max={20} /></Link></dd></>}
				{value.retryOf && <><dt>{T.retryOf}</dt><dd><Link to={`/ui/executions/${value.retryOf}`}><Str of={value.retryOf} max={24} /></Link></dd></>}
			</dl></div>
			<div class="panel"><h2>{T.limits}</h2><dl class="facts">
				<Limit label={T.memory} used={value.usage?.memoryPeakBytes} limit={value.limits?.['memoryMB'] ? value.limits['memoryMB'] * 1048576 : undefined} text={bytes} />
				<Limit label={T.cpuTime} used={value.usage?.cpuMs} limit={value.limits?.['cpuTimeMs']} text={brief} />
				<Limit label={T.wallTime} used={value.durations.runMs} limit={value.limits?.['wallTimeMs']} text={brief} />
				<Limit label={T.requests} used={value.usage?.networkRequests} limit={value.limits?.['networkRequests']} text={count} />
				<Limit label={T.disk} used={value.usage?.storageBytes} limit={value.limits?.['storageMB'] ? value.limits['storageMB'] * 1048576 : undefined} text={bytes} />
				{suggested && <><dt>{T.suggested}</dt><dd class="dim"><Str of={Object.entries(suggested).map(([key, one]) => `${key} ${one}`).join(', ')} max={200} /></dd></>}
			</dl></div>
			{value.steps.length > 0 && <div class="panel"><h2>{T.steps}</h2><ul class="plain">{value.steps.map((one, i) =>
				<li key={i}><Str of={one.name} /><span class="dim">{one.durationMs === null ? '…' : brief(one.durationMs)}</span></li>)}</ul></div>}
		</div>
		{value.replayOf && <Compared of={value} />}
		{playing && <Player path={`${path}/cast`} link={`/ui/executions/${value.id}?play=1`} />}
		<Log path={`${path}/logs`} name={name.replace(/[^\w.-]+/g, '-')} over={isOver(value)} />
		<Artifacts of={value} />
		{removing && <ConfirmDialog title={T.deleteExecution} what={T.deleteExecutionWarning} name={name} verb={T.del} close={() => setRemoving(false)} done={() => go('/ui/executions')}
			act={{method: 'DELETE', path, cli: ['executions', 'rm', value.id]}} />}
	</>;
}
