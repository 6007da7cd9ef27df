// Alerts and their rules.
import {useState} from 'preact/hooks';
import {call, may} from './api';
import {absolute, shown} from './format';
import {isOperator} from './pages';
import {T} from './text';
import type {Alert, AlertRule} from './types';
import {Ago, Do, Empty, Fault, FormDialog, Grid, Link, Loading, State, Str, attempt, notify, usePoll} from './ui';

const amount = (value: number, unit: string): string => (unit === 'ratio' ? `${(value * 100).toFixed(1)} %` : `${Number(value.toPrecision(4))} ${unit}`);

function Acts({of, again, silence}: {of: Alert; again: () => void; silence: () => void}) {
	if (of.state === 'resolved' || !isOperator())
		return null;
	const path = `/v1/alerts/${encodeURIComponent(of.id)}`;
	return <>
		{!of.acknowledgedAt && <Do quiet label={T.acknowledge} scope="admin" work={async () => {
			await call('POST', `${path}/acknowledge`);
			again();
		}} />}
		{of.silencedUntil ? <Do quiet label={T.unsilence} scope="admin" work={async () => {
			await call('DELETE', `${path}/silence`);
			again();
		}} /> : <Do quiet label={T.silence} scope="admin" work={async () => silence()} />}
	</>;
}

export function Alerts({id}: {id: string | undefined}) {
	const {value, fault, again} = usePoll(() => call<{items: Alert[]; rules: AlertRule[]}>('GET', '/v1/alerts'), 3000, 'alerts');
	const [silencing, setSilencing] = useState<Alert | null>(null);
	const [rule, setRule] = useState<AlertRule | null>(null);
	const [testing, setTesting] = useState(false);
	const one = value?.items.find((each) => each.id === id);
	const order = (of: Alert) => ['firing', 'pending', 'resolved'].indexOf(of.state);
	const rows = [...value?.items ?? []].sort((a, b) => order(a) - order(b) || Date.parse(b.since ?? '') - Date.parse(a.since ?? ''));
	return <>
		<div class="head"><h1>{one ? <Str of={one.rule} /> : T.alerts}</h1>{one && <State of={one.state} tid="state" />}<span class="push" />
			{one ? <Acts of={one} again={again} silence={() => setSilencing(one)} /> : isOperator() && <Do label={T.sendTest} scope="admin" work={async () => setTesting(true)} />}</div>
		{fault && <Fault of={fault} again={again} />}
		{!value && !fault && <Loading />}
		{one && <div class="panel"><dl class="facts">
			<dt>{T.summary}</dt><dd><Str of={one.summary} max={400} /></dd>
			<dt>{T.cure}</dt><dd><Str of={one.hint} max={400} /></dd>
			<dt>{T.value}</dt><dd class="number">{amount(one.value, one.unit)} <span class="dim">{T.thresholdOf(amount(one.threshold, one.unit))}</span></dd>
			<dt>{T.severity}</dt><dd><State of={one.severity} /></dd>
			<dt>{T.since}</dt><dd><Ago of={one.since} /></dd>
			{one.sandbox && <><dt>{T.sandbox}</dt><dd><Link to={`/ui/sandboxes/${one.sandbox}`}><Str of={one.sandbox} max={24} /></Link></dd></>}
			{one.acknowledgedAt && <><dt>{T.acknowledged}</dt><dd><Str of={one.acknowledgedBy} /> <Ago of={one.acknowledgedAt} /></dd></>}
			{one.silencedUntil && <><dt>{T.silencedUntil}</dt><dd>{absolute(one.silencedUntil)}</dd></>}
			{one.deliveries.map((sent, i) => <><dt key={i}>{T.notice}</dt><dd><Str of={sent.sink} />: {sent.outcome} <Ago of={sent.time} /></dd></>)}
		</dl></div>}
		{value && !id && (rows.length ? <Grid label={T.alerts} rows={rows} id={(each) => each.id} state={(each) => each.state} columns={[
			{label: T.rule, cell: (each) => <Link to={`/ui/alerts/${encodeURIComponent(each.id)}`}><Str of={each.rule} /></Link>},
			{label: T.state, cell: (each) => <State of={each.state} />},
			{label: T.severity, cell: (each) => <State of={each.severity} />},
			{label: T.summary, cell: (each) => <><Str of={each.summary} max={160} />{each.object && <span class="dim"> <Str of={each.object} max={40} /></span>}</>},
			{label: T.value, number: true, minor: true, cell: (each) => amount(each.value, each.unit)},
			{label: T.since, number: true, cell: (each) => <Ago of={each.since} />},
		]} acts={(each) => <Acts of={each} again={again} silence={() => setSilencing(each)} />} /> : <Empty what={T.noAlerts} command="cove alerts ls" />)}
		{value && !id && value.rules.length > 0 && <><h2>{T.rules}</h2><Grid label={T.rules} rows={value.rules} id={(each) => each.name} columns={[
			{label: T.rule, cell: (each) => <Str of={each.name} />},
			{label: T.severity, cell: (each) => <State of={each.severity} />},
			{label: T.summary, minor: true, cell: (each) => <span class="dim"><Str of={each.summary} max={160} /></span>},
			{label: T.threshold, number: true, cell: (each) => `${each.below ? '<' : '>'} ${amount(each.threshold, each.unit)}`},
			{label: T.after, number: true, cell: (each) => `${each.forSeconds} s`},
			{label: T.state, cell: (each) => (each.enabled ? <State of={T.on} /> : <span class="dim">{T.off}</span>)},
		]} {...(isOperator() ? {acts: (each: AlertRule) => <>
			<Do quiet label={T.change} name={T.changeNamed(each.name)} scope="admin" work={async () => setRule(each)} />
			<Do quiet label={each.enabled ? T.disable : T.enable} name={(each.enabled ? T.disableNamed : T.enableNamed)(each.name)} scope="admin" work={async () => {
				const put = (enabled: boolean) => call('PUT', `/v1/alerts/rules/${each.name}`, {enabled});
				await put(!each.enabled);
				again();
				notify(T.done(each.enabled ? T.disable : T.enable, each.name), () => void attempt(async () => {
					await put(each.enabled);
					again();
				}));
			}} />
		</>} : {})} /></>}
		{testing && <FormDialog title={T.sendTest} verb={T.send} close={() => setTesting(false)} done={() => notify(T.testSent)} lead={T.testLead}
			inputs={[{name: 'sink', label: T.sink, required: true, value: rows.flatMap((each) => each.deliveries)[0]?.sink ?? ''}]}
			act={({sink}) => ({method: 'POST', path: '/v1/alerts/test', body: {sink}, cli: ['alerts', 'test', sink ?? '']})} />}
		{silencing && may('admin') && <FormDialog title={T.silence} verb={T.silence} close={() => setSilencing(null)} done={again}
			inputs={[{name: 'for', label: T.silenceFor, required: true, value: '1h'}, {name: 'comment', label: T.comment, hint: T.optional}]}
			act={(values) => ({method: 'POST', path: `/v1/alerts/${encodeURIComponent(silencing.id)}/silence`, body: {for: values['for'], ...(values['comment'] ? {comment: values['comment']} : {})},
				cli: ['alerts', 'silence', silencing.id, values['for'] ?? '', ...(values['comment'] ? ['--comment', values['comment']] : [])]})} />}
		{rule && <FormDialog title={T.changeNamed(shown(rule.name))} verb={T.save} close={() => setRule(null)} done={again} lead={rule.summary}
			inputs={[{name: 'threshold', label: T.threshold, kind: 'number', value: String(rule.threshold), hint: rule.unit}, {name: 'for', label: T.afterSeconds, kind: 'number', value: String(rule.forSeconds)}]}
			act={(values) => ({method: 'PUT', path: `/v1/alerts/rules/${rule.name}`, body: {threshold: Number(values['threshold']), forSeconds: Number(values['for'])}})} />}
	</>;
}
