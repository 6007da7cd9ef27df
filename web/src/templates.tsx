// Templates, images and snapshots, and the operations that make them.
import {useRef, useState} from 'preact/hooks';
import {call, may} from './api';
import {Create} from './create';
import {bytes, count, shown} from './format';
import {T} from './text';
import {save, sendFile} from './transfer';
import type {Operation, Page, Template} from './types';
import {Ago, ConfirmDialog, Do, FormDialog, Grid, Listed, State, Str, attempt, notify, usePoll} from './ui';

const isOver = (one: Operation): boolean => !['queued', 'running'].includes(one.state);

function Progress({of}: {of: Operation}) {
	const {progress: {phase, bytes: done, total, step, steps, layers}} = of;
	const name = of.image ?? of.template;
	const part = total ? (done ?? 0) / total : steps ? (step ?? 0) / steps : null;
	return <div>
		<progress aria-label={shown(name, 80)} max={1} {...(part === null ? {} : {value: part})} />
		<span class="dim small">{phase}{total ? ` · ${bytes(done)} / ${bytes(total)}` : steps ? ` · ${step} / ${steps}` : ''}
			{layers ? ` · ${layers.filter((one) => one.state === 'done' || one.state === 'present').length} / ${layers.length} ${T.layers}` : ''}</span>
	</div>;
}

export function Templates() {
	const list = usePoll(async () => (await call<Page<Template>>('GET', '/v1/templates')).items, 4000, 'templates');
	const running = usePoll(async () => (await call<Page<Operation>>('GET', '/v1/operations')).items.reverse().slice(0, 20), 1000, 'operations');
	const [dialog, setDialog] = useState<'pull' | null>(null);
	const [removing, setRemoving] = useState<string | null>(null);
	const [creating, setCreating] = useState<string | null>(null);
	const [sending, setSending] = useState('');
	const chooser = useRef<HTMLInputElement>(null);
	const send = async (file: File) => {
		const name = file.name.toLowerCase().replace(/\.(tar|tgz|tar\..*)$/, '').replace(/[^a-z0-9._-]+/g, '-').replace(/^[^a-z0-9]+/, '').slice(0, 62) || 'imported';
		setSending(name);
		await attempt(async () => {
			await sendFile('POST', `/v1/templates?name=${encodeURIComponent(name)}`, file, 'application/x-tar');
			notify(T.done(T.importTemplate, name));
			list.again();
		});
		setSending('');
	};
	const busy = (running.value ?? []).filter((one) => !isOver(one) || one.state === 'failed');
	return <div class="drop" onDragOver={(event) => event.preventDefault()} onDrop={(event) => {
		event.preventDefault();
		const file = event.dataTransfer?.files[0];
		if (file && may('templates'))
			void send(file);
	}}>
		<div class="head"><h1>{T.templates}</h1><span class="dim">{list.value?.length}</span><span class="push" />
			<Do label={T.prune} scope="templates" work={async () => {
				const done = await call<{templates: number; bytes: number}>('POST', '/v1/templates/prune', {});
				notify(T.pruned(done.templates, bytes(done.bytes)));
				list.again();
			}} />
			<Do label={T.importTemplate} scope="templates" work={async () => chooser.current?.click()} />
			<Do label={T.pull} scope="templates" primary work={async () => setDialog('pull')} />
			<input ref={chooser} type="file" class="hidden" tabIndex={-1} aria-label={T.chooseArchive} accept=".tar,.tgz,.gz,.zst,.xz" onChange={(event) => {
				const file = event.currentTarget.files?.[0];
				if (file)
					void send(file);
				event.currentTarget.value = '';
			}} />
		</div>
		<p class="lead">{T.templatesLead}</p>
		{sending && <p class="row"><Str of={T.uploading(sending)} /><span class="grow"><progress aria-label={sending} /></span></p>}
		{busy.length > 0 && <Grid label={T.operations} rows={busy} id={(one) => one.id} columns={[
			{label: T.name, cell: (one) => <Str of={one.image ?? one.template} max={80} />},
			{label: T.state, cell: (one) => <State of={one.state} />},
			{label: T.progress, cell: (one) => (one.error ? <><Str of={one.error.message} max={200} />{one.error.hint && <span class="dim"> <Str of={one.error.hint} max={200} /></span>}</> : <Progress of={one} />)},
			{label: T.age, number: true, cell: (one) => <Ago of={one.createdAt} />},
		]} acts={(one) => !isOver(one) && <Do quiet label={T.cancel} name={T.cancelNamed(shown(one.image ?? one.template, 60))} scope="templates" work={async () => {
			await call('DELETE', `/v1/operations/${one.id}`);
			running.again();
		}} />} />}
		<Listed of={list} empty={T.noTemplates} command="cove template pull python:3.12">{(rows) => <Grid label={T.templates} rows={rows} id={(one) => one.name} columns={[
			{label: T.name, cell: (one) => <><b><Str of={one.name} max={80} /></b>{one.image && one.image !== one.name && <div class="dim small"><Str of={one.image} max={80} /></div>}</>},
			{label: T.kind, cell: (one) => <Str of={one.kind} />},
			{label: T.lineage, minor: true, cell: (one) => <span class="dim"><Str of={one.lineage ? `${one.lineage.template} → ${one.lineage.sandbox.slice(0, 16)}` : one.parent ?? one.platform ?? '–'} max={60} /></span>},
			{label: T.size, number: true, cell: (one) => bytes(one.bytes)},
			{label: T.files, number: true, minor: true, cell: (one) => count(one.files)},
			{label: T.age, number: true, cell: (one) => <Ago of={one.createdAt} />},
		]} acts={(one) => <>
			<Do quiet label={T.createSandbox} name={T.createFrom(shown(one.name, 60))} scope="make" work={async () => setCreating(one.name)} />
			{one.kind !== 'host' && <Do quiet label={T.export} name={T.exportNamed(shown(one.name, 60))} scope="templates"
				work={() => save(`/v1/templates/${encodeURIComponent(one.name)}/export`, `${one.name.replace(/[^\w.-]+/g, '-')}.tar`)} />}
			{one.kind !== 'host' && <Do quiet label={T.del} name={T.deleteNamed(shown(one.name, 60))} scope="templates" work={async () => setRemoving(one.name)} />}
		</>} />}</Listed>
		{dialog === 'pull' && <FormDialog title={T.pull} verb={T.pullVerb} close={() => setDialog(null)} done={() => running.again()} lead={T.pullLead}
			inputs={[{name: 'image', label: T.image, required: true, placeholder: 'python:3.12', wide: true}, {name: 'name', label: T.name, hint: T.optional}, {name: 'platform', label: T.platform, placeholder: 'linux/amd64'}]}
			act={({image, name, platform}) => ({method: 'POST', path: '/v1/templates?wait=false', body: {image, ...(name ? {name} : {}), ...(platform ? {platform} : {})},
				cli: ['template', 'pull', image ?? '', ...(name ? ['--name', name] : []), ...(platform ? ['--platform', platform] : [])]})} />}
		{removing && <ConfirmDialog title={T.deleteTemplate} what={T.deleteTemplateWarning} name={removing} verb={T.del} close={() => setRemoving(null)} done={list.again}
			act={{method: 'DELETE', path: `/v1/templates/${encodeURIComponent(removing)}`, cli: ['template', 'rm', removing]}} />}
		{creating && <Create template={creating} close={() => setCreating(null)} again={() => undefined} />}
	</div>;
}
