// Recordings (asciicast v2): reading, pauses cut short, what is seen at a moment. No I/O.
export interface CastEvent {
	time: number; // seconds
	kind: 'o' | 'r';
	text: string; // output, or COLSxROWS
}

export interface Cast {
	cols: number;
	rows: number;
	events: CastEvent[];
	duration: number;
}

const SIDE_MAX = 1000;
const IDLE_MAX = 1; // seconds of a pause, when pauses are cut
const SHOWN_MAX = 2 << 20; // characters before a moment: what lies further back has left the screen and its scroll-back

const side = (value: unknown, usual: number): number => (typeof value === 'number' && value >= 1 && value <= SIDE_MAX ? Math.floor(value) : usual);

// A line that is no event is left out: a recording may be cut anywhere.
export function readCast(text: string): Cast {
	const lines = text.split('\n'), events: CastEvent[] = [];
	let head: {width?: unknown; height?: unknown} = {}, last = 0;
	lines.forEach((line, i) => {
		try {
			const value: unknown = JSON.parse(line);
			if (i === 0 && typeof value === 'object' && value !== null)
				head = value;
			if (!Array.isArray(value) || typeof value[0] !== 'number' || (value[1] !== 'o' && value[1] !== 'r') || typeof value[2] !== 'string')
				return;
			last = Math.max(last, value[0]);
			events.push({time: last, kind: value[1], text: value[2]});
		} catch {
			// an empty line, or one that was cut
		}
	});
	return {cols: side(head.width, 80), rows: side(head.height, 24), events, duration: last};
}

export function skipped(cast: Cast): Cast {
	let before = 0, cut = 0;
	const events = cast.events.map((event) => {
		cut += Math.max(0, event.time - before - IDLE_MAX);
		before = event.time;
		return {...event, time: event.time - cut};
	});
	return {...cast, events, duration: events[events.length - 1]?.time ?? 0};
}

export function sizeOf(event: CastEvent): {cols: number; rows: number} {
	const [cols, rows] = event.text.split('x').map(Number);
	return {cols: side(cols, 80), rows: side(rows, 24)};
}

// What a terminal is to show at a moment, and the event that comes next.
export function shownAt(cast: Cast, seconds: number): {text: string; next: number; cols: number; rows: number} {
	let low = 0, high = cast.events.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if ((cast.events[middle]?.time ?? 0) <= seconds)
			low = middle + 1;
		else
			high = middle;
	}
	const parts: string[] = [];
	let size = {cols: cast.cols, rows: cast.rows}, length = 0, isSized = false;
	for (let i = low - 1; i >= 0 && (length < SHOWN_MAX || !isSized); i--) {
		const event = cast.events[i];
		if (event?.kind === 'o' && length < SHOWN_MAX) {
			parts.push(event.text);
			length += event.text.length;
		} else if (event?.kind === 'r' && !isSized) {
			size = sizeOf(event);
			isSized = true;
		}
	}
	return {text: parts.reverse().join(''), next: low, ...size};
}
