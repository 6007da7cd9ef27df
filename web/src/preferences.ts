// What a user chose for this browser.
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
