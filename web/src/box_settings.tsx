// What can be changed of a sandbox, and what is made of it.
import {useRef, useState} from 'preact/hooks';
import {call, may} from './api';
import {bytes, count, labelText, readLabels, shown, span} from './format';
import {nameOf} from './sandboxes';
import {T} from './text';
import type {Box} from './types';
import {DeleteDialog, Do, Field, FormDialog, Str, attempt, go, notify} from './ui';

// Pairs of a text with one NAME=VALUE a line; null: malformed.
export function readPairs(text: string): Record<string, string> | null {
	const pairs: Record<string, string> = {};
	for (const line of text.split('\n').filter((one) => one.trim())) {
		const at = line.indexOf('=');
		if (at < 1)
			return null;
		pairs[line.slice(0, at).trim()] = line.slice(at + 1);
	}
	return pairs;
}

const LIMITS: [string, string, (value: number) => string][] = [
	['memoryMB', T.memory, (value) => bytes(value * 1048576)], ['cpus', T.cpus, String], ['pids', T.processes, count],
	['diskMB', T.disk, (value) => bytes(value * 1048576)], ['inodes', T.inodes, count], ['outputMB', T.output, (value) => bytes(value * 1048576)],
	['ioMBps', 'I/O', (value) => `${bytes(value * 1048576)}/s`], ['cpuTimeMs', T.cpuTime, span], ['wallTimeMs', T.wallTime, span],
];

export function Limits({box}: {box: Box}) {
	return <dl class="facts">{LIMITS.map(([key, label, text]) => {
		const value = box.limits[key];
		return <><dt key={key}>{label}</dt><dd class="number">{value === null || value === undefined ? <span class="dim">{T.unlimited}</span> : text(value)}</dd></>;
	})}</dl>;
}

export function BoxSettings({box, again}: {box: Box; again: () => void}) {
	const form = useRef<HTMLFormElement>(null);
	const [dialog, setDialog] = useState<'snapshot' | 'fork' | 'delete' | null>(new URLSearchParams(location.search).has('delete') && may('make') ? 'delete' : null);
	const path = `/v1/sandboxes/${box.id}`, name = box.name ?? box.shortId;
	const store = async () => {
		const data = new FormData(form.current ?? undefined);
		const text = (key: string) => String(data.get(key) ?? '').trim();
		const labels = readLabels(text('labels')), env = readPairs(String(data.get('env') ?? ''));
		if (!labels || !env) {
			notify(labels ? T.badEnv : T.badLabels, undefined, true);
			return;
		}
		// null removes a label.
		const changes = (to: Record<string, string>, from: Record<string, string>) =>
			({...Object.fromEntries(Object.keys(from).filter((key) => !(key in to)).map((key) => [key, null])), ...to});
		const body = {
			labels: changes(labels, box.labels), keepAlive: data.get('keepAlive') === '1',
			...(text('sleepAfter') && text('sleepAfter') !== box.sleepAfter ? {sleepAfter: text('sleepAfter')} : {}),
			...(text('ttl') ? {ttl: text('ttl')} : {}), ...(Object.keys(env).length ? {env} : {}),
		};
		await call('PATCH', path, body);
		again();
		notify(T.changed, () => void attempt(async () => {
			await call('PATCH', path, {labels: changes(box.labels, labels), keepAlive: box.keepAlive, ...(box.sleepAfter ? {sleepAfter: box.sleepAfter} : {})});
			again();
		}));
	};
	return <>
		<div class="columns">
			<form ref={form} class="panel" aria-label={T.settings} onSubmit={(event) => event.preventDefault()}>
				<Field label={T.labels} name="labels" hint={T.labelsHint} defaultValue={labelText(box.labels)} key={labelText(box.labels)} />
				<div class="fields">
					<Field label={T.sleepAfter} name="sleepAfter" hint={T.sleepHint} defaultValue={box.sleepAfter ?? ''} />
					<Field label={T.deleteAfter} name="ttl" hint={T.ttlHint} />
				</div>
				<div class="field check"><input id="keep" type="checkbox" name="keepAlive" value="1" defaultChecked={box.keepAlive} /><label for="keep">{T.keepAlive}</label></div>
				<div class="field"><label for="env">{T.environment}</label><textarea id="env" name="env" rows={3} spellcheck={false} aria-describedby="env-hint" />
					<span class="hint" id="env-hint">{T.envHint}</span></div>
				<div class="row end"><Do label={T.saveChanges} scope="make" primary work={store} /></div>
			</form>
			<div class="panel"><h2>{T.limits}</h2><Limits box={box} /></div>
		</div>
		<div class="columns">
			<div class="panel"><h2>{T.snapshotBox}</h2><p class="dim">{T.snapshotHint}</p><Do label={T.snapshotBox} scope="templates" work={async () => setDialog('snapshot')} /></div>
			<div class="panel"><h2>{T.forkBox}</h2><p class="dim">{T.forkHint}</p><Do label={T.forkBox} scope="make" work={async () => setDialog('fork')} /></div>
			<div class="panel"><h2>{T.dangerZone}</h2><p class="dim">{T.deleteWarning}</p><Do label={T.deleteSandbox} scope="make" work={async () => setDialog('delete')} /></div>
		</div>
		{dialog === 'snapshot' && <FormDialog<{name: string}> title={T.snapshotBox} verb={T.create} lead={T.snapshotHint} close={() => setDialog(null)}
			inputs={[{name: 'name', label: T.name, hint: T.optional, wide: true}]}
			act={({name: made}) => ({method: 'POST', path: path + '/snapshot', body: made ? {name: made} : {}, cli: ['snapshot', name, ...(made ? [made] : [])]})}
			done={(made) => notify(T.done(T.snapshotBox, shown(made.name)))} />}
		{dialog === 'fork' && <FormDialog<unknown> title={T.forkBox} verb={T.create} lead={T.forkHint} close={() => setDialog(null)}
			inputs={[{name: 'name', label: T.name, hint: T.optional}, {name: 'count', label: T.count, kind: 'number', value: '1'}]}
			act={({name: made, count: many}) => ({method: 'POST', path: path + '/fork', body: {count: Number(many) || 1, ...(made ? {name: made} : {})},
				cli: ['fork', name, '--count', many || '1', ...(made ? ['--name', made] : [])]})}
			done={() => {
				notify(T.done(T.forkBox, shown(nameOf(box))));
				go('/ui/sandboxes');
			}} />}
		{dialog === 'delete' && <DeleteDialog path={path} name={shown(nameOf(box)) === nameOf(box) ? nameOf(box) : box.shortId} close={() => setDialog(null)} done={() => go('/ui/sandboxes')} />}
		{box.volumes?.length ? <div class="panel"><h2>{T.volumes}</h2><ul class="plain">{box.volumes.map((one) => <li key={one.id}><Str of={one.name} /> <code><Str of={one.path} /></code></li>)}</ul></div> : null}
	</>;
}
