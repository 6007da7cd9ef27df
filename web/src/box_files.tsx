// Files of a sandbox: a directory with upload and download, and one file to look at and edit.
import {useEffect, useRef, useState} from 'preact/hooks';
import {Failure, bytesOf, call, may} from './api';
import {bytes, shown} from './format';
import {T} from './text';
import {putText, save} from './transfer';
import type {Box, Entry} from './types';
import {droppedOf, pickedOf, useUploads} from './uploads';
import type {Picked} from './uploads';
import {Ago, ConfirmDialog, Do, Fault, FormDialog, Grid, Link, Listed, Loading, Str, attempt, go, notify, usePoll} from './ui';

const EDIT_MAX = 1 << 20;
const PICTURES: Record<string, string> = {png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp'};

// The path of a file in an address, whatever its bytes are.
function urlPath(entry: {absolutePath: string; pathBase64?: string}): string {
	if (entry.pathBase64) {
		const raw = atob(entry.pathBase64);
		return [...raw].map((one) => (one === '/' ? one : '%' + one.charCodeAt(0).toString(16).padStart(2, '0'))).join('').replace(/^\/+/, '');
	}
	return entry.absolutePath.replace(/^\/+/, '').split('/').map(encodeURIComponent).join('/');
}

const under = (path: string, name: string) => (path === '/' ? '' : path) + '/' + name;
const pageOf = (box: Box, query: Record<string, string>) => `/ui/sandboxes/${box.id}/files?${new URLSearchParams(query)}`;

function OneFile({box, entry, close}: {box: Box; entry: Entry; close: () => void}) {
	const [fault, setFault] = useState<Failure | null>(null);
	const [kind, setKind] = useState<'' | 'text' | 'picture' | 'binary' | 'long'>('');
	const [isChanged, setChanged] = useState(false);
	const [picture, setPicture] = useState('');
	const at = useRef<HTMLDivElement>(null);
	const text = useRef<() => string>(() => '');
	const path = `/v1/sandboxes/${box.id}/api/files/${urlPath(entry)}`;
	useEffect(() => {
		let over = false, end = () => undefined as void;
		const open = async () => {
			const type = PICTURES[entry.name.split('.').pop()?.toLowerCase() ?? ''];
			if (entry.size > (type ? 16 * EDIT_MAX : EDIT_MAX)) {
				setKind('long');
				return;
			}
			const raw = await bytesOf(path);
			if (over)
				return;
			if (type) {
				const url = URL.createObjectURL(new Blob([raw as Uint8Array<ArrayBuffer>], {type}));
				end = () => URL.revokeObjectURL(url);
				setPicture(url);
				setKind('picture');
				return;
			}
			let content: string;
			try {
				content = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(raw);
				if (content.includes('\u0000'))
					throw new Error();
			} catch {
				setKind('binary');
				return;
			}
			setKind('text');
			const {openEditor} = await import('./editor');
			if (over || !at.current)
				return;
			const editor = openEditor(at.current, content, entry.name, T.fileNamed(shown(entry.name, 60)), () => setChanged(true), () => void store());
			text.current = editor.text;
			end = editor.close;
		};
		open().catch((problem: unknown) => setFault(problem instanceof Failure ? problem : new Failure(0, '', String(problem), '', '')));
		return () => {
			over = true;
			end();
		};
	}, [path]);
	const store = async () => {
		await attempt(async () => {
			await putText(path, text.current());
			setChanged(false);
			notify(T.saved(shown(entry.name, 60)));
		});
	};
	return <section class="panel" aria-label={T.fileNamed(shown(entry.name, 60))}>
		<div class="head">
			<h2><Str of={entry.name} max={60} /></h2>
			<span class="dim small">{bytes(entry.size)}{isChanged && ` · ${T.unsaved}`}</span>
			{kind === 'text' && <Do label={T.save} scope="use" primary work={store} />}
			<Do label={T.download} scope="use" work={() => save(path, entry.name)} />
			<button type="button" onClick={close}>{T.close}</button>
		</div>
		{fault && <Fault of={fault} />}
		{!fault && !kind && <Loading />}
		{kind === 'picture' && <img class="shot" src={picture} alt={shown(entry.name, 60)} />}
		{(kind === 'binary' || kind === 'long') && <p class="empty">{kind === 'long' ? T.longFile : T.binaryFile}</p>}
		{kind === 'text' && <div ref={at} class="editor" />}
	</section>;
}

export function Files({box}: {box: Box}) {
	const query = new URLSearchParams(location.search);
	const path = query.get('path') ?? box.workdir, name = query.get('file');
	const list = usePoll(async () => {
		const answer = await call<{files: Entry[]; skipped?: number}>('POST', `/v1/sandboxes/${box.id}/api/list-files`, {path, options: {includeHidden: true}});
		return answer.files.sort((a, b) => Number(b.type === 'directory') - Number(a.type === 'directory') || a.name.localeCompare(b.name));
	}, 10000, box.id + path);
	const [over, setOver] = useState(false);
	const [dialog, setDialog] = useState<'folder' | 'file' | null>(null);
	const [deleting, setDeleting] = useState<Entry | null>(null);
	const chooser = useRef<HTMLInputElement>(null);
	const parts = path.split('/').filter(Boolean);
	const opened = list.value?.find((one) => one.name === name);
	const {send, view} = useUploads(box.id, list.again);
	const sendAll = (files: Picked[]) => void attempt(() => send(files, path));
	return <div class={over ? 'drop over' : 'drop'} onDragOver={(event) => {
		event.preventDefault();
		setOver(true);
	}} onDragLeave={() => setOver(false)} onDrop={(event) => {
		event.preventDefault();
		setOver(false);
		void attempt(async () => send(await droppedOf(event), path));
	}}>
		<div class="head">
			<nav aria-label={T.path} class="path">
				<Link to={pageOf(box, {path: '/'})} {...(parts.length ? {} : {'aria-current': 'page' as const})}>/</Link>
				{parts.map((part, i) => <Link key={i} to={pageOf(box, {path: '/' + parts.slice(0, i + 1).join('/')})}
					{...(i === parts.length - 1 ? {'aria-current': 'page' as const} : {})}><Str of={part} max={40} />{i < parts.length - 1 ? ' /' : ''}</Link>)}
			</nav>
			<Do label={T.newFolder} scope="use" work={async () => setDialog('folder')} />
			<Do label={T.newFile} scope="use" work={async () => setDialog('file')} />
			<Do label={T.downloadFolder} scope="use" work={() => save(`/v1/sandboxes/${box.id}/api/tar?path=${encodeURIComponent(path)}`, `${parts[parts.length - 1] ?? 'files'}.tar`)} />
			<Do label={T.upload} scope="use" primary work={async () => chooser.current?.click()} />
			<input ref={chooser} type="file" multiple class="hidden" aria-label={T.chooseFiles} tabIndex={-1} onChange={(event) => {
				sendAll(pickedOf(event.currentTarget.files ?? []));
				event.currentTarget.value = '';
			}} />
		</div>
		{view}
		{opened && opened.type === 'file' && <OneFile key={opened.absolutePath} box={box} entry={opened} close={() => go(pageOf(box, {path}))} />}
		<Listed of={list} empty={T.noFiles}>{(files) => <Grid label={T.files} rows={files} id={(one) => one.name} columns={[
			{label: T.name, cell: (one) => (one.type === 'directory' || one.type === 'file'
				? <Link to={one.type === 'directory' ? pageOf(box, {path: under(path, one.name)}) : pageOf(box, {path, file: one.name})}>
					<Str of={one.name} max={80} />{one.type === 'directory' && '/'}</Link>
				: <><Str of={one.name} max={80} />{one.target && <span class="dim"> → <Str of={one.target} max={60} /></span>}</>)},
			{label: T.size, number: true, cell: (one) => (one.type === 'file' ? bytes(one.size) : '')},
			{label: T.mode, minor: true, cell: (one) => <code>{one.mode}</code>},
			{label: T.modified, number: true, cell: (one) => <Ago of={one.modifiedAt} />},
		]} acts={(one) => <>
			{one.type === 'file' && <Do quiet label={T.download} name={T.downloadNamed(shown(one.name, 60))} scope="use"
				work={() => save(`/v1/sandboxes/${box.id}/api/files/${urlPath(one)}`, one.name)} />}
			<Do quiet label={T.del} name={T.deleteNamed(shown(one.name, 60))} scope="use" work={async () => setDeleting(one)} />
		</>} />}</Listed>
		{dialog === 'folder' && <FormDialog title={T.newFolder} verb={T.create} close={() => setDialog(null)} done={list.again}
			inputs={[{name: 'name', label: T.folderName, required: true, wide: true}]}
			act={({name: made}) => ({method: 'POST', path: `/v1/sandboxes/${box.id}/api/mkdir`, body: {path: under(path, made ?? '')}, cli: ['exec', box.name ?? box.shortId, '--', 'mkdir', under(path, made ?? '')]})} />}
		{dialog === 'file' && <FormDialog title={T.newFile} verb={T.create} close={() => setDialog(null)}
			inputs={[{name: 'name', label: T.fileName, required: true, wide: true}]}
			done={(_, {name: made}) => {
				list.again();
				go(pageOf(box, {path, file: made ?? ''}));
			}}
			act={({name: made}) => ({method: 'POST', path: `/v1/sandboxes/${box.id}/api/write`, body: {path: under(path, made ?? ''), content: ''}, cli: ['exec', box.name ?? box.shortId, '--', 'touch', under(path, made ?? '')]})} />}
		{deleting && <ConfirmDialog title={T.deleteFile} what={T.deleteFileWarning} name={deleting.name} verb={T.del} close={() => setDeleting(null)} done={list.again}
			act={{method: 'DELETE', path: `/v1/sandboxes/${box.id}/api/files/${urlPath(deleting)}?recursive=1`, cli: ['exec', box.name ?? box.shortId, '--', 'rm', '-r', deleting.absolutePath]}} />}
		{!may('use') && <p class="dim">{T.noScope('use')}</p>}
	</div>;
}
