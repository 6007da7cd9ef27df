// Agent runs: a coding agent, or any command, that works on a worktree in its sandbox.
import {useState} from 'preact/hooks';
import {call, may} from './api';
import {shown, span} from './format';
import {useFresh, useSandboxes} from './live';
import {Log} from './log';
import {Player} from './player';
import {nameOf} from './sandboxes';
import {T} from './text';
import {save} from './transfer';
import type {AgentRun} from './types';
import {Ago, Do, Empty, Fault, FormDialog, Grid, Link, Listed, Loading, State, Str, go, notify} from './ui';

const isOver = (one: AgentRun): boolean => one.state !== 'running' && one.state !== 'starting';
const shortOf = (one: AgentRun): string => one.id.replace(/^run-/, '').slice(0, 12);
const KINDS = ['process', 'agent_run', 'sandbox'];

function NewRun({close}: {close: () => void}) {
	const {rows} = useSandboxes(['name', 'shortId', 'state']);
	return <FormDialog<AgentRun> title={T.startRun} verb={T.start} close={close}
		inputs={[
			{name: 'sandbox', label: T.sandbox, required: true, placeholder: rows[0] ? nameOf(rows[0]) : ''}, {name: 'cwd', label: T.workdir, placeholder: '/workspace'},
			{name: 'argv', label: T.arguments, kind: 'area', required: true, placeholder: 'claude\n-p\n{prompt}'}, {name: 'prompt', label: T.prompt, kind: 'area', hint: T.promptHint},
		]}
		act={({sandbox, argv, prompt, cwd}) => ({
			method: 'POST', path: '/v1/agent-runs',
			body: {sandbox, argv: (argv ?? '').split('\n').filter(Boolean), ...(prompt ? {prompt} : {}), ...(cwd ? {cwd} : {})},
		})}
		done={(made) => go(`/ui/agent-runs/${encodeURIComponent(made.id)}`)} />;
}

export function AgentRuns() {
	const list = useFresh(async () => (await call<{items: AgentRun[]}>('GET', '/v1/agent-runs')).items, {kinds: KINDS, everyMs: 3000}, 'agent-runs');
	const [starting, setStarting] = useState(false);
	const start = <Do label={T.startRun} scope="make" primary work={async () => setStarting(true)} />;
	return <>
		<div class="head"><h1>{T.agentRuns}</h1><span class="dim">{list.value?.length || ''}</span>{list.value?.length !== 0 && start}</div>
		<Listed of={list} empty={T.noAgentRuns} command="cove agent run --agent claude -- 'fix the tests'" add={start}>{(rows) => <Grid label={T.agentRuns} rows={rows} id={(one) => one.id} columns={[
			{label: T.name, cell: (one) => <Link to={`/ui/agent-runs/${encodeURIComponent(one.id)}`}><Str of={shortOf(one)} /></Link>},
			{label: T.state, cell: (one) => <State of={one.state} />},
			{label: T.command_, cell: (one) => <code><Str of={one.command} max={120} /></code>},
			{label: T.sandbox, cell: (one) => <Link to={`/ui/sandboxes/${one.sandbox}`}><Str of={one.sandbox.replace(/^box-/, '').slice(0, 12)} /></Link>},
			{label: T.exitCode, number: true, cell: (one) => one.exitCode ?? '–'},
			{label: T.age, number: true, cell: (one) => <Ago of={one.startedAt} />},
		]} />}</Listed>
		{starting && <NewRun close={() => setStarting(false)} />}
	</>;
}

export function AgentRunPage({id}: {id: string}) {
	const path = `/v1/agent-runs/${encodeURIComponent(id)}`;
	const {value, fault, again} = useFresh(() => call<AgentRun>('GET', path), {kinds: KINDS, everyMs: 2000}, id);
	const [playing, setPlaying] = useState(new URLSearchParams(location.search).has('play'));
	if (!value && fault?.status === 404)
		return <><h1>{T.agentRuns}</h1><Empty what={T.noSuchRun}><p><Link to="/ui/agent-runs">{T.agentRuns}</Link></p></Empty></>;
	if (!value)
		return <><h1><Str of={id} max={40} /></h1>{fault ? <Fault of={fault} again={again} /> : <Loading />}</>;
	const tape = `/v1/sandboxes/${value.sandbox}/api/process/${encodeURIComponent(value.id)}`;
	return <>
		<div class="head"><h1><Str of={shortOf(value)} /></h1><State of={value.state} tid="state" /><span class="push" />
			{!isOver(value) && <Do label={T.stopRun} scope="use" work={async () => {
				await call('POST', `${path}/stop`);
				again();
				notify(T.done(T.stopRun, shown(shortOf(value))));
			}} />}
			{isOver(value) && may('use') && <button type="button" aria-pressed={playing} onClick={() => setPlaying(!playing)}>{T.playRecording}</button>}
			<Do label={T.downloadChanges} scope="use" work={() => save(`${path}/changes`, `${value.id}.tar`)} />
		</div>
		{fault && <Fault of={fault} again={again} />}
		<div class="panel"><dl class="facts">
			<dt>{T.id}</dt><dd><code class="long"><Str of={value.id} /></code></dd>
			<dt>{T.command_}</dt><dd><code class="long"><Str of={value.command} max={2000} /></code></dd>
			<dt>{T.sandbox}</dt><dd><Link to={`/ui/sandboxes/${value.sandbox}`}><Str of={value.sandbox} max={20} /></Link></dd>
			<dt>{T.started}</dt><dd><Ago of={value.startedAt} />{value.endedAt && <span class="dim"> {span(Date.parse(value.endedAt) - Date.parse(value.startedAt))}</span>}</dd>
			<dt>{T.exitCode}</dt><dd class="number">{value.exitCode ?? '–'}</dd>
			{value.error && <><dt>{T.reason}</dt><dd><Str of={value.error} max={400} /></dd></>}
		</dl></div>
		{playing && <Player path={`${tape}/cast`} link={`/ui/agent-runs/${encodeURIComponent(value.id)}?play=1`} />}
		{may('use') && <Log path={`${tape}/tape`} name={value.id} over={isOver(value)} />}
	</>;
}
