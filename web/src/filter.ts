// The filter of lists: terms that must all hold. word, "two words", field:a,b, label:KEY=VALUE, -term.
import type {Row} from './types';

interface Term {
	field: string;
	values: string[];
	isNot: boolean;
}

export function readFilter(text: string): Term[] {
	const terms: Term[] = [];
	for (const [, minus, field, quoted, word] of text.matchAll(/(-?)(?:(\w+):)?(?:"([^"]*)"?|(\S+))/g)) {
		const value = (quoted ?? word ?? '').toLowerCase();
		terms.push({field: (field ?? '').toLowerCase(), values: field ? value.split(',') : [value], isNot: minus === '-'});
	}
	return terms;
}

function holds(term: Term, row: Row): boolean {
	const labels = Object.entries(row.labels).map(([key, value]) => `${key}=${value}`.toLowerCase());
	const fields: Record<string, string[]> = {
		state: [row.state], name: [row.name ?? ''], id: [row.id, row.shortId], template: [row.template],
		tenant: [row.tenant ?? ''], label: labels,
	};
	const all = [row.name ?? '', row.id, row.shortId, row.state, row.template, ...labels];
	const among = term.field ? fields[term.field] : all;
	return term.values.some((value) => (among ?? []).some((one) =>
		term.field && term.field !== 'id' ? one.toLowerCase() === value : one.toLowerCase().includes(value)));
}

export function matches(terms: Term[], row: Row): boolean {
	return terms.every((term) => holds(term, row) !== term.isNot);
}
