// What was used, what it cost, and budgets.
import {useState} from 'preact/hooks';
import {call} from './api';
import {bytes, count} from './format';
import {isOperator} from './pages';
import {T} from './text';
import {save} from './transfer';
import type {Budget, Usage} from './types';
import {ConfirmDialog, Do, Fault, FormDialog, Grid, Listed, Loading, Meter, Select, State, Str, go, usePoll} from './ui';

const GROUPS = [['tenant', T.tenant], ['sandbox', T.sandbox], ['type', T.type], ['day', T.day], ['execution', T.execution], ['owner', T.owner]] as const;
const RANGES = [['1', T.lastDay], ['7', T.lastWeek], ['30', T.lastMonth]] as const;

function seconds(value: number): string {
	return value < 120 ? `${value.toFixed(1)} s` : value < 7200 ? `${(value / 60).toFixed(1)} min` : `${(value / 3600).toFixed(1)} h`;
}

export function Usages() {
	const query = new URLSearchParams(location.search);
	const by = query.get('by') ?? 'tenant', days = query.get('days') ?? '30';
	const params = () => `by=${encodeURIComponent(by)}&from=${encodeURIComponent(new Date(Date.now() - Number(days) * 86400000).toISOString())}`;
	const {value, fault, again} = usePoll(() => call<Usage>('GET', `/v1/usage?${params()}&limit=200`), 10000, `usage ${by} ${days}`);
	const show = (next: {by?: string; days?: string}) => go('/ui/usage?' + new URLSearchParams({by, days, ...next}));
	const money = (cost: string) => (value?.currency ? `${Number(cost).toFixed(4)} ${value.currency}` : '–');
	const total = value?.total;
	return <>
		<div class="head"><h1>{T.usage}</h1><Do label={T.exportCsv} scope="read" work={() => save(`/v1/usage?${params()}&format=csv`, `usage-${by}.csv`)} /></div>
		<div class="row">
			<Select label={T.groupBy} options={GROUPS} value={by} pick={(next) => show({by: next})} />
			<Select label={T.period} options={RANGES} value={days} pick={(next) => show({days: next})} />
		</div>
		{fault && <Fault of={fault} again={again} />}
		{!value && !fault && <Loading />}
		{total && <div class="tiles">
			{([[T.cost, money(total.cost)], [T.cpuTime, seconds(total.cpuSeconds)], [T.memory, T.gibHours((total.memoryGiBSeconds / 3600).toFixed(2))], [T.disk, T.gibHours(total.diskGiBHours.toFixed(2))],
				[T.requests, count(total.requests)], [T.received, bytes(total.bytesIn)], [T.sandboxes, count(total.sandboxes)]] as const).map(([label, text]) =>
				<div class="tile" key={label}><span>{label}</span><b>{text}</b></div>)}
		</div>}
		{value && value.items.length > 0 && <Grid label={T.usage} rows={value.items} id={(one) => one.key ?? ''} columns={[
			{label: GROUPS.find(([key]) => key === by)?.[1] ?? T.name, cell: (one) => <Str of={one.key || T.noKey} max={63} />},
			{label: T.cpuTime, number: true, cell: (one) => seconds(one.cpuSeconds)},
			{label: T.memory, number: true, cell: (one) => T.gibHours((one.memoryGiBSeconds / 3600).toFixed(2))},
			{label: T.disk, number: true, minor: true, cell: (one) => T.gibHours(one.diskGiBHours.toFixed(2))},
			{label: T.requests, number: true, minor: true, cell: (one) => count(one.requests)},
			{label: T.received, number: true, minor: true, cell: (one) => bytes(one.bytesIn)},
			{label: T.sandboxes, number: true, cell: (one) => count(one.sandboxes)},
			{label: T.cost, number: true, hide: !value.currency, cell: (one) => money(one.cost)},
		]} />}
		<Budgets />
	</>;
}

function Budgets() {
	const list = usePoll(async () => (await call<{items: Budget[]}>('GET', '/v1/budgets')).items, 10000, 'budgets');
	const [setting, setSetting] = useState(false);
	const [removing, setRemoving] = useState<string | null>(null);
	const set = isOperator() && <Do label={T.setBudget} scope="admin" work={async () => setSetting(true)} />;
	return <>
		<div class="head"><h2>{T.budgets}</h2><span class="push" />{list.value?.length !== 0 && set}</div>
		<Listed of={list} empty={T.noBudgets} command="cove budget set acme --tenant acme --cpu 36000" add={set}>{(rows) => <Grid label={T.budgets} rows={rows} id={(one) => one.name} columns={[
			{label: T.name, cell: (one) => <b><Str of={one.name} max={63} /></b>},
			{label: T.state, cell: (one) => <State of={one.state} />},
			{label: T.applies, cell: (one) => <Str of={Object.entries(one.match).map(([key, value]) => `${key} ${value}`).join(', ')} max={80} />},
			{label: T.period, cell: (one) => one.period},
			{label: T.used, cell: (one) => <div class="row"><span class="grow"><Meter label={one.name} part={one.part} /></span><span class="number">{one.part === null ? '–' : `${Math.round(one.part * 100)} %`}</span></div>},
		]} acts={(one) => isOperator() && <Do quiet label={T.del} name={T.deleteNamed(one.name)} scope="admin" work={async () => setRemoving(one.name)} />} />}</Listed>
		{setting && <FormDialog title={T.setBudget} verb={T.save} close={() => setSetting(false)} done={list.again}
			inputs={[{name: 'name', label: T.name, required: true}, {name: 'period', label: T.period, value: 'month', options: [['day', T.day], ['month', T.month]]},
				{name: 'tenant', label: T.tenant, hint: T.orLabel}, {name: 'label', label: T.label, placeholder: 'team=a'},
				{name: 'cost', label: T.cost, kind: 'number'}, {name: 'cpu', label: T.cpuSeconds, kind: 'number'}, {name: 'requests', label: T.requests, kind: 'number'}]}
			act={({name, period, tenant, label, cost, cpu, requests}) => ({method: 'PUT', path: `/v1/budgets/${encodeURIComponent(name ?? '')}`,
				body: {match: {...(tenant ? {tenant} : {}), ...(label ? {label} : {})}, period, ...(cost ? {cost: Number(cost)} : {}), ...(cpu ? {cpuSeconds: Number(cpu)} : {}), ...(requests ? {requests: Number(requests)} : {})}})} />}
		{removing && <ConfirmDialog title={T.deleteBudget} what={T.deleteBudgetWarning} name={removing} verb={T.del} close={() => setRemoving(null)} done={list.again}
			act={{method: 'DELETE', path: `/v1/budgets/${encodeURIComponent(removing)}`, cli: ['budget', 'rm', removing]}} />}
	</>;
}
