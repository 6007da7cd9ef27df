// A log of any length: all its lines are kept, those that are seen are in the page. It follows its end
// until somebody scrolls up; a search counts the lines of all of it.
import {useEffect, useLayoutEffect, useRef, useState} from 'preact/hooks';
import {bytesOf} from './api';
import {count, plainLog} from './format';
import {T} from './text';
import {save} from './transfer';
import {Do, Fault, usePoll} from './ui';

const LINES_MAX = 1000000;
const LINE = 20; // px, as in style.css
const AROUND = 20; // lines above and below the ones that are seen

interface Kept {
	offset: number;
	dropped: number; // lines before the first that is kept
	lines: string[];
	rest: string;
	decoder: TextDecoder;
}

// What a terminal would show of a line: what follows the last carriage return.
function lineOf(text: string): string {
	const whole = text.endsWith('\r') ? text.slice(0, -1) : text;
	return plainLog(whole.slice(whole.lastIndexOf('\r') + 1)).slice(0, 20000);
}

function append(kept: Kept, bytes: Uint8Array): void {
	const parts = (kept.rest + kept.decoder.decode(bytes, {stream: true})).split('\n');
	kept.rest = parts.pop() ?? '';
	for (const part of parts)
		kept.lines.push(lineOf(part));
	const over = kept.lines.length - LINES_MAX;
	if (over > 0) {
		kept.lines.splice(0, over);
		kept.dropped += over;
	}
	kept.offset += bytes.length;
}

export function Log({path, name, over}: {path: string; name: string; over: boolean}) {
	const kept = useRef<Kept>({offset: 0, dropped: 0, lines: [], rest: '', decoder: new TextDecoder()});
	const at = useRef<HTMLDivElement>(null);
	const [follow, setFollow] = useState(!/^#L\d+$/.test(location.hash));
	const seen = useRef(0);
	const [top, setTop] = useState(0);
	const [query, setQuery] = useState('');
	const [hit, setHit] = useState(-1);
	const [, redraw] = useState(0);
	const {fault, again} = usePoll(async () => {
		let before, rounds = 0;
		do {
			before = kept.current.offset;
			const part = await bytesOf(`${path}?offset=${before}`);
			if (part.length) {
				append(kept.current, part);
				redraw((old) => old + 1);
			}
		} while (kept.current.offset > before && ++rounds < 64);
		return true;
	}, over ? 30000 : 1000, `log ${path} ${over}`);
	const lines = kept.current.rest ? [...kept.current.lines, lineOf(kept.current.rest)] : kept.current.lines;
	const wanted = query.toLowerCase();
	const hits: number[] = [];
	if (wanted)
		for (let i = 0; i < lines.length; i++)
			if (lines[i]?.toLowerCase().includes(wanted))
				hits.push(i);
	const show = (line: number) => {
		setFollow(false);
		if (at.current)
			at.current.scrollTop = Math.max(0, line * LINE - at.current.clientHeight / 2);
	};
	useEffect(() => {
		const asked = /^#L(\d+)$/.exec(location.hash);
		if (asked && lines.length)
			show(Number(asked[1]) - 1 - kept.current.dropped);
	}, [lines.length > 0]);
	const height = at.current?.clientHeight ?? 600;
	const first = Math.max(0, Math.min(Math.floor(top / LINE), lines.length) - AROUND);
	const last = Math.min(lines.length, Math.ceil((top + height) / LINE) + AROUND);
	const inner = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		if (inner.current) {
			inner.current.style.setProperty('block-size', `${lines.length * LINE}px`);
			inner.current.style.setProperty('padding-block-start', `${first * LINE}px`);
		}
		if (follow && at.current)
			at.current.scrollTop = at.current.scrollHeight;
	});
	return <section class="panel" aria-label={T.log}>
		<div class="head"><h2>{T.log}</h2>
			<input type="search" class="narrow" aria-label={T.searchLog} placeholder={T.searchLog} value={query} onInput={(event) => {
				setQuery(event.currentTarget.value);
				setHit(-1);
			}} onKeyDown={(event) => {
				if (event.key !== 'Enter' || !hits.length)
					return;
				const next = (hit + (event.shiftKey ? hits.length - 1 : 1)) % hits.length;
				setHit(next);
				show(hits[next] ?? 0);
			}} />
			<span role="status" class="note">{wanted && T.matchingLines(count(hits.length))}</span>
			<span class="push" />
			{!follow && <button type="button" onClick={() => setFollow(true)}>{T.jumpToLatest}</button>}
			<Do label={T.downloadLog} scope="use" work={() => save(path, `${name}.log`)} />
		</div>
		{fault && fault.status !== 404 && <Fault of={fault} again={again} />}
		<div role="log" aria-label={T.log} tabIndex={0} ref={at} data-lines={lines.length} class="lines" onScroll={(event) => {
			const el = event.currentTarget;
			if (el.scrollHeight - el.scrollTop - el.clientHeight < LINE * 1.5)
				setFollow(true);
			else if (el.scrollTop < seen.current)
				setFollow(false);
			seen.current = el.scrollTop;
			setTop(el.scrollTop);
		}}>
			{lines.length ? <div ref={inner} class="inner">{lines.slice(first, last).map((line, i) => {
				const number = kept.current.dropped + first + i + 1;
				return <div key={number} class={wanted && line.toLowerCase().includes(wanted) ? hits[hit] === first + i ? 'line hit now' : 'line hit' : 'line'}>
					<a class="at" href={`#L${number}`} tabIndex={-1} aria-hidden="true" onClick={(event) => {
						event.preventDefault();
						history.replaceState(null, '', `#L${number}`);
					}}>{number}</a><bdi>{line}</bdi></div>;
			})}</div> : <p class="dim">{T.logEmpty}</p>}
		</div>
	</section>;
}
