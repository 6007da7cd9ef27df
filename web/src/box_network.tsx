// What a sandbox may reach and did reach, and what of it can be reached.
import {useRef, useState} from 'preact/hooks';
import {call, may} from './api';
import {absolute, bytes, count, shown} from './format';
import {T} from './text';
import type {Box, Flow, Policy, Port} from './types';
import {Ago, CopyButtons, Do, Fault, FormDialog, Grid, Listed, State, Str, attempt, copyText, notify, useTail, usePoll} from './ui';

const lines = (text: string): string[] => text.split('\n').map((one) => one.trim()).filter(Boolean);

// The name that would allow a denied connection: with its port, unless it is one of the web's.
function nameOf(flow: Flow): string | null {
	const host = flow.name ?? flow.address;
	return host && (flow.port === 0 || flow.port === 80 || flow.port === 443 ? host : `${host}:${flow.port}`);
}

function merged(old: Policy, change: Partial<Policy>): Policy {
	const {mode, allow, inspect, budgets, secrets, rules} = {...old, ...change};
	return {mode, ...(allow && mode === 'allow' ? {allow} : {}), ...(inspect ? {inspect} : {}), ...(budgets ? {budgets} : {}),
		...(secrets ? {secrets} : {}), ...(rules ? {rules} : {})};
}

export function Network({box, again}: {box: Box; again: () => void}) {
	const [mode, setMode] = useState(box.network.mode);
	const [deniedOnly, setDeniedOnly] = useState(false);
	const names = useRef<HTMLTextAreaElement>(null);
	const flows = useTail<Flow>(`/v1/sandboxes/${box.id}/egress?${deniedOnly ? 'verdict=deny&' : ''}`, 1500, `egress ${box.id} ${deniedOnly}`);
	const totals = usePoll(() => call<{totals: Record<string, number>}>('GET', `/v1/sandboxes/${box.id}/egress?limit=1`), 3000, 'totals' + box.id);
	const asAct = (network: Policy) => ({
		method: 'PATCH' as const, path: `/v1/sandboxes/${box.id}`, body: {network},
		cli: ['policy', box.name ?? box.shortId, '--mode', network.mode, ...(network.allow ?? []).flatMap((one) => ['--allow', one])],
	});
	const put = async (network: Policy, said: string) => {
		const before = merged(box.network, {});
		await call('PATCH', `/v1/sandboxes/${box.id}`, {network});
		setMode(network.mode);
		again();
		notify(said, () => void attempt(async () => {
			await call('PATCH', `/v1/sandboxes/${box.id}`, {network: before});
			setMode(before.mode);
			again();
		}));
	};
	const wanted = () => merged(box.network, {mode, allow: mode === 'allow' ? lines(names.current?.value ?? '') : []});
	const allow = (name: string) => put(merged(box.network, {mode: 'allow', allow: [...new Set([...box.network.allow ?? [], name])]}), T.allowed(shown(name, 60)));
	const isAllowed = (name: string) => box.network.mode === 'all' || (box.network.allow ?? []).includes(name);
	const sums = totals.value?.totals;
	return <>
		<form class="panel" aria-label={T.networkPolicy} onSubmit={(event) => event.preventDefault()}>
			<h2>{T.networkPolicy}</h2>
			<fieldset><legend class="hidden">{T.networkPolicy}</legend>
				{([['off', T.policyOff], ['allow', T.policyAllow], ['all', T.policyAll]] as const).map(([value, label]) =>
					<label key={value}><input type="radio" name="mode" checked={mode === value} onChange={() => setMode(value)} /> {label}</label>)}
			</fieldset>
			{mode === 'allow' && <div class="field"><label for="allowed">{T.allowedNames}</label>
				<textarea id="allowed" ref={names} key={(box.network.allow ?? []).join()} rows={Math.min(10, Math.max(3, (box.network.allow ?? []).length + 1))}
					spellcheck={false} defaultValue={(box.network.allow ?? []).join('\n')} aria-describedby="allowed-hint" />
				<span class="hint" id="allowed-hint">{T.allowedNamesHint}</span></div>}
			<dl class="facts">
				{box.network.inspect?.length && <><dt>{T.inspected}</dt><dd><Str of={box.network.inspect.join(', ')} max={400} /></dd></>}
				{box.network.secrets?.length && <><dt>{T.secrets}</dt><dd><Str of={box.network.secrets.map((one) => (typeof one === 'string' ? one : one.name)).join(', ')} max={400} /></dd></>}
				{box.network.budgets && <><dt>{T.budgets}</dt><dd><Str of={Object.entries(box.network.budgets).map(([key, value]) => `${key} ${value}`).join(', ')} max={200} /></dd></>}
			</dl>
			<div class="row end">
				<CopyButtons act={() => asAct(wanted())} />
				<Do label={T.saveChanges} scope="make" primary work={() => put(wanted(), T.policySaved)} />
			</div>
		</form>
		{sums && <div class="tiles">
			{([[T.connections, count(sums['connections'])], [T.requests, count(sums['requests'])], [T.denied, count(sums['denied'])],
				[T.sent, bytes(sums['bytesOut'])], [T.received, bytes(sums['bytesIn'])]] as const).map(([label, value]) =>
				<div class="tile" key={label}><span>{label}</span><b>{value}</b></div>)}
		</div>}
		<div class="head"><h2>{T.egress}</h2>
			<label class="row push"><input type="checkbox" checked={deniedOnly} onChange={() => setDeniedOnly(!deniedOnly)} /> {T.onlyDenied}</label></div>
		<Listed of={flows} empty={T.noEgress} command={`cove egress ${box.name ?? box.shortId}`}>{(rows) => <Grid label={T.egress} rows={rows} id={(one) => String(one.id)} columns={[
			{label: T.name, cell: (one) => <><Str of={one.name ?? one.address} max={80} />{one.port ? <span class="dim">:{one.port}</span> : null}</>},
			{label: T.verdict, cell: (one) => <State of={one.verdict} />},
			{label: T.rule, cell: (one) => <span class="dim"><Str of={one.verdict === 'deny' ? one.reason : one.rule} max={60} /></span>},
			{label: T.requests, number: true, minor: true, cell: (one) => count(one.requests)},
			{label: T.sent, number: true, minor: true, cell: (one) => bytes(one.bytesOut)},
			{label: T.received, number: true, minor: true, cell: (one) => bytes(one.bytesIn)},
			{label: T.age, number: true, cell: (one) => <Ago of={one.time} />},
		]} acts={(one) => {
			const name = nameOf(one);
			return one.verdict === 'deny' && name && !isAllowed(name) &&
				<Do quiet label={T.allowNamed(shown(name, 60))} scope="make" work={() => allow(name)} />;
		}} />}</Listed>
	</>;
}

// Only what leads to a page of a browser is a link.
function asLink(text: string | null | undefined): string | null {
	try {
		const protocol = new URL(text ?? '').protocol;
		return protocol === 'http:' || protocol === 'https:' ? text ?? null : null;
	} catch {
		return null;
	}
}

export function Ports({box}: {box: Box}) {
	const [exposing, setExposing] = useState<number | null>(null);
	const list = usePoll(async () => (await call<{items: Port[]}>('GET', `/v1/sandboxes/${box.id}/ports`)).items, 2000, 'ports' + box.id);
	const path = `/v1/sandboxes/${box.id}/ports`;
	const expose = <Do label={T.exposePort} scope="make" primary work={async () => setExposing(0)} />;
	return <>
		<div class="head"><p class="dim grow">{T.exposeWarning}</p>{list.value?.length !== 0 && expose}</div>
		<Listed of={list} empty={T.noPorts} command={`cove expose ${box.name ?? box.shortId} 8000`} add={expose}>{(rows) => <Grid label={T.ports} rows={rows} id={(one) => String(one.port)} columns={[
			{label: T.port, cell: (one) => <b class="number">{one.port}</b>},
			{label: T.name, cell: (one) => <Str of={one.name} max={40} />},
			{label: T.state, cell: (one) => (one.listening ? <span class="state listening">{T.listening}</span> : <span class="state">{T.notListening}</span>)},
			{label: T.preview, cell: (one) => {
				const link = asLink(one.url) ?? asLink(one.pathUrl);
				return one.exposed && link ? <a href={link} target="_blank" rel="noopener noreferrer" title={shown(link, 400)}>{T.openPreview}</a> : '–';
			}},
			{label: T.expires, number: true, cell: (one) => (!one.exposed ? '' : one.expiresAt ? <time dateTime={one.expiresAt}>{absolute(one.expiresAt)}</time> : T.noExpiry)},
		]} acts={(one) => (one.exposed ? <>
			<Do quiet label={T.copyAddress} scope="read" work={() => copyText(one.url ?? one.pathUrl ?? '')} />
			<Do quiet label={T.unexpose} name={T.unexposeNamed(String(one.port))} scope="make" work={async () => {
				await call('DELETE', `${path}/${one.port}`);
				list.again();
				notify(T.unexposed(String(one.port)), () => void attempt(async () => {
					await call('POST', path, {port: one.port, ...(one.name ? {name: one.name} : {})});
					list.again();
				}));
			}} />
		</> : <Do quiet label={T.expose} name={T.exposeNamed(String(one.port))} scope="make" work={async () => setExposing(one.port)} />)} />}</Listed>
		{exposing !== null && may('make') && <FormDialog title={T.exposePort} verb={T.expose} close={() => setExposing(null)} lead={T.exposeWarning}
			inputs={[{name: 'port', label: T.port, kind: 'number', required: true, value: exposing ? String(exposing) : ''}, {name: 'name', label: T.name, hint: T.optional},
				{name: 'expires', label: T.expires, hint: T.expiresHint, wide: true}]}
			act={({port, name, expires}) => ({
				method: 'POST', path, body: {port: Number(port), ...(name ? {name} : {}), ...(expires ? {expiresIn: expires} : {})},
				cli: ['expose', box.name ?? box.shortId, port ?? '', ...(name ? ['--name', name] : []), ...(expires ? ['--expires', expires] : [])],
			})}
			done={(_, {port}) => {
				list.again();
				notify(T.exposed(port ?? ''), () => void attempt(async () => {
					await call('DELETE', `${path}/${port}`);
					list.again();
				}));
			}} />}
		{list.fault && list.value && <Fault of={list.fault} again={list.again} />}
	</>;
}
