// A log of any length: all its lines are kept, those that are seen are in the page. It follows its end
// until somebody scrolls up; a search counts the lines of all of it.
import {useEffect, useLayoutEffect, useRef, useState} from 'preact/hooks';
import {pieces, plainLine} from './ansi';
import {bytesOf} from './api';
import {count} from './format';
import {T} from './text';
import {save} from './transfer';
import {Do, Fault, Select, usePoll} from './ui';

const LINES_MAX = 1000000;
const LINE = 20; // px, as in style.css
const AROUND = 20; // lines above and below the ones that are seen

interface Kept {
	offset: number;
	dropped: number; // lines before the first that is kept
	lines: string[]; // as text
	coloured: Map<number, string>; // as they came, by their numbers from 0 on: those with colours
	rest: string;
	decoder: TextDecoder;
}

const empty = (): Kept => ({offset: 0, dropped: 0, lines: [], coloured: new Map(), rest: '', decoder: new TextDecoder()});

function append(kept: Kept, bytes: Uint8Array): void {
	const parts = (kept.rest + kept.decoder.decode(bytes, {stream: true})).split('\n');
	kept.rest = parts.pop() ?? '';
	for (const part of parts) {
		if (part.includes('\u001b['))
			kept.coloured.set(kept.dropped + kept.lines.length, part);
		kept.lines.push(plainLine(part));
	}
	const over = kept.lines.length - LINES_MAX;
	if (over > 0) {
		kept.lines.splice(0, over);
		kept.dropped += over;
		for (const number of kept.coloured.keys()) {
			if (number >= kept.dropped)
				break;
			kept.coloured.delete(number);
		}
	}
	kept.offset += bytes.length;
}

function Pieces({raw}: {raw: string}) {
	return <>{pieces(raw).map((one, i) => <span key={i} class={one.style || undefined} style={{...(one.colour ? {color: one.colour} : {}), ...(one.back ? {backgroundColor: one.back} : {})}}>{one.text}</span>)}</>;
}

const STREAMS = [['', T.bothStreams], ['stdout', 'stdout'], ['stderr', 'stderr']] as const;

export function Log({path, name, over}: {path: string; name: string; over: boolean}) {
	const kept = useRef<Kept>(empty());
	const [stream, setStream] = useState('');
	const [chosen, setChosen] = useState<number | null>(Number(/^#L(\d+)$/.exec(location.hash)?.[1]) || null);
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
			const part = await bytesOf(`${path}?offset=${before}${stream && `&stream=${stream}`}`);
			if (part.length) {
				append(kept.current, part);
				redraw((old) => old + 1);
			}
		} while (kept.current.offset > before && ++rounds < 64);
		return true;
	}, over ? 30000 : 1000, `log ${path} ${over} ${stream}`);
	const lines = kept.current.rest ? [...kept.current.lines, plainLine(kept.current.rest)] : kept.current.lines;
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
			<Select label={T.stream} options={STREAMS} value={stream} pick={(next) => {
				kept.current = empty();
				setChosen(null);
				setStream(next);
			}} />
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
				return <div key={number} class={wanted && line.toLowerCase().includes(wanted) ? hits[hit] === first + i ? 'line hit now' : 'line hit' : number === chosen ? 'line now' : 'line'}>
					<a class="at" href={`#L${number}`} tabIndex={-1} aria-hidden="true" onClick={(event) => {
						event.preventDefault();
						history.replaceState(null, '', `#L${number}`);
						setChosen(chosen === number ? null : number);
					}}>{number}</a><bdi>{kept.current.coloured.has(number - 1) ? <Pieces raw={kept.current.coloured.get(number - 1) ?? ''} /> : line}</bdi></div>;
			})}</div> : <p class="dim">{T.logEmpty}</p>}
		</div>
		{chosen !== null && lines[chosen - 1 - kept.current.dropped] !== undefined && <div class="chosen"><span class="note">{T.lineNamed(count(chosen))}</span>
			<pre class="log" tabIndex={0}><bdi>{lines[chosen - 1 - kept.current.dropped]}</bdi></pre></div>}
	</section>;
}
