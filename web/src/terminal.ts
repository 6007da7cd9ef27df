// A terminal of a sandbox. xterm makes style elements and style attributes, which the policy of the
// pages forbids: both are turned into what it allows before xterm is loaded into a page.
import {FitAddon} from '@xterm/addon-fit';
import {Terminal} from '@xterm/xterm';
import {openSocket} from './api';
import {T} from './text';

type Status = 'connecting' | 'connected' | 'reconnecting' | 'ended';

// An element that is never in effect; what is written into it goes to a style sheet of the document.
function inertStyle(make: typeof document.createElement): HTMLElement {
	const element = make.call(document, 'template');
	const sheet = new CSSStyleSheet();
	document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
	Object.defineProperty(element, 'textContent', {
		get: () => '',
		set: (text: string) => sheet.replaceSync(text),
	});
	const remove = element.remove.bind(element);
	element.remove = () => {
		document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
		remove();
	};
	return element;
}

let installed = false;

function install(): void {
	if (installed)
		return;
	installed = true;
	const make = document.createElement;
	document.createElement = function (this: Document, name: string, options?: ElementCreationOptions) {
		return name.toLowerCase() === 'style' ? inertStyle(make) : make.call(this, name, options);
	} as typeof document.createElement;
	const set = Element.prototype.setAttribute;
	Element.prototype.setAttribute = function (this: Element, name: string, value: string) {
		if (name.toLowerCase() === 'style' && this instanceof HTMLElement)
			this.style.cssText = value;
		else
			set.call(this, name, value);
	};
}

// The id of this tab's terminal in a sandbox: a reload finds it again.
function terminalId(box: string): string {
	const key = `cove.terminal.${box}`;
	const kept = sessionStorage.getItem(key);
	if (kept)
		return kept;
	const made = 'ui-' + [...crypto.getRandomValues(new Uint8Array(8))].map((one) => one.toString(16).padStart(2, '0')).join('');
	sessionStorage.setItem(key, made);
	return made;
}

export interface Pane {
	close(): void;
	focus(): void;
	find(text: string, back: boolean): void;
}

export interface Asks {
	ask(text: string, go: () => void): void; // before several lines are pasted
	search(): void; // Ctrl+Shift+F
}

const PASTE_MAX = 4096; // bytes that are pasted without a question

// What a terminal would obey is not pasted: escapes, C1 and other controls.
export const cleanPaste = (text: string): string => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, '');

// Selects the next line that has the text, from the selection on; it wraps around.
function findText(terminal: Terminal, text: string, back: boolean): void {
	const buffer = terminal.buffer.active, wanted = text.toLowerCase(), from = terminal.getSelectionPosition();
	terminal.clearSelection();
	if (!wanted)
		return;
	const begin = from ? from.start.y : back ? 0 : buffer.length - 1;
	for (let i = 1; i <= buffer.length; i++) {
		const row = (begin + (back ? buffer.length - i : i)) % buffer.length;
		const at = buffer.getLine(row)?.translateToString(true).toLowerCase().indexOf(wanted) ?? -1;
		if (at < 0)
			continue;
		terminal.select(at, row, text.length);
		terminal.scrollToLine(Math.max(0, row - Math.floor(terminal.rows / 2)));
		return;
	}
}

export function openTerminal(at: HTMLElement, box: string, told: (status: Status) => void, asks: Asks): Pane {
	install();
	const style = getComputedStyle(document.documentElement);
	const terminal = new Terminal({
		scrollback: 10000, fontFamily: 'ui-monospace, monospace', fontSize: 14, allowProposedApi: false, screenReaderMode: false,
		linkHandler: {activate: () => undefined},
		theme: {background: style.getPropertyValue('--terminal').trim(), foreground: style.getPropertyValue('--terminal-ink').trim(),
			cursor: style.getPropertyValue('--terminal-ink').trim()},
	});
	const fit = new FitAddon();
	terminal.loadAddon(fit);
	terminal.open(at);
	terminal.textarea?.setAttribute('aria-label', T.terminalInput);
	// A program in the sandbox cannot write to the clipboard, nor ask for the size of the window.
	terminal.parser.registerOscHandler(52, () => true);
	fit.fit();
	terminal.focus();

	const pasteText = (raw: string) => {
		const text = cleanPaste(raw);
		const go = () => {
			terminal.paste(text);
			terminal.focus();
		};
		if ((/[\r\n]/.test(text.replace(/[\r\n]+$/, '')) && !terminal.modes.bracketedPasteMode) || text.length > PASTE_MAX)
			asks.ask(text, go);
		else
			go();
	};
	const pasted = (event: ClipboardEvent) => {
		event.preventDefault();
		event.stopPropagation();
		pasteText(event.clipboardData?.getData('text/plain') ?? '');
	};
	at.addEventListener('paste', pasted, true);
	terminal.attachCustomKeyEventHandler((event) => {
		const isOurs = event.ctrlKey && event.shiftKey && ['KeyF', 'KeyC'].includes(event.code);
		if (!isOurs || event.type !== 'keydown')
			return !isOurs;
		event.preventDefault();
		if (event.code === 'KeyF')
			asks.search();
		else
			void navigator.clipboard?.writeText(terminal.getSelection());
		return false;
	});
	let socket: WebSocket | null = null;
	let over = false, wait = 500, timer = 0;
	let offset: number | null = null; // of the output that was written
	const base = `/v1/sandboxes/${box}/ws/pty`;
	const connect = () => {
		// A terminal of that id is attached to; there is a new one if there is none.
		const query = new URLSearchParams({terminal: terminalId(box), cols: String(terminal.cols), rows: String(terminal.rows)});
		if (offset !== null)
			query.set('after', String(offset));
		for (const word of ['sh', '-c', 'if command -v bash >/dev/null; then exec bash -i; fi; exec sh -i'])
			query.append('command', word);
		const own = openSocket(`${base}?${query}`);
		socket = own;
		own.binaryType = 'arraybuffer';
		own.onmessage = (event: MessageEvent<ArrayBuffer | string>) => {
			if (typeof event.data !== 'string') {
				terminal.write(new Uint8Array(event.data));
				if (offset !== null)
					offset += event.data.byteLength;
				return;
			}
			const word = JSON.parse(event.data) as {type: string; offset?: number; bytes?: number};
			if (word.type === 'ready') {
				offset = word.offset ?? offset;
				wait = 500;
				told('connected');
				own.send(JSON.stringify({type: 'resize', cols: terminal.cols, rows: terminal.rows}));
			} else if (word.type === 'gap') {
				terminal.write(T.skippedBytes(word.bytes ?? 0));
			} else if (word.type === 'exit') {
				end();
			}
		};
		own.onclose = (event) => {
			if (over)
				return;
			if (event.code === 1000 || event.code === 1011 || event.code === 4410) {
				end();
				return;
			}
			told('reconnecting');
			timer = setTimeout(connect, wait);
			wait = Math.min(8000, wait * 2);
		};
	};
	const end = () => {
		over = true;
		sessionStorage.removeItem(`cove.terminal.${box}`);
		told('ended');
	};
	const encoder = new TextEncoder();
	const send = (bytes: Uint8Array<ArrayBuffer>) => {
		if (socket?.readyState === WebSocket.OPEN)
			socket.send(bytes);
	};
	terminal.onData((text) => send(encoder.encode(text)));
	terminal.onBinary((text) => send(Uint8Array.from(text, (one) => one.charCodeAt(0))));
	terminal.onResize(({cols, rows}) => {
		if (socket?.readyState === WebSocket.OPEN)
			socket.send(JSON.stringify({type: 'resize', cols, rows}));
	});
	const observer = new ResizeObserver(() => {
		if (at.clientWidth)
			fit.fit();
	});
	observer.observe(at);
	connect();
	return {
		close: () => {
			over = true;
			clearTimeout(timer);
			observer.disconnect();
			at.removeEventListener('paste', pasted, true);
			socket?.close(1000);
			terminal.dispose();
		},
		focus: () => terminal.focus(),
		find: (text, back) => findText(terminal, text, back),
	};
}
