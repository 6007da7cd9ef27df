// Files and folders that are dropped or chosen: sent one after another, each with its progress and an
// end; a file that is there already is replaced only when that was said.
import type {ComponentChildren} from 'preact';
import {useRef, useState} from 'preact/hooks';
import {Failure, call} from './api';
import {shown} from './format';
import {T} from './text';
import {upload} from './transfer';
import {Dialog, Str, notify} from './ui';

export interface Picked {
	file: File;
	path: string; // beneath the directory that it is sent to
}

const FILES_MAX = 10000;

export const pickedOf = (files: Iterable<File>): Picked[] => [...files].map((file) => ({file, path: file.webkitRelativePath || file.name}));

const entriesOf = (folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> => {
	const reader = folder.createReader(), all: FileSystemEntry[] = [];
	return new Promise((go, fail) => {
		const more = () => reader.readEntries((part) => {
			all.push(...part);
			if (part.length && all.length < FILES_MAX)
				more();
			else
				go(all);
		}, fail);
		more();
	});
};

async function walk(entry: FileSystemEntry, at: string, found: Picked[]): Promise<void> {
	if (found.length >= FILES_MAX)
		return;
	if (entry.isDirectory) {
		for (const one of await entriesOf(entry as FileSystemDirectoryEntry))
			await walk(one, `${at}${entry.name}/`, found);
		return;
	}
	const file = await new Promise<File>((go, fail) => (entry as FileSystemFileEntry).file(go, fail));
	found.push({file, path: at + entry.name});
}

// What was dropped, folders with all that is in them. The entries must be taken while the event lasts.
export async function droppedOf(event: DragEvent): Promise<Picked[]> {
	const items = [...event.dataTransfer?.items ?? []], files = [...event.dataTransfer?.files ?? []];
	const entries = items.map((item) => item.webkitGetAsEntry?.() ?? null);
	if (!entries.some((one) => one?.isDirectory))
		return pickedOf(files);
	const found: Picked[] = [];
	for (const entry of entries)
		if (entry)
			await walk(entry, '', found);
	return found;
}

interface Sending {
	name: string;
	part: number;
	stop: AbortController;
}

const urlOf = (box: string, path: string): string => `/v1/sandboxes/${box}/api/files/${path.replace(/^\/+/, '').split('/').map(encodeURIComponent).join('/')}`;

// `told` is called after each file.
export function useUploads(box: string, told: () => void): {send: (files: Picked[], folder: string) => Promise<void>; view: ComponentChildren} {
	const [sending, setSending] = useState<Sending[]>([]);
	const [replacing, setReplacing] = useState<{one: Picked; folder: string; go: (isYes: boolean) => void} | null>(null);
	const isStopped = useRef(false);
	const sendOne = async (one: Picked, folder: string, replace: boolean): Promise<void> => {
		const to = `${folder === '/' ? '' : folder}/${one.path}`, own: Sending = {name: one.path, part: 0, stop: new AbortController()};
		setSending((all) => [...all, own]);
		try {
			await upload(urlOf(box, to), one.file, replace, (part) => {
				own.part = part;
				setSending((all) => [...all]);
			}, own.stop.signal);
			notify(T.uploaded(shown(to, 80)));
			told();
		} catch (fault) {
			if (fault instanceof Failure && fault.code === 'file_exists') {
				setSending((all) => all.filter((each) => each !== own));
				if (await new Promise<boolean>((go) => setReplacing({one, folder, go})))
					await sendOne(one, folder, true);
				return;
			}
			if (own.stop.signal.aborted)
				isStopped.current = true;
			else
				notify(fault instanceof Failure ? fault.message : String(fault), undefined, true);
		} finally {
			setSending((all) => all.filter((each) => each !== own));
		}
	};
	const send = async (files: Picked[], folder: string) => {
		const made = new Set<string>();
		isStopped.current = false;
		for (const one of files) {
			const parent = one.path.slice(0, Math.max(0, one.path.lastIndexOf('/')));
			if (isStopped.current)
				return;
			if (parent && !made.has(parent)) {
				await call('POST', `/v1/sandboxes/${box}/api/mkdir`, {path: `${folder === '/' ? '' : folder}/${parent}`, recursive: true});
				made.add(parent);
			}
			await sendOne(one, folder, false);
		}
	};
	const answer = (isYes: boolean) => {
		replacing?.go(isYes);
		setReplacing(null);
	};
	const view = <>
		{sending.map((one) => <p key={one.name} class="row"><span><Str of={T.uploading(one.name)} max={80} /></span>
			<span class="grow"><progress aria-label={T.uploading(shown(one.name, 60))} max={1} value={one.part} /></span>
			<button type="button" aria-label={T.cancelNamed(shown(one.name, 60))} onClick={() => one.stop.abort()}>{T.cancel}</button></p>)}
		{replacing && <Dialog title={T.replaceQuestion(shown(replacing.one.path, 60))} close={() => answer(false)}>
			<p>{T.replaceWarning}</p>
			<div class="foot">
				<button type="button" class="push" onClick={() => answer(false)}>{T.cancel}</button>
				<button type="button" class="danger" onClick={() => answer(true)}>{T.replace}</button>
			</div>
		</Dialog>}
	</>;
	return {send, view};
}
