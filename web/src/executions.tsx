// Executions: the list, and one with its steps and log.
import {useEffect, useRef, useState} from 'preact/hooks';
import {bytesOf, call} from './api';
import {plainLog, shown, span} from './format';
import {T} from './text';
import type {Page, Work} from './types';
import {Ago, Do, Empty, Fault, Link, Loading, Str, notify, usePoll} from './ui';

const isOver = (one: Work): boolean => one.state === 'completed' || one.state === 'failed';

export function Executions() {
	const {value, fault, again} = usePoll(() => call<Page<Work>>('GET', '/v1/executions?limit=200'), 2000, 'executions');
	return <>
		<h1>{T.executions}</h1>
		{fault && <Fault of={fault} again={again} />}
		{!value && !fault && <Loading />}
		{value?.items.length === 0 && <Empty what={T.noExecutions} command="cove submit -- echo hello" />}
		{value && value.items.length > 0 && <table role="grid" aria-label={T.executions} class="cards">
			<thead><tr><th scope="col">{T.name}</th><th scope="col">{T.state}</th><th scope="col">{T.type}</th><th scope="col">{T.outcome}</th><th scope="col">{T.age}</th></tr></thead>
			<tbody>{value.items.map((one) => <tr key={one.id} data-id={one.id}>
				<td><Link to={`/ui/executions/${one.id}`}><Str of={one.taskId ?? one.id} max={63} /></Link></td>
				<td data-label={T.state}><span class={`state ${/^[a-z]+$/.test(one.state) ? one.state : ''}`}><Str of={one.state} /></span></td>
				<td data-label={T.type}><Str of={one.agentType ?? one.profile} max={40} /></td>
				<td data-label={T.outcome}><Str of={one.outcome} /></td>
				<td data-label={T.age}><Ago of={one.createdAt} /></td>
			</tr>)}</tbody>
		</table>}
	</>;
}

const LOG_MAX = 1 << 20; // characters that the page keeps: the last ones

function Log({id, over}: {id: string; over: boolean}) {
	const kept = useRef({offset: 0, text: '', decoder: new TextDecoder()});
	const at = useRef<HTMLPreElement>(null);
	const follow = useRef(true);
	const [, redraw] = useState(0);
	const {fault, again} = usePoll(async () => {
		let rounds = 0, before;
		do {
			before = kept.current.offset;
			const part = await bytesOf(`/v1/executions/${id}/logs?offset=${before}`);
			if (part.length) {
				const more = kept.current.decoder.decode(part, {stream: true});
				kept.current = {...kept.current, offset: before + part.length, text: (kept.current.text + more).slice(-LOG_MAX)};
				redraw((old) => old + 1);
			}
		} while (kept.current.offset > before && ++rounds < 16);
		return true;
	}, over ? 10000 : 1000, 'log' + id);
	const lines = plainLog(kept.current.text).split('\n');
	if (lines[lines.length - 1] === '')
		lines.pop();
	useEffect(() => {
		if (follow.current && at.current)
			at.current.scrollTop = at.current.scrollHeight;
	});
	return <>
		<h2>{T.log}</h2>
		{fault && fault.status !== 404 && <Fault of={fault} again={again} />}
		<pre role="log" aria-label={T.log} tabIndex={0} ref={at} data-lines={lines.length} class="log" onScroll={(event) => {
			const el = event.currentTarget;
			follow.current = el.scrollHeight - el.scrollTop - el.clientHeight < 24;
		}}>{lines.length ? <bdi>{lines.join('\n')}</bdi> : T.logEmpty}</pre>
	</>;
}

export function Execution({id}: {id: string}) {
	const {value, fault, again} = usePoll(() => call<Work>('GET', `/v1/executions/${encodeURIComponent(id)}`), 1000, id);
	if (!value && fault?.status === 404)
		return <><h1>{T.executions}</h1><p class="empty">{T.noSuchExecution}</p><Link to="/ui/executions">{T.allExecutions}</Link></>;
	if (!value)
		return <><h1><Str of={id} max={20} /></h1>{fault ? <Fault of={fault} again={again} /> : <Loading />}</>;
	return <>
		<div class="head">
			<h1><Str of={value.taskId ?? value.id} max={63} /></h1>
			<span data-testid="state" class={`state ${/^[a-z]+$/.test(value.state) ? value.state : ''}`}><Str of={value.state} /></span>
			{!isOver(value) && <Do label={T.cancelExecution} scope="make" work={async () => {
				await call('POST', `/v1/executions/${value.id}/cancel`);
				again();
				notify(T.done(T.cancelExecution, shown(value.taskId ?? value.id)));
			}} />}
		</div>
		{fault && <Fault of={fault} again={again} />}
		<dl class="facts">
			<dt>{T.id}</dt><dd><code class="long"><Str of={value.id} /></code></dd>
			<dt>{T.type}</dt><dd><Str of={value.agentType ?? value.profile} /></dd>
			<dt>{T.outcome}</dt><dd><Str of={value.outcome} />{value.reason && <> (<Str of={value.reason} max={300} />)</>}</dd>
			<dt>{T.exitCode}</dt><dd>{value.exitCode ?? '–'}</dd>
			<dt>{T.created}</dt><dd><Ago of={value.createdAt} /></dd>
			{value.sandbox && <><dt>{T.sandbox}</dt><dd><Link to={`/ui/sandboxes/${value.sandbox}`}><Str of={value.sandbox} max={20} /></Link></dd></>}
		</dl>
		{value.steps.length > 0 && <><h2>{T.steps}</h2><ol class="plain">{value.steps.map((one, i) =>
			<li key={i}><Str of={one.name} /> <span class="dim">{one.durationMs === null ? '…' : one.durationMs < 1000 ? `${one.durationMs} ms` : span(one.durationMs)}</span></li>)}</ol></>}
		<Log id={value.id} over={isOver(value)} />
	</>;
}
