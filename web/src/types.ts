// The answers of the API that the pages read, as docs/openapi.json describes them.
export interface Row {
	id: string;
	shortId: string;
	name: string | null;
	state: string;
	reason: string | null;
	tenant: string | null;
	template: string;
	labels: Record<string, string>;
	createdAt: string;
	cpu: number | null;
	memory: number | null;
	limits: {memory: number; cpu: number};
}

export interface Page<Item> {
	items: Item[];
	cursor: string | null;
}

export interface Policy {
	mode: string;
	allow?: string[];
	inspect?: string[];
	budgets?: Record<string, number>;
	secrets?: (string | {name: string; hosts: string[]})[];
	rules?: {name: string; methods?: string[]; paths?: string[]}[];
}

export interface Box {
	id: string;
	shortId: string;
	name: string | null;
	state: string;
	tenant?: string;
	reason?: string;
	waiting?: {reason: string; position?: number};
	template: string;
	image?: string;
	user: string;
	workdir: string;
	volumes?: {id: string; name: string; path: string; readOnly: boolean}[];
	limits: Record<string, number | null>;
	labels: Record<string, string>;
	network: Policy;
	sleepAfter: string | null;
	keepAlive: boolean;
	ephemeral?: boolean;
	createdAt: string;
	startedAt: string | null;
	endsAt: string | null;
}

export interface Stats {
	time: string;
	state: string;
	cpu: {cores: number | null; limitCores: number | null};
	memory: {workingSetBytes: number | null; limitBytes: number | null};
	pids: {count: number | null; limit: number | null};
	disk: {bytes: number | null; limitBytes: number | null};
	network: {connections: number | null; requests: number | null; bytesIn: number | null; bytesOut: number | null; denied: number | null};
}

export interface HostStats {
	time: string;
	cpu: {cores: number | null; used: number | null; sandboxes: number | null};
	memory: {totalBytes: number | null; availableBytes: number | null; sandboxesBytes: number | null};
	disk: {totalBytes: number | null; freeBytes: number | null};
	sandboxes: Record<string, number>;
	executions: {queued: number | null; running: number | null};
	latency: {create: {p95Ms: number | null}};
}

export interface Health {
	status: string;
	reasons?: {code: string; severity: string; hint?: string}[];
}

export interface Happening {
	id: number;
	time: string;
	kind: string;
	sandbox?: string;
	fields: Record<string, unknown>;
}

export interface Happenings {
	items: Happening[];
	last: number;
	more: boolean;
}

export interface Process {
	id: string;
	pid: number;
	command: string;
	startTime: string;
	status: string;
	exitCode?: number;
}

export interface Work {
	id: string;
	taskId: string | null;
	agentType: string | null;
	profile: string;
	state: string;
	outcome: string | null;
	exitCode: number | null;
	reason: string | null;
	sandbox: string | null;
	steps: {name: string; at: string; durationMs: number | null}[];
	createdAt: string;
	startedAt: string | null;
	endedAt: string | null;
}

export interface Entry {
	name: string;
	absolutePath: string;
	type: string;
	size: number;
	modifiedAt: string;
	mode: string;
	target?: string;
	pathBase64?: string;
}

export interface Flow {
	id: number;
	time: string;
	name: string | null;
	address: string | null;
	port: number;
	verdict: string;
	rule: string | null;
	reason: string | null;
	requests: number;
	bytesOut: number;
	bytesIn: number;
	durationMs: number;
	secrets?: string[];
	hint?: string;
}

export interface Port {
	port: number;
	exposed: boolean;
	listening: boolean;
	address: string | null;
	name?: string | null;
	url?: string | null;
	pathUrl?: string | null;
	expiresAt?: string | null;
}

export interface CellEvent {
	type: string;
	text?: string;
	html?: string;
	markdown?: string;
	svg?: string;
	png?: string;
	jpeg?: string;
	json?: unknown;
	data?: unknown;
	ename?: string;
	evalue?: string;
	traceback?: string[];
}
