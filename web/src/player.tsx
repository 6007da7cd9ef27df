// A recording (asciicast v2) of a terminal, a process or an execution, played in a terminal of the page:
// speed, pauses cut short, seeking, and an address that names the moment.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {bytesOf} from './api';
import {readCast, shownAt, skipped} from './cast';
import type {Cast} from './cast';
import {minutes} from './format';
import {T} from './text';
import type {Screen} from './terminal';
import {Check, Failure, Fault, Loading, Select, asFailure, attempt, copyText} from './ui';

const SPEEDS = ['0.5', '1', '2', '4', '8', '16'];
const TICK_MS = 33;

const startOf = (): number => Number(/^#t=(\d+(?:\.\d+)?)$/.exec(location.hash)?.[1] ?? 0);

export function Player({path, link}: {path: string; link: string}) {
	const at = useRef<HTMLDivElement>(null);
	const screen = useRef<Screen | null>(null);
	const [cast, setCast] = useState<Cast | null>(null);
	const [fault, setFault] = useState<Failure | null>(null);
	const [time, setTime] = useState(0);
	const [isPlaying, setPlaying] = useState(false);
	const [speed, setSpeed] = useState('1');
	const [skips, setSkips] = useState(true);
	const next = useRef(0); // event
	const now = useRef(0); // seconds, as they are shown
	const shownCast = useMemo(() => (cast && skips ? skipped(cast) : cast), [cast, skips]);
	useEffect(() => {
		let over = false;
		void (async () => {
			try {
				const read = readCast(new TextDecoder().decode(await bytesOf(path)));
				const {openScreen} = await import('./terminal');
				if (over || !at.current)
					return;
				screen.current = openScreen(at.current, read.cols, read.rows);
				setCast(read);
			} catch (problem) {
				if (!over)
					setFault(asFailure(problem));
			}
		})();
		return () => {
			over = true;
			screen.current?.close();
			screen.current = null;
		};
	}, [path]);
	const seek = (to: number) => {
		if (!shownCast || !screen.current)
			return;
		const seconds = Math.max(0, Math.min(to, shownCast.duration));
		const {text, next: following, cols, rows} = shownAt(shownCast, seconds);
		screen.current.show(text, cols, rows);
		next.current = following;
		now.current = seconds;
		setTime(seconds);
	};
	useEffect(() => seek(shownCast === cast ? startOf() : skips && cast && shownCast ? Math.min(startOf(), shownCast.duration) : 0), [shownCast]);
	useEffect(() => {
		if (!isPlaying || !shownCast)
			return undefined;
		if (now.current >= shownCast.duration)
			seek(0);
		let last = performance.now();
		const timer = setInterval(() => {
			const moment = performance.now();
			now.current += ((moment - last) / 1000) * Number(speed);
			last = moment;
			for (let event = shownCast.events[next.current]; event && event.time <= now.current; event = shownCast.events[++next.current])
				screen.current?.play(event);
			if (now.current >= shownCast.duration) {
				now.current = shownCast.duration;
				setPlaying(false);
			}
			setTime(now.current);
		}, TICK_MS);
		return () => clearInterval(timer);
	}, [isPlaying, shownCast, speed]);
	const duration = shownCast?.duration ?? 0;
	return <section class="panel player" aria-label={T.recording}>
		{fault && <Fault of={fault} />}
		{!cast && !fault && <Loading />}
		<div ref={at} data-testid="player" data-time={time.toFixed(1)} data-duration={duration.toFixed(1)} class="pane" />
		{shownCast && <div class="row">
			<button type="button" class="primary" onClick={() => setPlaying(!isPlaying)}>{isPlaying ? T.pausePlaying : T.play}</button>
			<input type="range" class="grow" aria-label={T.position} aria-valuetext={minutes(time)} min={0} max={duration} step={0.1} value={time} onInput={(event) => seek(Number(event.currentTarget.value))} />
			<span class="number dim">{minutes(time)} / {minutes(duration)}</span>
			<Select label={T.speed} options={SPEEDS.map((one) => [one, `${one}×`] as const)} value={speed} pick={setSpeed} />
			<Check label={T.skipIdle} value={skips} pick={setSkips} />
			<button type="button" onClick={() => void attempt(() => copyText(`${location.origin}${link}#t=${time.toFixed(1)}`))}>{T.copyMoment}</button>
		</div>}
	</section>;
}
