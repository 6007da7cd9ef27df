// A terminal in a page: the terminal itself, its search, the question before pasting several lines,
// and uploads of files that are dropped on it, to /workspace.
import {useEffect, useRef, useState} from 'preact/hooks';
import {shown} from './format';
import {T} from './text';
import type {Pane} from './terminal';
import {upload} from './transfer';
import {Dialog, attempt, notify} from './ui';

type Status = 'connecting' | 'connected' | 'reconnecting' | 'ended';

const PASTE_SHOWN = 4000;

function PasteDialog({text, close, paste}: {text: string; close: () => void; paste: () => void}) {
	const cancel = useRef<HTMLButtonElement>(null);
	useEffect(() => cancel.current?.focus(), []);
	return <Dialog title={T.pasteLines} close={close}>
		<p>{T.pasteWarning}</p>
		<pre class="log" tabIndex={0}><bdi>{text.split(/\r\n|\r|\n/).map((line) => shown(line, PASTE_SHOWN)).join('\n').slice(0, PASTE_SHOWN)}</bdi></pre>
		<p class="row">
			<button type="button" ref={cancel} onClick={close}>{T.cancel}</button>
			<button type="button" class="primary" onClick={() => {
				close();
				paste();
			}}>{T.paste}</button>
		</p>
	</Dialog>;
}

async function send(box: string, files: readonly File[]): Promise<void> {
	for (const file of files) {
		await upload(`/v1/sandboxes/${box}/api/files/workspace/${encodeURIComponent(file.name)}`, file, false, () => undefined,
			new AbortController().signal);
		notify(T.uploaded(shown('/workspace/' + file.name)));
	}
}

export function Terminal({id}: {id: string}) {
	const at = useRef<HTMLDivElement>(null);
	const pane = useRef<Pane | null>(null);
	const files = useRef<HTMLInputElement>(null);
	const [status, setStatus] = useState<Status>('connecting');
	const [round, setRound] = useState(0);
	const [query, setQuery] = useState<string | null>(null);
	const [paste, setPaste] = useState<{text: string; go: () => void} | null>(null);
	useEffect(() => {
		let over = false;
		setStatus('connecting');
		void import('./terminal').then(({openTerminal}) => {
			if (!over && at.current)
				pane.current = openTerminal(at.current, id, setStatus, {ask: (text, go) => setPaste({text, go}), search: () => setQuery((old) => old ?? '')});
		}).catch(() => setStatus('ended'));
		return () => {
			over = true;
			pane.current?.close();
			pane.current = null;
		};
	}, [id, round]);
	const drop = (event: DragEvent) => {
		const dropped = [...event.dataTransfer?.files ?? []];
		event.preventDefault();
		if (dropped.length)
			void attempt(() => send(id, dropped));
	};
	return <>
		<div class="head">
			<button type="button" aria-expanded={query !== null} onClick={() => setQuery(query === null ? '' : null)}>{T.search}</button>
			<button type="button" onClick={() => files.current?.click()}>{T.uploadFiles}</button>
			<input type="file" multiple hidden ref={files} aria-label={T.chooseFiles} onChange={(event) => {
				const chosen = [...event.currentTarget.files ?? []];
				event.currentTarget.value = '';
				void attempt(() => send(id, chosen));
			}} />
			{query !== null && <input type="search" aria-label={T.searchTerminal} placeholder={T.searchTerminal} value={query} onInput={(event) => {
				setQuery(event.currentTarget.value);
				pane.current?.find(event.currentTarget.value, false);
			}} onKeyDown={(event) => {
				if (event.key === 'Enter')
					pane.current?.find(query, event.shiftKey);
				if (event.key === 'Escape') {
					setQuery(null);
					pane.current?.focus();
				}
			}} />}
		</div>
		<div ref={at} data-testid="terminal" data-status={status} class="pane" onDragOver={(event) => event.preventDefault()} onDrop={drop} />
		{status === 'ended' && <p class="row">{T.ended} <button type="button" onClick={() => setRound(round + 1)}>{T.restart}</button></p>}
		{status === 'reconnecting' && <p role="status">{T.reconnecting}</p>}
		{paste && <PasteDialog text={paste.text} close={() => {
			setPaste(null);
			pane.current?.focus();
		}} paste={paste.go} />}
	</>;
}
