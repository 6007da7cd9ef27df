// What a user chose for this browser.
import {showTimesIn} from './format';

export type Theme = 'system' | 'light' | 'dark';

export function theme(): Theme {
	const kept = localStorage.getItem('cove.theme');
	return kept === 'light' || kept === 'dark' ? kept : 'system';
}

function show(): void {
	const wanted = theme();
	const dark = wanted === 'dark' || (wanted === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);
	document.documentElement.dataset['theme'] = dark ? 'dark' : 'light';
}

export function setTheme(wanted: Theme): void {
	if (wanted === 'system')
		localStorage.removeItem('cove.theme');
	else
		localStorage.setItem('cove.theme', wanted);
	show();
}

export function followSystem(): void {
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
}

export type Zone = 'local' | 'utc' | 'server';

export function zone(): Zone {
	const kept = localStorage.getItem('cove.zone');
	return kept === 'utc' || kept === 'server' ? kept : 'local';
}

let serverZone = 'UTC';

export function followZone(): void {
	showTimesIn({local: undefined, utc: 'UTC', server: serverZone}[zone()]);
}

// That of the server, as an offset of ±HH:MM.
export function serverZoneIs(offset: string): void {
	serverZone = offset;
	followZone();
}

export function setZone(wanted: Zone): void {
	if (wanted === 'local')
		localStorage.removeItem('cove.zone');
	else
		localStorage.setItem('cove.zone', wanted);
	followZone();
}

// The columns of the list of sandboxes; null: none were chosen.
export function columns(): string[] | null {
	return localStorage.getItem('cove.columns')?.split(',') ?? null;
}

export function setColumns(keys: readonly string[]): void {
	localStorage.setItem('cove.columns', keys.join());
}

export type Renderer = 'automatic' | 'dom';

export function renderer(): Renderer {
	return localStorage.getItem('cove.renderer') === 'dom' ? 'dom' : 'automatic';
}

export function setRenderer(wanted: Renderer): void {
	localStorage.setItem('cove.renderer', wanted);
}

const FONT = {least: 8, most: 32, usual: 14};

export function fontSize(): number {
	const kept = Number(localStorage.getItem('cove.font'));
	return kept >= FONT.least && kept <= FONT.most ? kept : FONT.usual;
}

export function setFontSize(px: number): number {
	const size = Math.min(FONT.most, Math.max(FONT.least, px));
	localStorage.setItem('cove.font', String(size));
	return size;
}
