// Bytes between the page and the API: uploads in parts that go on after a cut, downloads, streams.
import {Failure, currentSession, failure} from './api';
import {T} from './text';

const PART = 8 << 20;

const bearer = (): Record<string, string> => ({Authorization: `Bearer ${currentSession()?.token ?? ''}`});

async function ask(method: string, path: string, headers: Record<string, string>, body: BodyInit | null, signal?: AbortSignal): Promise<Response> {
	const reply = await fetch(path, {
		method, headers: {...bearer(), ...headers}, body, credentials: 'omit', cache: 'no-store', redirect: 'error', signal: signal ?? null,
	});
	if (!reply.ok)
		throw await failure(reply);
	return reply;
}

const pause = (ms: number) => new Promise((go) => setTimeout(go, ms));

// A file, in parts from 8 MiB on. A part that was cut is sent again, six times at most.
export async function upload(path: string, file: Blob, replace: boolean, told: (part: number) => void, signal: AbortSignal): Promise<void> {
	const once: Record<string, string> = replace ? {} : {'If-None-Match': '*'};
	if (file.size <= PART) {
		await ask('PUT', path, once, file, signal);
		told(1);
		return;
	}
	let at = 0, failed = 0;
	while (at < file.size) {
		const end = Math.min(at + PART, file.size);
		try {
			await ask('PUT', path, {...once, 'Content-Range': `bytes ${at}-${end - 1}/${file.size}`}, file.slice(at, end), signal);
			at = end;
			failed = 0;
			told(at / file.size);
		} catch (fault) {
			// The server may not have seen yet that the connection of the last try is gone.
			const isTold = fault instanceof Failure && !(failed > 0 && fault.status === 409 && fault.code === 'no_upload');
			if (signal.aborted || isTold || ++failed > 6)
				throw fault instanceof Failure || signal.aborted ? fault : new Failure(0, 'offline', T.unreachable, '', '');
			await pause(Math.min(8000, 500 << failed));
		}
	}
}

export async function putText(path: string, text: string): Promise<void> {
	await ask('PUT', path, {}, text);
}

export async function sendFile<Answer>(method: string, path: string, file: Blob, type: string): Promise<Answer> {
	return await (await ask(method, path, {'Content-Type': type}, file)).json() as Answer;
}

// Saves what a path answers as a file, of any size; it is never shown as a page.
export async function save(path: string, name: string): Promise<void> {
	const {url} = await (await ask('POST', '/v1/auth/tickets', {'Content-Type': 'application/json'}, JSON.stringify({path}))).json() as {url: string};
	const link = document.createElement('a');
	link.href = url;
	link.download = name;
	link.click();
}

// The data of the events of a stream, until it ends.
export async function stream(path: string, body: unknown, told: (data: string) => void, signal: AbortSignal): Promise<void> {
	const reply = await ask('POST', path, {'Content-Type': 'application/json', Accept: 'text/event-stream'}, JSON.stringify(body), signal);
	const reader = reply.body?.getReader();
	const decoder = new TextDecoder();
	let rest = '';
	while (reader) {
		const {done, value} = await reader.read();
		rest += decoder.decode(value, {stream: !done});
		const events = rest.split('\n\n');
		rest = done ? '' : events.pop() ?? '';
		for (const event of events) {
			const data = event.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5).replace(/^ /, '')).join('\n');
			if (data)
				told(data);
		}
		if (done)
			return;
	}
}
