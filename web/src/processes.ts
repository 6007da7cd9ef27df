// The processes of a sandbox as a tree: children beneath their parents, then what the API started and
// has ended. The list is of a sandbox: parents may be missing, and pids may be reused within it.
import type {Process, Ps} from './types';

export interface Branch {
	key: string;
	depth: number;
	command: string;
	pid: number;
	user: string | null;
	status: string;
	exitCode: number | undefined;
	percent: number | null;
	rssBytes: number | null;
	startedAt: string;
	started: Process | null; // by the API
	ps: Ps | null;
}

const WORDS: Record<string, string> = {R: 'running', S: 'sleeping', D: 'blocked', T: 'stopped', t: 'traced', Z: 'zombie', I: 'idle'};

export interface Reading {
	time: number;
	cpuMs: Map<number, number>;
}

export const reading = (all: Ps[], time: number): Reading => ({time, cpuMs: new Map(all.map((one) => [one.pid, one.cpuMs]))});

// Of one core, since the last reading; over its life for a process that was not in it.
function percentOf(one: Ps, last: Reading | null, time: number): number {
	const was = last?.cpuMs.get(one.pid);
	return last && was !== undefined && was <= one.cpuMs && time > last.time ? (one.cpuMs - was) * 100 / (time - last.time) : one.cpuPercent;
}

export function treeOf(all: Ps[] | null, started: Process[], last: Reading | null, time: number): Branch[] {
	const byId = new Map(started.map((one) => [one.id, one]));
	const known = new Map((all ?? []).map((one) => [one.pid, one]));
	const children = new Map<number, Ps[]>();
	for (const one of [...known.values()].sort((a, b) => a.pid - b.pid)) {
		const parent = one.ppid !== one.pid && known.has(one.ppid) ? one.ppid : 0;
		children.set(parent, [...children.get(parent) ?? [], one]);
	}
	const rows: Branch[] = [], seen = new Set<number>(), shown = new Set<string>();
	const add = (one: Ps, depth: number) => {
		const by = one.processId === null ? null : byId.get(one.processId) ?? null;
		if (by)
			shown.add(by.id);
		rows.push({key: String(one.pid), depth, command: by?.command ?? one.command, pid: one.pid, user: one.user, status: WORDS[one.state] ?? one.state,
			exitCode: undefined, percent: percentOf(one, last, time), rssBytes: one.rssBytes, startedAt: by?.startTime ?? one.startedAt, started: by, ps: one});
	};
	const walk = (roots: Ps[]) => {
		const stack = roots.map((one) => ({one, depth: 0})).reverse();
		for (let next = stack.pop(); next; next = stack.pop()) {
			const {one, depth} = next;
			if (seen.has(one.pid))
				continue;
			seen.add(one.pid);
			add(one, depth);
			stack.push(...(children.get(one.pid) ?? []).map((child) => ({one: child, depth: depth + 1})).reverse());
		}
	};
	walk(children.get(0) ?? []);
	walk([...known.values()].filter((one) => !seen.has(one.pid))); // a ring, by a pid that was reused meanwhile
	for (const by of started)
		if (!shown.has(by.id))
			rows.push({key: by.id, depth: 0, command: by.command, pid: by.pid, user: null, status: by.status, exitCode: by.exitCode, percent: null,
				rssBytes: null, startedAt: by.startTime, started: by, ps: null});
	return rows;
}
