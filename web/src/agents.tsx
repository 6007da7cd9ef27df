// Agent sessions: the lease of each, its runs, and questions that wait for an answer.
import {useRef, useState} from 'preact/hooks';
import {call} from './api';
import {plainLog, shown} from './format';
import {T} from './text';
import type {AgentSession, Page, Run} from './types';
import {Ago, ConfirmDialog, CopyButtons, Do, Empty, Fault, FormDialog, Grid, Link, Listed, Loading, State, Str, go, notify, usePoll} from './ui';

const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms < 1e12 ? ms * 1000 : ms).toISOString());
const titleOf = (one: AgentSession): string => one.aliases[0] ?? one.id;

export function AgentSessions() {
	const list = usePoll(async () => (await call<Page<AgentSession>>('GET', '/v1/agent-sessions?limit=200')).items, 3000, 'agent-sessions');
	return <>
		<div class="head"><h1>{T.agentSessions}</h1><span class="dim">{list.value?.length || ''}</span></div>
		<Listed of={list} empty={T.noAgentSessions} command="cove agent-session create --user ada -- node agent.js">{(rows) => <Grid label={T.agentSessions} rows={rows} id={(one) => one.id} columns={[
			{label: T.name, cell: (one) => <Link to={`/ui/agent-sessions/${encodeURIComponent(one.id)}`}><Str of={titleOf(one)} max={63} /></Link>},
			{label: T.lease, cell: (one) => <State of={one.lease.state} />},
			{label: T.user, cell: (one) => <Str of={[one.org, one.user].filter(Boolean).join(' / ')} max={40} />},
			{label: T.reason, minor: true, cell: (one) => <span class="dim"><Str of={one.lease.last_error ?? one.lease.reason} max={80} /></span>},
			{label: T.runs, number: true, cell: (one) => one.runs.length},
			{label: T.lastUsed, number: true, cell: (one) => <Ago of={iso(one.used_at)} />},
		]} />}</Listed>
	</>;
}

function Question({id, run, again}: {id: string; run: Run; again: () => void}) {
	const answer = useRef<HTMLInputElement>(null);
	const question = run.question as {id?: string; text?: string; question?: string} | string;
	const text = typeof question === 'string' ? question : question.text ?? question.question ?? JSON.stringify(question);
	const act = () => ({method: 'POST' as const, path: `/v1/agent-sessions/${encodeURIComponent(id)}/answer`,
		body: {...(typeof question === 'object' && question.id ? {question: question.id} : {}), answer: answer.current?.value ?? ''},
		cli: ['agent-session', 'answer', id, answer.current?.value ?? '']});
	return <form class="panel" aria-label={T.question} onSubmit={(event) => event.preventDefault()}>
		<h2>{T.question}</h2>
		<p><Str of={text} max={4000} /></p>
		<div class="field"><label for="answer">{T.answer}</label><input id="answer" ref={answer} autocomplete="off" /></div>
		<div class="row end"><CopyButtons act={act} /><Do label={T.sendAnswer} scope="use" primary work={async () => {
			const made = act();
			await call(made.method, made.path, made.body);
			again();
		}} /></div>
	</form>;
}

export function AgentSessionPage({id}: {id: string}) {
	const path = `/v1/agent-sessions/${encodeURIComponent(id)}`;
	const {value, fault, again} = usePoll(() => call<AgentSession>('GET', path), 2000, id);
	const runs = usePoll(async () => {
		const items = (await call<Page<Run>>('GET', `${path}/runs?limit=50`)).items;
		const current = items.find((one) => one.state === 'running');
		// Its question is in the run itself.
		const whole = current ? await call<Run>('GET', `${path}/runs/${encodeURIComponent(current.id)}`) : null;
		return items.map((one) => (whole && one === current ? whole : one));
	}, 2000, 'runs' + id);
	const log = usePoll(() => call<{log: string | null}>('GET', `${path}/logs`), 4000, 'log' + id);
	const [dialog, setDialog] = useState<'run' | 'delete' | null>(null);
	if (!value && fault?.status === 404)
		return <><h1>{T.agentSessions}</h1><Empty what={T.noSuchSession} /><p><Link to="/ui/agent-sessions">{T.agentSessions}</Link></p></>;
	if (!value)
		return <><h1><Str of={id} max={40} /></h1>{fault ? <Fault of={fault} again={again} /> : <Loading />}</>;
	const asking = runs.value?.find((one) => one.question !== null && one.question !== undefined);
	return <>
		<div class="head"><h1><Str of={titleOf(value)} max={63} /></h1><State of={value.lease.state} tid="state" /><span class="push" />
			<Do label={T.interrupt} scope="use" work={async () => void await call('POST', `${path}/interrupt`)} />
			<Do label={T.newRun} scope="use" primary work={async () => setDialog('run')} />
			<Do label={T.del} scope="make" work={async () => setDialog('delete')} /></div>
		{fault && <Fault of={fault} again={again} />}
		{asking && <Question id={id} run={asking} again={runs.again} />}
		<div class="panel"><dl class="facts">
			<dt>{T.id}</dt><dd><code class="long"><Str of={value.id} /></code></dd>
			<dt>{T.user}</dt><dd><Str of={[value.org, value.user, value.bot].filter(Boolean).join(' / ')} max={120} /></dd>
			<dt>{T.sandbox}</dt><dd><Link to={`/ui/sandboxes/${value.sandbox_id}`}><Str of={value.sandbox_id} max={24} /></Link></dd>
			<dt>{T.workdir}</dt><dd><code><Str of={value.directory} /></code></dd>
			<dt>{T.lease}</dt><dd><State of={value.lease.state} /> <Str of={value.lease.reason ?? ''} max={200} /> {value.lease.last_error && <span class="dim"><Str of={value.lease.last_error} max={300} /></span>}</dd>
			<dt>{T.created}</dt><dd><Ago of={iso(value.created_at)} /></dd>
		</dl></div>
		<h2>{T.runs}</h2>
		<Listed of={runs} empty={T.noRuns}>{(rows) => <Grid label={T.runs} rows={rows} id={(one) => one.id} columns={[
			{label: T.id, cell: (one) => <code><Str of={one.id} max={40} /></code>},
			{label: T.state, cell: (one) => <State of={one.state} />},
			{label: T.outcome, cell: (one) => <Str of={one.error ? `${one.error.code}: ${one.error.message ?? ''}` : one.result === undefined || one.result === null ? '–' : JSON.stringify(one.result)} max={160} />},
			{label: T.age, number: true, cell: (one) => <Ago of={iso(one.created_at)} />},
		]} />}</Listed>
		{log.value?.log && <><h2>{T.log}</h2><pre class="log" role="log" aria-label={T.log} tabIndex={0}><bdi>{plainLog(log.value.log.slice(-200000))}</bdi></pre></>}
		{dialog === 'run' && <FormDialog title={T.newRun} verb={T.start} close={() => setDialog(null)} done={runs.again}
			inputs={[{name: 'input', label: T.input, kind: 'area', placeholder: '{"prompt": "…"}'}]}
			act={({input}) => {
				let body: unknown = input;
				try {
					body = JSON.parse(input ?? '');
				} catch {
					body = input; // plain text is an input, too
				}
				return {method: 'POST', path: `${path}/runs`, body: {input: body}};
			}} />}
		{dialog === 'delete' && <ConfirmDialog title={T.deleteSession} what={T.deleteSessionWarning} name={shown(titleOf(value))} verb={T.del} close={() => setDialog(null)}
			act={{method: 'DELETE', path, cli: ['agent-session', 'rm', id]}} done={() => {
				notify(T.done(T.del, shown(titleOf(value))));
				go('/ui/agent-sessions');
			}} />}
	</>;
}
