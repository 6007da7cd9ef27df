// Volumes, pools of prepared sandboxes, and secrets by their names.
import {useState} from 'preact/hooks';
import {call} from './api';
import {bytes, count, shown} from './format';
import {T} from './text';
import type {Pool, Secret, Volume} from './types';
import {Ago, ConfirmDialog, Do, FormDialog, Grid, Link, Listed, Meter, State, Str, notify, usePoll} from './ui';

export function Volumes() {
	const list = usePoll(async () => (await call<{items: Volume[]}>('GET', '/v1/volumes')).items, 4000, 'volumes');
	const [creating, setCreating] = useState(false);
	const [removing, setRemoving] = useState<Volume | null>(null);
	const create = <Do label={T.createVolume} scope="make" primary work={async () => setCreating(true)} />;
	return <>
		<div class="head"><h1>{T.volumes}</h1><span class="dim">{list.value?.length || ''}</span>{list.value?.length !== 0 && create}</div>
		<Listed of={list} empty={T.noVolumes} command="cove volume create data" add={create}>{(rows) => <Grid label={T.volumes} rows={rows} id={(one) => one.id} columns={[
			{label: T.name, cell: (one) => <b><Str of={one.name} max={63} /></b>},
			{label: T.state, cell: (one) => <State of={one.state} />},
			{label: T.used, number: true, cell: (one) => bytes(one.bytes)},
			{label: T.limit, number: true, cell: (one) => (one.sizeMB === null ? <span class="dim">{T.unlimited}</span> : bytes(one.sizeMB * 1048576))},
			{label: T.usedBy, cell: (one) => (one.usedBy.length ? one.usedBy.slice(0, 5).map((id) => <><Link key={id} to={`/ui/sandboxes/${id}`}><Str of={id.replace(/^box-/, '').slice(0, 12)} /></Link>{' '}</>) : <span class="dim">–</span>)},
			{label: T.age, number: true, cell: (one) => <Ago of={one.createdAt} />},
		]} acts={(one) => <Do quiet label={T.del} name={T.deleteNamed(shown(one.name, 60))} scope="make" work={async () => setRemoving(one)} />} />}</Listed>
		{creating && <FormDialog title={T.createVolume} verb={T.create} close={() => setCreating(false)} lead={T.volumeLead}
			inputs={[{name: 'name', label: T.name, required: true}, {name: 'size', label: T.sizeMiB, kind: 'number', placeholder: '2048'}]}
			act={({name, size}) => ({method: 'POST', path: '/v1/volumes', body: {name, ...(size ? {sizeMB: Number(size)} : {})}, cli: ['volume', 'create', name ?? '', ...(size ? ['--size', size + 'm'] : [])]})}
			done={(_, {name}) => {
				list.again();
				notify(T.done(T.createVolume, shown(name ?? '')));
			}} />}
		{removing && <ConfirmDialog title={T.deleteVolume} what={T.deleteVolumeWarning} name={removing.name} verb={T.del} close={() => setRemoving(null)} done={list.again}
			act={{method: 'DELETE', path: `/v1/volumes/${encodeURIComponent(removing.id)}`, cli: ['volume', 'rm', removing.name]}} />}
		<Pools />
	</>;
}

function Pools() {
	const list = usePoll(async () => (await call<{items: Pool[]}>('GET', '/v1/pools')).items, 3000, 'pools');
	const [setting, setSetting] = useState<Pool | 'new' | null>(null);
	const [removing, setRemoving] = useState<string | null>(null);
	const set = <Do label={T.createPool} scope="make" work={async () => setSetting('new')} />;
	const old = setting === 'new' ? null : setting;
	return <>
		<div class="head"><h2>{T.pools}</h2><span class="push" />{list.value?.length !== 0 && set}</div>
		<Listed of={list} empty={T.noPools} command="cove pool set warm --template host --size 2" add={set}>{(rows) => <Grid label={T.pools} rows={rows} id={(one) => one.name} columns={[
			{label: T.name, cell: (one) => <><b><Str of={one.name} max={63} /></b>{one.error && <div class="small bad"><Str of={one.error} max={200} /></div>}</>},
			{label: T.template, cell: (one) => <Str of={one.terms.template} max={60} />},
			{label: T.ready, cell: (one) => <><span class="number">{one.ready}<span class="dim"> / {one.size}{one.preparing > 0 && ` · ${T.preparing(one.preparing)}`}</span></span>
				<Meter label={`${one.name} ${T.ready}`} part={one.size ? one.ready / one.size : null} isGood /></>},
			{label: T.claims, number: true, cell: (one) => count(one.hits)},
			{label: T.misses, number: true, cell: (one) => count(one.misses)},
			{label: T.claimTime, number: true, minor: true, cell: (one) => (one.claimMs === null ? '–' : `${one.claimMs.toFixed(1)} ms`)},
		]} acts={(one) => <>
			<Do quiet label={T.change} name={T.changeNamed(shown(one.name, 60))} scope="make" work={async () => setSetting(one)} />
			<Do quiet label={T.del} name={T.deleteNamed(shown(one.name, 60))} scope="make" work={async () => setRemoving(one.name)} />
		</>} />}</Listed>
		{setting && <FormDialog title={old ? T.changeNamed(shown(old.name, 60)) : T.createPool} verb={old ? T.save : T.create} close={() => setSetting(null)} done={list.again} lead={T.poolLead}
			inputs={[...(old ? [] : [{name: 'name', label: T.name, required: true}]), {name: 'template', label: T.template, required: true, value: old?.terms.template ?? 'host'},
				{name: 'size', label: T.readySandboxes, kind: 'number', required: true, value: String(old?.size ?? 1)},
				{name: 'memory', label: T.memoryMiB, kind: 'number', placeholder: '512', value: String(old?.terms.limits?.['memoryMB'] ?? '')}]}
			act={({name: typed, template, size, memory}) => {
				const name = old?.name ?? typed ?? '';
				return {
					method: 'PUT', path: `/v1/pools/${encodeURIComponent(name)}`,
					body: {...(old?.terms ?? {}), template, size: Number(size), ...(memory ? {limits: {...(old?.terms.limits ?? {}), memoryMB: Number(memory)}} : {})},
					cli: ['pool', 'set', name, '--template', template ?? '', '--size', size ?? '', ...(memory ? ['--memory', memory + 'm'] : [])],
				};
			}} />}
		{removing && <ConfirmDialog title={T.deletePool} what={T.deletePoolWarning} name={removing} verb={T.del} close={() => setRemoving(null)} done={list.again}
			act={{method: 'DELETE', path: `/v1/pools/${encodeURIComponent(removing)}`, cli: ['pool', 'rm', removing]}} />}
	</>;
}

export function Secrets() {
	const list = usePoll(async () => (await call<{items: Secret[]}>('GET', '/v1/secrets')).items, 5000, 'secrets');
	const [setting, setSetting] = useState(false);
	const [removing, setRemoving] = useState<string | null>(null);
	const set = <Do label={T.setSecret} scope="admin" primary work={async () => setSetting(true)} />;
	return <>
		<div class="head"><h1>{T.secrets}</h1><span class="dim">{list.value?.length || ''}</span>{list.value?.length !== 0 && set}</div>
		<p class="lead">{T.secretsLead}</p>
		<Listed of={list} empty={T.noSecrets} command="cove secret set API_KEY --for api.example.com" add={set}>{(rows) => <Grid label={T.secrets} rows={rows} id={(one) => one.name} columns={[
			{label: T.name, cell: (one) => <b class="mono"><Str of={one.name} max={63} /></b>},
			{label: T.hosts, cell: (one) => <Str of={one.hosts.join(', ')} max={120} />},
			{label: T.sentAs, minor: true, cell: (one) => <span class="dim"><Str of={one.header ? `${one.header.name}: ${one.header.format ?? '{}'}` : one.query ? `?${one.query}=` : T.placeholder} max={60} /></span>},
			{label: T.rotated, number: true, cell: (one) => <Ago of={one.rotatedAt} />},
			{label: T.lastUsed, number: true, cell: (one) => <Ago of={one.lastUsedAt} />},
		]} acts={(one) => <Do quiet label={T.del} name={T.deleteNamed(shown(one.name, 60))} scope="admin" work={async () => setRemoving(one.name)} />} />}</Listed>
		{setting && <FormDialog title={T.setSecret} verb={T.save} close={() => setSetting(false)} done={list.again} lead={T.secretsLead}
			inputs={[{name: 'name', label: T.name, required: true, placeholder: 'API_KEY'}, {name: 'hosts', label: T.hosts, required: true, placeholder: 'api.example.com'},
				{name: 'value', label: T.value, kind: 'password', hint: T.valueHint, wide: true}, {name: 'header', label: T.header, placeholder: 'Authorization: Bearer {}', hint: T.optional, wide: true}]}
			act={({name, hosts, value, header}) => {
				const to = (hosts ?? '').split(/[\s,]+/).filter(Boolean), at = (header ?? '').indexOf(':');
				return {
					method: 'PUT', path: `/v1/secrets/${encodeURIComponent(name ?? '')}`,
					body: {...(value ? {value} : {}), hosts: to, ...(at > 0 ? {header: {name: (header ?? '').slice(0, at).trim(), format: (header ?? '').slice(at + 1).trim()}} : {})},
					cli: ['secret', 'set', name ?? '', ...to.flatMap((one) => ['--for', one]), ...(header ? ['--header', header] : [])],
				};
			}} />}
		{removing && <ConfirmDialog title={T.deleteSecret} what={T.deleteSecretWarning} name={removing} verb={T.del} close={() => setRemoving(null)} done={list.again}
			act={{method: 'DELETE', path: `/v1/secrets/${encodeURIComponent(removing)}`, cli: ['secret', 'rm', removing]}} />}
	</>;
}
