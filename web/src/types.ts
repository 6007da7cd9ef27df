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
	pids?: number | null;
	disk?: number | null;
	requests?: number | null;
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
	archiveBytes?: number;
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
	latency: {create: {p50Ms: number | null; p95Ms: number | null; p99Ms: number | null}};
}

export interface Health {
	status: string;
	version?: string;
	uptimeMs?: number;
	alerts?: {critical: number; warning: number};
	host?: Record<string, number | string | boolean>;
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

// One of all processes of a sandbox, whether the API started it or not.
export interface Ps {
	pid: number;
	ppid: number;
	user: string;
	state: string;
	cpuPercent: number;
	cpuMs: number;
	rssBytes: number;
	startedAt: string;
	command: string;
	processId: string | null;
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
	usage: null | {cpuMs: number; memoryPeakBytes: number; networkRequests: number; bytesIn: number; bytesOut: number; storageBytes: number};
	durations: Record<'queuedMs' | 'provisionMs' | 'runMs' | 'cleanupMs', number | null>;
	artifacts: null | {count: number; bytes: number; partial: boolean; missing: string[]};
	limits?: Record<string, number>;
	queue: null | {position: number; reason: string | null};
	image: string | null;
	retryOf: string | null;
	replayOf: string | null;
	attempt: number;
	labels: Record<string, string>;
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

export interface Template {
	name: string;
	kind: string;
	bytes: number | null;
	files: number | null;
	createdAt: string | null;
	image?: string;
	digest?: string;
	platform?: string;
	exclusiveBytes?: number;
	source?: string;
	parent?: string | null;
	lastUsedAt?: string | null;
	lineage?: {sandbox: string; snapshot: string | null; template: string};
}

export interface Operation {
	id: string;
	kind: string;
	state: string;
	image?: string;
	template: string;
	progress: {phase: string; step?: number; steps?: number; bytes?: number; total?: number; layers?: {digest: string; bytes: number; total: number; state: string}[]};
	error: {message: string; hint?: string} | null;
	createdAt: string;
	endedAt: string | null;
}

export interface Volume {
	id: string;
	name: string;
	state: string;
	sizeMB: number | null;
	bytes: number | null;
	usedBy: string[];
	createdAt: string;
}

export interface Secret {
	name: string;
	hosts: string[];
	header?: {name: string; format?: string};
	query?: string;
	createdAt: string;
	rotatedAt: string;
	expiresAt: string | null;
	lastUsedAt: string | null;
	lastUsedHost: string | null;
}

export interface Alert {
	id: string;
	rule: string;
	severity: string;
	state: string;
	value: number;
	threshold: number;
	unit: string;
	summary: string;
	hint: string;
	object: string | null;
	sandbox: string | null;
	since: string | null;
	firedAt: string | null;
	resolvedAt: string | null;
	acknowledgedAt: string | null;
	acknowledgedBy: string | null;
	silencedUntil: string | null;
	deliveries: {sink: string; time: string; outcome: string}[];
}

export interface AlertRule {
	name: string;
	severity: string;
	threshold: number;
	below: boolean;
	unit: string;
	forSeconds: number;
	enabled: boolean;
	summary: string;
	hint: string;
}

export interface Amounts {
	cpuSeconds: number;
	memoryGiBSeconds: number;
	diskGiBHours: number;
	requests: number;
	bytesIn: number;
	bytesOut: number;
	sandboxes: number;
	executions: number;
	cost: string;
}

export interface Usage {
	from: string;
	to: string;
	currency: string | null;
	items: (Amounts & {key: string | null})[];
	total: Amounts;
	cursor: string | null;
}

export interface Budget {
	name: string;
	match: {tenant?: string; label?: string; agentSession?: string};
	period: string;
	cost?: number;
	cpuSeconds?: number;
	requests?: number;
	state: string;
	used: {cost: string; cpuSeconds: number; requests: number};
	part: number | null;
	periodEnd: string;
}

export interface Key {
	id: string;
	name: string | null;
	tenant: string | null;
	scopes: string[];
	sandbox: string | null;
	createdAt: string;
	expiresAt: string | null;
}

export interface Tenant {
	name: string;
	quota: Record<string, number | null>;
	network: string;
	used: Record<string, number>;
	refused: number;
	createdAt: string;
}

export interface AuditRow {
	id: number;
	time: string;
	tenant: string;
	who: string;
	action: string;
	target: string;
	outcome: string;
	fields: Record<string, unknown>;
}

export interface SignedIn {
	id: string;
	createdAt: string;
	expiresAt: string;
	idleExpiresAt: string;
	who: {role: string; tenant: string | null; scopes: string[]; key: string | null; name: string | null};
	current: boolean;
}

export interface AgentSession {
	id: string;
	status: string;
	org: string | null;
	user: string;
	bot: string | null;
	sandbox_id: string;
	isolation: string;
	directory: string;
	aliases: string[];
	created_at: number;
	used_at: number;
	lease: {state: string; reason: string | null; attempts: number; last_error: string | null; deadline_at: number | null};
	runs: string[];
}

export interface Run {
	id: string;
	session: string;
	state: string;
	created_at: number | null;
	started_at: number | null;
	ended_at: number | null;
	question?: unknown;
	result?: unknown;
	error: {code: string; message: string | null} | null;
}

export interface Artifact {
	path: string;
	pathBase64?: string;
	type: string;
	size: number;
	mode: string;
}

export interface AgentRun {
	id: string;
	sandbox: string;
	state: string;
	command: string;
	startedAt: string;
	endedAt?: string;
	exitCode?: number;
	error?: string;
}

export interface Pool {
	name: string;
	terms: {template: string; size: number; limits?: Record<string, number>; env?: Record<string, string>};
	size: number;
	ready: number;
	preparing: number;
	hits: number;
	misses: number;
	claimMs: number | null;
	refillMs: number | null;
	error: string | null;
}
