// Keys, and tenants with their quotas.
import {useState} from 'preact/hooks';
import {call} from './api';
import {absolute, bytes, count, shown} from './format';
import {isOperator} from './pages';
import {T} from './text';
import type {Key, Tenant} from './types';
import {Ago, ConfirmDialog, Dialog, Do, Field, FormDialog, Grid, Listed, Meter, Str, copyText, usePoll} from './ui';

const SCOPES = ['read', 'make', 'use', 'templates', 'admin', 'monitor'];

export function Keys() {
	const list = usePoll(async () => (await call<{items: Key[]}>('GET', '/v1/keys')).items, 5000, 'keys');
	const [creating, setCreating] = useState(false);
	const [made, setMade] = useState<{key: string} | null>(null);
	const [revoking, setRevoking] = useState<Key | null>(null);
	const create = <Do label={T.createKey} scope="admin" primary work={async () => setCreating(true)} />;
	return <>
		<div class="head"><h1>{T.keys}</h1><span class="dim">{list.value?.length || ''}</span>{list.value?.length !== 0 && create}</div>
		<Listed of={list} empty={T.noKeys} command="cove key create --name ci" add={create}>{(rows) => <Grid label={T.keys} rows={rows} id={(one) => one.id} columns={[
			{label: T.name, cell: (one) => <><b><Str of={one.name ?? one.id} max={63} /></b>{one.name && <span class="dim mono small"> <Str of={one.id} max={20} /></span>}</>},
			{label: T.tenant, cell: (one) => <Str of={one.tenant || T.operator} max={40} />},
			{label: T.scopes, cell: (one) => <span class="dim"><Str of={one.scopes.join(' ')} /></span>},
			{label: T.expires, number: true, cell: (one) => (one.expiresAt ? absolute(one.expiresAt) : <span class="dim">{T.noExpiry}</span>)},
			{label: T.age, number: true, cell: (one) => <Ago of={one.createdAt} />},
		]} acts={(one) => <Do quiet label={T.revoke} name={T.revokeNamed(shown(one.name ?? one.id, 60))} scope="admin" work={async () => setRevoking(one)} />} />}</Listed>
		{isOperator() && <Tenants />}
		{creating && <FormDialog<{key: string}> title={T.createKey} verb={T.create} close={() => setCreating(false)}
			inputs={[{name: 'name', label: T.name, wide: true}, ...(isOperator() ? [{name: 'tenant', label: T.tenant, hint: T.optional}] : []),
				{name: 'expires', label: T.expires, placeholder: T.noExpiry, hint: T.expiresKeyHint},
				...SCOPES.map((scope) => ({name: scope, label: `${T.scope} ${scope}`, kind: 'check' as const, value: ['read', 'make', 'use'].includes(scope) ? '1' : ''}))]}
			act={(values) => {
				const scopes = SCOPES.filter((scope) => values[scope] === '1'), {name, tenant, expires} = values;
				return {method: 'POST', path: '/v1/keys', body: {...(name ? {name} : {}), ...(tenant ? {tenant} : {}), ...(expires ? {expiresIn: expires} : {}), scopes},
					cli: ['key', 'create', ...(name ? ['--name', name] : []), ...(tenant ? ['--tenant', tenant] : []), ...(expires ? ['--expires', expires] : []), ...scopes.flatMap((scope) => ['--scope', scope])]};
			}}
			done={(answer) => {
				list.again();
				setMade(answer);
			}} />}
		{made && <Dialog title={T.keyCreated} close={() => setMade(null)}>
			<p>{T.shownOnce}</p>
			<Field label={T.secret} readOnly value={made.key} onFocus={(event) => event.currentTarget.select()} />
			<div class="foot"><button type="button" class="push" onClick={() => void copyText(made.key)}>{T.copySecret}</button>
				<button type="button" class="primary" onClick={() => setMade(null)}>{T.close}</button></div>
		</Dialog>}
		{revoking && <ConfirmDialog title={T.revokeKey} what={T.revokeWarning} name={revoking.name ?? revoking.id} verb={T.revoke} close={() => setRevoking(null)} done={list.again}
			act={{method: 'DELETE', path: `/v1/keys/${revoking.id}`, cli: ['key', 'rm', revoking.id]}} />}
	</>;
}

const QUOTAS: [string, string, (value: number) => string][] = [
	['boxes', T.sandboxes, count], ['memoryMB', T.memory, (value) => bytes(value * 1048576)], ['cpus', T.cpus, String], ['diskMB', T.disk, (value) => bytes(value * 1048576)],
];

function Tenants() {
	const list = usePoll(async () => (await call<{items: Tenant[]}>('GET', '/v1/tenants')).items, 5000, 'tenants');
	const [creating, setCreating] = useState(false);
	const [removing, setRemoving] = useState<string | null>(null);
	const create = <Do label={T.createTenant} scope="admin" work={async () => setCreating(true)} />;
	return <>
		<div class="head"><h2>{T.tenants}</h2><span class="push" />{list.value?.length !== 0 && create}</div>
		<Listed of={list} empty={T.noTenants} command="cove tenant set acme --memory 8g" add={create}>{(rows) => <Grid label={T.tenants} rows={rows} id={(one) => one.name} columns={[
			{label: T.name, cell: (one) => <b><Str of={one.name} max={63} /></b>},
			...QUOTAS.map(([key, label, text]) => ({label, cell: (one: Tenant) => {
				const used = one.used[key] ?? 0, most = one.quota[key] ?? null;
				return <><span class="number">{text(used)}{most !== null && <span class="dim"> / {text(most)}</span>}</span>
					{most !== null && <Meter label={`${one.name} ${label}`} part={most ? used / most : 1} />}</>;
			}})),
			{label: T.network, minor: true, cell: (one: Tenant) => <Str of={one.network} />},
			{label: T.refused, number: true, minor: true, cell: (one: Tenant) => count(one.refused)},
		]} acts={(one) => <Do quiet label={T.del} name={T.deleteNamed(shown(one.name, 60))} scope="admin" work={async () => setRemoving(one.name)} />} />}</Listed>
		{creating && <FormDialog title={T.createTenant} verb={T.create} close={() => setCreating(false)} done={list.again}
			inputs={[{name: 'name', label: T.name, required: true}, {name: 'boxes', label: T.sandboxes, kind: 'number', placeholder: T.unlimited}, {name: 'memoryMB', label: T.memoryMiB, kind: 'number', placeholder: T.unlimited},
				{name: 'cpus', label: T.cpus, kind: 'number', placeholder: T.unlimited}, {name: 'diskMB', label: T.diskMiB, kind: 'number', placeholder: T.unlimited},
				{name: 'network', label: T.network, value: 'allow', options: [['allow', T.networkAllow], ['all', T.networkAll], ['off', T.networkOff]]}]}
			act={(values) => ({method: 'PUT', path: `/v1/tenants/${encodeURIComponent(values['name'] ?? '')}`,
				body: {network: values['network'], quota: Object.fromEntries(QUOTAS.map(([key]) => [key, values[key]]).filter(([, value]) => value).map(([key, value]) => [key, Number(value)]))}})} />}
		{removing && <ConfirmDialog title={T.deleteTenant} what={T.deleteTenantWarning} name={removing} verb={T.del} close={() => setRemoving(null)} done={list.again}
			act={{method: 'DELETE', path: `/v1/tenants/${encodeURIComponent(removing)}`, cli: ['tenant', 'rm', removing]}} />}
	</>;
}
