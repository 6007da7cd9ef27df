// The filter of lists: terms that must all hold. word, "two words", field:value, field:a,b (one of
// them), label:KEY=VALUE, * for any characters, field>NUMBER (< >= <=; 50%, 200M, 1h), -TERM (not).
// `cove ps --filter` reads the same (src/cli/filter.c); test/filter_vectors.json holds both to it.
import type {Row} from './types';

type Compare = '<' | '>' | '<=' | '>=';

export interface Term {
	field: string;
	values: string[];
	compare: Compare | null;
	number: number; // of `compare`
	isPart: boolean; // of the limit, in percent
	isNot: boolean;
}

const TEXTS = ['name', 'id', 'state', 'template', 'tenant', 'label', 'reason'];
const NUMBERS = ['cpu', 'memory', 'disk', 'pids', 'requests', 'age'];
export const FIELDS = [...TEXTS, ...NUMBERS];
const UNITS: Record<string, number> = {k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4};
const TIMES: Record<string, number> = {s: 1, m: 60, h: 3600, d: 86400};

// A number with its unit: of seconds for an age, of bytes for the others. null: none.
function readNumber(field: string, text: string): {number: number; isPart: boolean} | null {
	const parts = /^(\d+(?:\.\d+)?)(%|[a-z]*)$/.exec(text.toLowerCase());
	if (!parts)
		return null;
	const value = Number(parts[1]), unit = (parts[2] ?? '').replace(/i?b$/, '');
	if (unit === '%')
		return {number: value / 100, isPart: true};
	if (!unit)
		return {number: value, isPart: false};
	const factor = (field === 'age' ? TIMES : UNITS)[unit];
	return factor === undefined ? null : {number: value * factor, isPart: false};
}

function readTerm(text: string): Term {
	const isNot = text.length > 1 && text.startsWith('-');
	const bare = isNot ? text.slice(1) : text;
	const whole: Term = {field: '', values: [bare.replaceAll('"', '').toLowerCase()], compare: null, number: 0, isPart: false, isNot};
	if (bare.startsWith('"'))
		return whole;
	const [, field = '', sign = '', value = ''] = /^([a-z]+)(:|[<>]=?)(.*)$/is.exec(bare) ?? [];
	const key = field.toLowerCase(), plain = value.replaceAll('"', '');
	if (sign === ':' && TEXTS.includes(key))
		return {...whole, field: key, values: value.startsWith('"') ? [plain.toLowerCase()] : plain.toLowerCase().split(',')};
	const number = NUMBERS.includes(key) && sign !== ':' && readNumber(key, plain);
	return number ? {...whole, ...number, field: key, values: [], compare: sign as Compare} : whole;
}

// Words, of which quoted parts may hold spaces.
export function readFilter(text: string): Term[] {
	return (text.match(/(?:"[^"]*"?|[^\s"])+/g) ?? []).map(readTerm);
}

// `*` is any characters; the rest is compared as it is, without regard to case.
function isLike(text: string, pattern: string, isAnywhere: boolean): boolean {
	const parts = pattern.split('*'), first = parts[0] ?? '', last = parts[parts.length - 1] ?? '';
	if (parts.length === 1)
		return isAnywhere ? text.includes(pattern) : text === pattern;
	if (!isAnywhere && !(text.startsWith(first) && text.endsWith(last) && text.length >= first.length + last.length))
		return false;
	let at = 0;
	for (const part of isAnywhere ? parts : parts.slice(1, -1)) {
		const found = text.indexOf(part, isAnywhere ? at : Math.max(at, first.length));
		if (found < 0 || (!isAnywhere && found + part.length > text.length - last.length))
			return false;
		at = found + part.length;
	}
	return true;
}

function textsOf(row: Row, field: string): string[] {
	switch (field) {
	case 'name': return [row.name ?? ''];
	case 'id': return [row.id, row.shortId];
	case 'state': return [row.state];
	case 'template': return [row.template];
	case 'tenant': return [row.tenant ?? ''];
	case 'reason': return [row.reason ?? ''];
	default: return Object.entries(row.labels).flatMap(([key, value]) => [`${key}=${value}`, ...(field ? [key] : [])]);
	}
}

const WORDS = ['name', 'id', 'state', 'template', 'label'];

function numberOf(row: Row, field: string, now: number): {value: number | null; whole: number | null} {
	switch (field) {
	case 'cpu': return {value: row.cpu, whole: row.limits.cpu};
	case 'memory': return {value: row.memory, whole: row.limits.memory};
	case 'disk': return {value: row.disk ?? null, whole: null};
	case 'pids': return {value: row.pids ?? null, whole: null};
	case 'requests': return {value: row.requests ?? null, whole: null};
	default: return {value: (now - Date.parse(row.createdAt)) / 1000, whole: null};
	}
}

function holds(term: Term, row: Row, now: number): boolean {
	if (term.compare) {
		const {value, whole} = numberOf(row, term.field, now);
		const amount = term.isPart ? (value === null || !whole ? null : value / whole) : value;
		if (amount === null)
			return false;
		return term.compare === '<' ? amount < term.number : term.compare === '>' ? amount > term.number : term.compare === '<=' ? amount <= term.number : amount >= term.number;
	}
	const isAnywhere = !term.field || term.field === 'id';
	const among = (term.field ? [term.field] : WORDS).flatMap((field) => textsOf(row, term.field ? field : field === 'label' ? '' : field));
	return term.values.some((value) => among.some((one) => isLike(one.toLowerCase(), value, isAnywhere)));
}

export function matches(terms: readonly Term[], row: Row, now = Date.now()): boolean {
	return terms.every((term) => holds(term, row, now) !== term.isNot);
}

// What may end the last word of a filter, of what the rows have.
export function completions(text: string, rows: readonly Row[]): string[] {
	const last = /(?:"[^"]*"?|[^\s"])*$/.exec(text)?.[0] ?? '', minus = last.startsWith('-') ? '-' : '', bare = last.slice(minus.length);
	const [, field = '', start = ''] = /^([a-z]+):(?:.*,)?(.*)$/s.exec(bare) ?? [];
	const found = new Set<string>();
	if (!field) {
		for (const one of FIELDS)
			if (bare && one.startsWith(bare.toLowerCase()) || !bare)
				found.add(minus + one + (TEXTS.includes(one) ? ':' : '>'));
	} else if (TEXTS.includes(field)) {
		const head = last.slice(0, last.length - start.length);
		for (const row of rows.slice(0, 2000)) {
			for (const one of textsOf(row, field === 'label' ? '' : field))
				if (one && one.toLowerCase().startsWith(start.toLowerCase()) && one !== start && !/[\s",]/.test(one))
					found.add(head + one);
			if (found.size > 8)
				break;
		}
	}
	return [...found].slice(0, 8).map((one) => text.slice(0, text.length - last.length) + one);
}
