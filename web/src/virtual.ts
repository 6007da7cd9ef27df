// Which rows of a long table are in the page: those that are seen, and some around them. The others
// are two empty rows as high as they would be.
import {useEffect, useLayoutEffect, useRef, useState} from 'preact/hooks';
import type {RefObject} from 'preact';

export interface Span {
	first: number;
	last: number; // not in it
	above: number; // px
	below: number;
}

const AROUND = 8;
const ROWS_MAX = 90;

// `at` is the element around the rows, whose own are marked with data-id. The page scrolls.
export function useSpan(count: number, at: RefObject<HTMLElement | null>, guess: number): Span {
	const height = useRef(guess);
	const [span, setSpan] = useState({first: 0, last: Math.min(count, 40)});
	const look = useRef<() => void>(() => undefined);
	look.current = () => {
		const top = at.current?.getBoundingClientRect().top ?? 0;
		const seen = Math.ceil(innerHeight / height.current);
		const first = Math.max(0, Math.min(count - 1, Math.floor(-top / height.current)) - AROUND);
		const last = Math.min(count, first + Math.min(ROWS_MAX, seen + 2 * AROUND));
		setSpan((old) => (old.first === first && old.last === last ? old : {first, last}));
	};
	useLayoutEffect(() => {
		const rows = at.current?.querySelectorAll<HTMLElement>(':scope > [data-id]');
		const one = rows?.[0], end = rows?.[rows.length - 1];
		if (rows && one && end && rows.length > 1)
			height.current = Math.max(8, (end.getBoundingClientRect().bottom - one.getBoundingClientRect().top) / rows.length);
		look.current();
	});
	useEffect(() => {
		let frame = 0;
		const moved = () => {
			cancelAnimationFrame(frame);
			frame = requestAnimationFrame(() => look.current());
		};
		addEventListener('scroll', moved, {passive: true});
		addEventListener('resize', moved);
		return () => {
			cancelAnimationFrame(frame);
			removeEventListener('scroll', moved);
			removeEventListener('resize', moved);
		};
	}, []);
	const first = Math.min(span.first, count), last = Math.max(first, Math.min(span.last, count));
	return {first, last, above: first * height.current, below: (count - last) * height.current};
}
