// Output of programs as text: what a terminal would show of a line, with its colours. SGR, carriage
// return and backspace have their effect; other sequences are dropped, other controls shown. No I/O.
import {plainLog} from './format';

export interface Piece {
	text: string;
	style: string; // names of classes
	colour?: string;
	back?: string;
}

const SEQUENCE = /\u001b(?:\[([0-?]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;
const LINE_MAX = 20000;

// What follows the last carriage return; a backspace takes the character before.
export function overwritten(raw: string): string {
	const whole = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
	let text = whole.slice(whole.lastIndexOf('\r') + 1).slice(0, LINE_MAX);
	while (text.includes('\b')) {
		const next = text.replace(/[^\u0008]\u0008/g, '').replace(/^\u0008+/, '');
		if (next === text)
			return text.replaceAll('\b', '');
		text = next;
	}
	return text;
}

interface Pen {
	flags: Set<string>;
	colour: string; // '' or a class
	back: string;
	exact: string | undefined; // of 256 or all colours
	exactBack: string | undefined;
}

const FLAGS: Record<number, string> = {1: 'sgr-bold', 2: 'sgr-faint', 3: 'sgr-italic', 4: 'sgr-under', 7: 'sgr-inverse', 9: 'sgr-through'};
const OFF: Record<number, string[]> = {22: ['sgr-bold', 'sgr-faint'], 23: ['sgr-italic'], 24: ['sgr-under'], 27: ['sgr-inverse'], 29: ['sgr-through']};

const part = (value: number | undefined): number => Math.min(255, Math.max(0, value ?? 0));

function of256(index: number): string {
	if (index >= 232)
		return `rgb(${Array(3).fill(8 + (index - 232) * 10).join()})`;
	const level = (one: number) => (one ? 55 + one * 40 : 0), cube = index - 16;
	return `rgb(${level(Math.floor(cube / 36))},${level(Math.floor(cube / 6) % 6)},${level(cube % 6)})`;
}

function setColour(pen: Pen, isBack: boolean, name: string, exact?: string): void {
	if (isBack) {
		pen.back = name && `sgr-on-${name}`;
		pen.exactBack = exact;
	} else {
		pen.colour = name && `sgr-${name}`;
		pen.exact = exact;
	}
}

function obey(pen: Pen, parameters: string): void {
	const codes = parameters.split(/[;:]/).map((one) => Number(one) || 0);
	for (let i = 0; i < codes.length; i++) {
		const code = codes[i] ?? 0, flag = FLAGS[code];
		if (code === 0) {
			pen.flags.clear();
			setColour(pen, false, '');
			setColour(pen, true, '');
		} else if (flag) {
			pen.flags.add(flag);
		} else if (OFF[code]) {
			OFF[code]?.forEach((one) => pen.flags.delete(one));
		} else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) {
			setColour(pen, false, String(code % 10 + (code >= 90 ? 8 : 0)));
		} else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) {
			setColour(pen, true, String(code % 10 + (code >= 100 ? 8 : 0)));
		} else if (code === 39 || code === 49) {
			setColour(pen, code === 49, '');
		} else if (code === 38 || code === 48) {
			const index = part(codes[i + 2]);
			if (codes[i + 1] === 5)
				setColour(pen, code === 48, index < 16 ? String(index) : '', index < 16 ? undefined : of256(index));
			else if (codes[i + 1] === 2)
				setColour(pen, code === 48, '', `rgb(${part(codes[i + 2])},${part(codes[i + 3])},${part(codes[i + 4])})`);
			i += codes[i + 1] === 5 ? 2 : codes[i + 1] === 2 ? 4 : 0;
		}
	}
}

// A line in pieces of one look each.
export function pieces(raw: string): Piece[] {
	const line = overwritten(raw), all: Piece[] = [];
	const pen: Pen = {flags: new Set(), colour: '', back: '', exact: undefined, exactBack: undefined};
	let at = 0;
	const add = (to: number) => {
		const text = plainLog(line.slice(at, to));
		if (text)
			all.push({text, style: [...pen.flags, pen.colour, pen.back].filter(Boolean).join(' '), ...(pen.exact ? {colour: pen.exact} : {}), ...(pen.exactBack ? {back: pen.exactBack} : {})});
	};
	for (const found of line.matchAll(SEQUENCE)) {
		add(found.index);
		at = found.index + found[0].length;
		if (found[2] === 'm')
			obey(pen, found[1] ?? '');
	}
	add(line.length);
	return all;
}

export const plainLine = (raw: string): string => (raw.includes('\u001b') ? pieces(raw).map((one) => one.text).join('') : plainLog(overwritten(raw)));
