// What is done with many sandboxes: eight at a time, with its progress, an end, and what was refused.
import {useEffect, useRef, useState} from 'preact/hooks';
import {Failure, call} from './api';
import {shown} from './format';
import {BACK, nameOf} from './sandboxes';
import {T} from './text';
import type {Row} from './types';
import {CopyButtons, Dialog, Do, Field, Str, notify} from './ui';

const AT_ONCE = 8;

interface Round {
	verb: string;
	total: number;
	done: number;
	failed: {row: Row; why: string}[];
	isOver: boolean;
}

const VERBS: [string, string][] = [['start', T.start], ['stop', T.stop], ['pause', T.pause], ['resume', T.resume]];

function DeleteMany({rows, close, go}: {rows: readonly Row[]; close: () => void; go: () => void}) {
	const [typed, setTyped] = useState('');
	const cancel = useRef<HTMLButtonElement>(null);
	useEffect(() => cancel.current?.focus(), []);
	return <Dialog title={T.deleteMany(rows.length)} close={close}>
		<p>{T.deleteManyWarning}</p>
		<ul class="plain scroll">{rows.slice(0, 200).map((row) => <li key={row.id}><Str of={nameOf(row)} max={63} /></li>)}</ul>
		<Field label={T.confirmMany(rows.length)} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
		<div class="foot">
			<CopyButtons act={() => ({method: 'DELETE', path: `/v1/sandboxes/${rows[0]?.id}`, cli: ['rm', '--force', ...rows.map((row) => row.id)]})} cliOnly={rows.length > 1} />
			<button type="button" class="push" ref={cancel} onClick={close}>{T.cancel}</button>
			<button type="button" class="danger" disabled={typed !== T.deleteWord(rows.length)} onClick={() => {
				close();
				go();
			}}>{T.del}</button>
		</div>
	</Dialog>;
}

// `keep` is given the ids that stay selected: those that were refused.
export function Bulk({rows, clear, keep}: {rows: readonly Row[]; clear: () => void; keep: (ids: string[]) => void}) {
	const [round, setRound] = useState<Round | null>(null);
	const [deleting, setDeleting] = useState<readonly Row[] | null>(null);
	const isStopped = useRef(false);
	const run = async (verb: string, label: string, all: readonly Row[]) => {
		const own: Round = {verb: label, total: all.length, done: 0, failed: [], isOver: false};
		const queue = [...all];
		isStopped.current = false;
		const worker = async () => {
			for (let row = queue.shift(); row && !isStopped.current; row = queue.shift()) {
				try {
					if (verb === 'delete')
						await call('DELETE', `/v1/sandboxes/${row.id}`);
					else
						await call('POST', `/v1/sandboxes/${row.id}/${verb}`);
					own.done++;
				} catch (fault) {
					own.failed.push({row, why: fault instanceof Failure ? fault.message : String(fault)});
				}
				setRound({...own});
			}
		};
		setRound({...own});
		await Promise.all(Array.from({length: AT_ONCE}, worker));
		setRound({...own, isOver: true});
		const back = BACK[verb], done = all.filter((row) => !queue.includes(row) && !own.failed.some((one) => one.row === row));
		notify(T.done(label, T.manySandboxes(own.done)), back && done.length ? () => void run(back, T.undo, done) : undefined);
		keep([...own.failed.map((one) => one.row.id), ...queue.map((row) => row.id)]);
	};
	const isBusy = round !== null && !round.isOver;
	return <div role="toolbar" aria-label={T.bulkActions} class="bulk">
		<span role="status" class="number">{round ? T.bulkProgress(round.verb, round.done, round.total, round.failed.length) : T.selected(rows.length)}</span>
		{isBusy ? <button type="button" onClick={() => {
			isStopped.current = true;
		}}>{T.endRound}</button> : <>
			{VERBS.map(([verb, label]) => <Do key={verb} label={label} scope="make" work={() => run(verb, label, rows)} />)}
			<Do label={T.del} scope="make" work={async () => setDeleting(rows)} />
			<button type="button" class="quiet push" onClick={clear}>{T.clearSelection}</button>
		</>}
		{isBusy && <progress aria-label={round.verb} max={round.total} value={round.done + round.failed.length} />}
		{round?.failed.length ? <ul class="plain scroll">{round.failed.map(({row, why}) => <li key={row.id}><Str of={nameOf(row)} max={63} /> <span class="dim"><Str of={shown(why, 200)} /></span></li>)}</ul> : null}
		{deleting && <DeleteMany rows={deleting} close={() => setDeleting(null)} go={() => void run('delete', T.del, deleting)} />}
	</div>;
}
