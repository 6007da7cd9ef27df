// Preferences of this browser, and the sessions of the dashboard.
import {useState} from 'preact/hooks';
import {call, currentSession} from './api';
import {absolute} from './format';
import {useDoctor} from './host';
import {isOperator} from './pages';
import {renderer, setRenderer, setTheme, setZone, theme, zone} from './preferences';
import {T} from './text';
import type {SignedIn} from './types';
import {Ago, Do, Fault, Grid, State, Str, usePoll} from './ui';

function Choice<Value extends string>({label, options, value, pick}: {label: string; options: readonly (readonly [Value, string])[]; value: Value; pick: (value: Value) => void}) {
	const [now, setNow] = useState(value);
	return <fieldset role="radiogroup" aria-label={label}><legend>{label}</legend>
		{options.map(([key, text]) => <label key={key}><input type="radio" name={label} checked={now === key} onChange={() => {
			pick(key);
			setNow(key);
		}} /> {text}</label>)}
	</fieldset>;
}

export function Settings() {
	const sessions = usePoll(async () => (await call<{items: SignedIn[]}>('GET', '/v1/auth/sessions')).items, 5000, 'sessions');
	const who = currentSession()?.who;
	const doctor = useDoctor();
	return <>
		<div class="head"><h1>{T.settings}</h1><span class="push" />{isOperator() && doctor.button}</div>
		{doctor.found}
		<div class="columns">
			<div class="panel">
				<h2>{T.preferences}</h2>
				<Choice label={T.theme} options={[['system', T.system], ['light', T.light], ['dark', T.dark]]} value={theme()} pick={setTheme} />
				<Choice label={T.timeZone} options={[['local', T.local], ['utc', T.utc], ['server', T.server]]} value={zone()} pick={setZone} />
				<Choice label={T.terminalRenderer} options={[['automatic', T.automatic], ['dom', T.dom]]} value={renderer()} pick={setRenderer} />
			</div>
			<div class="panel">
				<h2>{T.signedIn}</h2>
				<dl class="facts">
					<dt>{T.role}</dt><dd><Str of={who?.role} /></dd>
					{who?.tenant && <><dt>{T.tenant}</dt><dd><Str of={who.tenant} /></dd></>}
					{who?.key && <><dt>{T.keys}</dt><dd><Str of={who.name ?? who.key} /></dd></>}
					<dt>{T.scopes}</dt><dd><Str of={who?.scopes.join(' ')} /></dd>
				</dl>
			</div>
		</div>
		<h2>{T.sessions}</h2>
		{sessions.fault && <Fault of={sessions.fault} again={sessions.again} />}
		{sessions.value && <Grid label={T.sessions} rows={sessions.value} id={(one) => one.id} columns={[
			{label: T.name, cell: (one) => <><Str of={one.who.name ?? one.who.role} max={40} /> {one.current && <State of={T.thisTab} />}</>},
			{label: T.scopes, cell: (one) => <span class="dim"><Str of={one.who.scopes.join(' ')} /></span>},
			{label: T.expires, number: true, cell: (one) => absolute(one.expiresAt)},
			{label: T.age, number: true, cell: (one) => <Ago of={one.createdAt} />},
		]} acts={(one) => <Do quiet label={T.endSession} name={T.endNamed(one.id)} scope="read" work={async () => {
			await call('DELETE', `/v1/auth/sessions/${one.id}`);
			sessions.again();
		}} />} />}
	</>;
}
