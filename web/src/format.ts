// Text of numbers, times and strings that a sandbox controls. No I/O.

// Control and bidirectional characters are shown, not obeyed; long texts are cut.
const ODD = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu;

export function shown(text: string, max = 200): string {
	const cut = text.length > max ? text.slice(0, max) + '…' : text;
	return cut.replace(ODD, (one) => '\\u' + one.charCodeAt(0).toString(16).padStart(4, '0'));
}

export function bytes(value: number | null | undefined): string {
	if (value == null)
		return '–';
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
	let at = 0;
	while (value >= 1024 && at < units.length - 1) {
		value /= 1024;
		at++;
	}
	return `${value.toFixed(at && value < 100 ? 1 : 0)} ${units[at]}`;
}

export function cores(value: number | null | undefined): string {
	return value == null ? '–' : value.toFixed(2);
}

export function percent(value: number | null | undefined): string {
	return value == null ? '–' : `${(value * 100).toFixed(1)} %`;
}

export function count(value: number | null | undefined): string {
	return value == null ? '–' : new Intl.NumberFormat('en').format(value);
}

export function span(ms: number): string {
	const s = Math.max(0, Math.floor(ms / 1000));
	if (s < 60)
		return `${s} s`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min`;
	if (s < 86400)
		return `${Math.floor(s / 3600)} h`;
	return `${Math.floor(s / 86400)} d`;
}

let timeZone: string | undefined; // undefined: the browser's

export function showTimesIn(zone: string | undefined): void {
	timeZone = zone;
}

export function absolute(iso: string): string {
	return new Date(iso).toLocaleString('en-GB', {dateStyle: 'medium', timeStyle: 'medium', ...(timeZone ? {timeZone} : {})}) + ' ' +
		(timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone ?? '');
}

export function clock(ms: number): string {
	return new Date(ms).toLocaleTimeString('en-GB', timeZone ? {timeZone} : {});
}

// With the day, for long ranges.
export function dayClock(ms: number): string {
	return new Date(ms).toLocaleString('en-GB', {day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', ...(timeZone ? {timeZone} : {})});
}

// Labels as "team=a, tier=b".
export function labelText(labels: Record<string, string>): string {
	return Object.entries(labels).map(([key, value]) => (value ? `${key}=${value}` : key)).join(', ');
}

// The inverse; null: malformed.
export function readLabels(text: string): Record<string, string> | null {
	const labels: Record<string, string> = {};
	for (const part of text.split(',').map((one) => one.trim()).filter(Boolean)) {
		const at = part.indexOf('=');
		const key = at < 0 ? part : part.slice(0, at);
		if (!key)
			return null;
		labels[key] = at < 0 ? '' : part.slice(at + 1);
	}
	return labels;
}

// Colours and cursor movements of a log: dropped. The text that stays is shown as it is.
export function plainLog(text: string): string {
	return text.replace(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-_])/g, '')
		.replace(/\r\n/g, '\n').replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
			(one) => '\\u' + one.charCodeAt(0).toString(16).padStart(4, '0'));
}

// A time of a recording: 1:05.
export function minutes(seconds: number): string {
	return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;
}
