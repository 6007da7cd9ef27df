// What a page does, as a command of the command line and as one of curl. A Shell sees each word as it
// is: nothing in a name or label is a command.
import type {Box} from './types';

export interface Act {
	method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
	path: string;
	body?: unknown;
	cli?: string[]; // the words after "cove"; absent: the command line has no such verb
}

export const quote = (word: string): string =>
	/^[A-Za-z0-9_./:@%+,=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

export const cliOf = (act: Act): string | null => (act.cli ? ['cove', ...act.cli].map(quote).join(' ') : null);

export function curlOf(act: Act): string {
	const words = ['curl -fsS', ...(act.method === 'POST' && act.body !== undefined ? [] : [`-X ${act.method}`]),
		`"$COVE_URL"${quote(act.path)}`, '-H "Authorization: Bearer $COVE_TOKEN"'];
	if (act.body !== undefined)
		words.push("-H 'Content-Type: application/json'", '-d ' + quote(JSON.stringify(act.body)));
	return words.join(' ');
}

// The creation of an equal sandbox, without its name and the values of its environment.
export function createLike(box: Box): Act {
	const {limits, network} = box;
	const numbers = Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== null)) as Record<string, number>;
	const cli = ['create'];
	const option = (name: string, value: unknown, unit = '') => {
		if (value !== null && value !== undefined)
			cli.push(name, `${String(value)}${unit}`);
	};
	if (box.image)
		option('--image', box.image);
	else
		option('--template', box.template);
	option('--memory', limits.memoryMB, 'm');
	option('--cpus', limits.cpus);
	option('--pids', limits.pids);
	option('--disk', limits.diskMB, 'm');
	option('--inodes', limits.inodes);
	option('--output', limits.outputMB, 'm');
	option('--io', limits.ioMBps, 'm');
	option('--cpu-time', limits.cpuTimeMs, 'ms');
	option('--timeout', limits.wallTimeMs, 'ms');
	for (const [key, value] of Object.entries(box.labels))
		cli.push('--label', `${key}=${value}`);
	option('--network', network.mode);
	for (const name of network.allow ?? [])
		cli.push('--allow', name);
	if (box.keepAlive)
		cli.push('--keep-alive');
	else
		option('--sleep-after', box.sleepAfter);
	for (const one of box.volumes ?? [])
		cli.push('--volume', `${one.name}:${one.path}${one.readOnly ? ':ro' : ''}`);
	const plain = {mode: network.mode, ...(network.allow ? {allow: network.allow} : {}), ...(network.inspect ? {inspect: network.inspect} : {}),
		...(network.budgets ? {budgets: network.budgets} : {}), ...(network.rules ? {rules: network.rules} : {})};
	return {
		method: 'POST', path: '/v1/sandboxes', cli,
		body: {
			...(box.image ? {image: box.image} : {template: box.template}), limits: numbers, labels: box.labels, network: plain,
			...(box.keepAlive ? {keepAlive: true} : box.sleepAfter ? {sleepAfter: box.sleepAfter} : {}),
			...(box.volumes?.length ? {volumes: box.volumes.map(({name, path, readOnly}) => ({name, path, readOnly}))} : {}),
		},
	};
}
