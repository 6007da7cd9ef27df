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

export type Zone = 'local' | 'utc';

export function zone(): Zone {
	return localStorage.getItem('cove.zone') === 'utc' ? 'utc' : 'local';
}

export function followZone(): void {
	showTimesIn(zone() === 'utc' ? 'UTC' : undefined);
}

export function setZone(wanted: Zone): void {
	if (wanted === 'local')
		localStorage.removeItem('cove.zone');
	else
		localStorage.setItem('cove.zone', wanted);
	followZone();
}
