// A terminal of a sandbox. xterm makes style elements and style attributes, which the policy of the
// pages forbids: both are turned into what it allows before xterm is loaded into a page.
import {FitAddon} from '@xterm/addon-fit';
import {Terminal} from '@xterm/xterm';
import type {ITerminalOptions} from '@xterm/xterm';
import {openSocket} from './api';
import {sizeOf} from './cast';
import type {CastEvent} from './cast';
import {fontSize, setFontSize} from './preferences';
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
const keyOf = (box: string, slot: string): string => `cove.terminal.${box}${slot === '0' ? '' : '.' + slot}`;

function terminalId(box: string, slot: string): string {
	const key = keyOf(box, slot);
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
	zoom(by: number): void; // px
}

export interface Asks {
	ask(text: string, go: () => void): void; // before several lines are pasted
	search(): void; // Ctrl+Shift+F
	title(text: string): void;
	link(to: string): void; // http or https
	leave(): void; // Ctrl+F6
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

// The 16 colours of a light page have less light than xterm's own, which are for a dark one.
const LIGHT_COLOURS = ['#1a222c', '#b3201c', '#116329', '#7d4e00', '#1f57c3', '#86318f', '#0b6a75', '#59636f', '#46505c', '#c4302b', '#187a35', '#925c00', '#2c66d6', '#9a3fa4', '#0f7a86', '#1a222c'];
const DARK_COLOURS = ['#2a323c', '#ff918b', '#6bd18c', '#eab95f', '#84b1ff', '#d59cf0', '#5fd0dd', '#c5ced8', '#6f7b88', '#ffb0ab', '#93e3ac', '#f5d08a', '#aecbff', '#e6bff7', '#93e4ed', '#ffffff'];
const NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white', 'brightBlack', 'brightRed', 'brightGreen', 'brightYellow', 'brightBlue', 'brightMagenta', 'brightCyan', 'brightWhite'];

function look(): ITerminalOptions {
	const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue('--terminal-ink').trim();
	const colours = document.documentElement.dataset['theme'] === 'dark' ? DARK_COLOURS : LIGHT_COLOURS;
	return {
		scrollback: 10000, fontFamily: 'ui-monospace, monospace', fontSize: fontSize(), allowProposedApi: false, screenReaderMode: false,
		theme: {background: style.getPropertyValue('--terminal').trim(), foreground: ink, cursor: ink, selectionBackground: style.getPropertyValue('--tint').trim(),
			...Object.fromEntries(NAMES.map((name, i) => [name, colours[i]]))},
	};
}

const isPage = (to: string): boolean => /^https?:\/\/[^\s"'<>]+$/i.test(to);

// The first address of a page in a line, around a column.
function addressAt(text: string): {start: number; end: number; to: string}[] {
	return [...text.matchAll(/https?:\/\/[^\s"'<>`]+[^\s"'<>`.,;:!?)\]}]/gi)].map((one) => ({start: one.index, end: one.index + one[0].length, to: one[0]}));
}

export function openTerminal(at: HTMLElement, box: string, slot: string, told: (status: Status) => void, asks: Asks): Pane {
	install();
	const terminal = new Terminal({...look(), linkHandler: {activate: (_, to) => {
		if (isPage(to))
			asks.link(to);
	}}});
	const fit = new FitAddon();
	terminal.loadAddon(fit);
	terminal.open(at);
	terminal.textarea?.setAttribute('aria-label', T.terminalInput);
	// A program in the sandbox cannot write to the clipboard, nor ask for the size of the window.
	terminal.parser.registerOscHandler(52, () => true);
	terminal.registerLinkProvider({provideLinks: (row, give) => {
		const text = terminal.buffer.active.getLine(row - 1)?.translateToString(true) ?? '';
		give(addressAt(text).map(({start, end, to}) => ({text: to, range: {start: {x: start + 1, y: row}, end: {x: end, y: row}}, activate: () => asks.link(to)})));
	}});
	terminal.onTitleChange((text) => asks.title(text));
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
		const isLeave = event.ctrlKey && event.key === 'F6';
		const isOurs = isLeave || (event.ctrlKey && event.shiftKey && ['KeyF', 'KeyC', 'KeyV'].includes(event.code));
		if (!isOurs || event.type !== 'keydown')
			return !isOurs;
		event.preventDefault();
		if (isLeave)
			asks.leave();
		else if (event.code === 'KeyF')
			asks.search();
		else if (event.code === 'KeyC')
			void navigator.clipboard?.writeText(terminal.getSelection());
		else
			void navigator.clipboard?.readText().then(pasteText, () => undefined);
		return false;
	});
	let socket: WebSocket | null = null;
	let over = false, wait = 500, timer = 0;
	let offset: number | null = null; // of the output that was written
	const base = `/v1/sandboxes/${box}/ws/pty`;
	const connect = () => {
		// A terminal of that id is attached to; there is a new one if there is none.
		const query = new URLSearchParams({terminal: terminalId(box, slot), cols: String(terminal.cols), rows: String(terminal.rows)});
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
		sessionStorage.removeItem(keyOf(box, slot));
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
		zoom: (by) => {
			terminal.options.fontSize = setFontSize((terminal.options.fontSize ?? 14) + by);
			fit.fit();
			terminal.focus();
		},
	};
}

export interface Screen {
	show(text: string, cols: number, rows: number): void; // instead of what is there
	play(event: CastEvent): void;
	close(): void;
}

// A terminal that shows and takes no input.
export function openScreen(at: HTMLElement, cols: number, rows: number): Screen {
	install();
	const terminal = new Terminal({...look(), cols, rows, disableStdin: true, cursorInactiveStyle: 'none'});
	terminal.open(at);
	terminal.textarea?.setAttribute('aria-label', T.recording);
	terminal.parser.registerOscHandler(52, () => true);
	return {
		show: (text, toCols, toRows) => {
			terminal.reset();
			terminal.resize(toCols, toRows);
			terminal.write(text);
		},
		play: (event) => {
			const {cols: toCols, rows: toRows} = sizeOf(event);
			if (event.kind === 'r')
				terminal.resize(toCols, toRows);
			else
				terminal.write(event.text);
		},
		close: () => terminal.dispose(),
	};
}
