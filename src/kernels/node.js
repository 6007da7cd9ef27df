// The JavaScript and TypeScript driver of a context. Cells are read from the dialogue one after
// another, run in this process's global scope, and answered; src/box/context.c is the other end.
// The encoding of text and events is described at the top of python.py.
//
// A cell is a script, rewritten in as few places as possible so that it can follow another:
// - const, let and class at top level become var: they persist, and may be redeclared;
// - import and export become statements that a script allows;
// - with a top-level await it becomes an async function, whose top-level names are assigned
// outside.
// acorn, which every node ships for its REPL, finds these places.
(function (require, typescript, load) {
'use strict';
const fs = require('fs'), net = require('net'), path = require('path'), util = require('util'), vm = require('vm');
const {Writable} = require('stream');
const {pathToFileURL} = require('url');

const DIALOGUE = 240, OUT = 241, ERR = 242;
const PIECE = 4000; // bytes of an event in one frame; with its header less than PIPE_BUF
const EVENT_MAX = 16 << 20;
const DEPTH_MAX = 28; // depth of a value that is sent as JSON
const ME = '<cove>';
const KINDS = {
	'text/html': 'html', 'text/markdown': 'markdown', 'image/svg+xml': 'svg', 'image/png': 'png', 'image/jpeg': 'jpeg',
	'text/latex': 'latex', 'application/json': 'json', 'application/javascript': 'javascript', 'text/plain': 'text',
};

let key = '', language = 'javascript', cells = 0;
let interrupt = null; // ends the awaited cell
const pause = new Int32Array(new SharedArrayBuffer(4));

// ---- output

function writeAll(fd, data) {
	for (let at = 0; at < data.length;) {
		try {
			at += fs.writeSync(fd, data, at);
		} catch (error) {
			if (error.code !== 'EAGAIN') // a process that shares the pipe may have changed its flags
				return;
			Atomics.wait(pause, 0, 0, 1);
		}
	}
}

function emit(event) {
	const data = Buffer.from(typeof event === 'string' ? event : JSON.stringify(event));
	if (data.length > EVENT_MAX) {
		complain(`a result of ${data.length} bytes was left out: ${EVENT_MAX} are the most`);
		return;
	}
	for (let at = 0; at < data.length; at += PIECE) {
		const piece = data.subarray(at, at + PIECE), more = at + PIECE < data.length ? '+' : '.';
		writeAll(1, Buffer.concat([Buffer.from(`\x1e${key}${more}${piece.length.toString(16).padStart(4, '0')}`), piece]));
	}
}

function complain(text) {
	writeAll(2, Buffer.from(text + '\n'));
}

function sendResult(kind, value) {
	emit({type: 'result', [kind]: value, metadata: {}});
}

function takeSeats() {
	// node has no dup2(): an opened file gets the lowest free number.
	for (const [seat, from, flags] of [[0, '/dev/null', 'r'], [1, `/proc/self/fd/${OUT}`, 'w'], [2, `/proc/self/fd/${ERR}`, 'w']]) {
		fs.closeSync(seat);
		if (fs.openSync(from, flags) !== seat)
			process.reallyExit(70);
	}
	fs.closeSync(OUT);
	fs.closeSync(ERR);
	for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
		const stream = new Writable({
			decodeStrings: true,
			write(chunk, encoding, done) {
				writeAll(fd, chunk);
				done();
			},
		});
		Object.assign(stream, {fd, isTTY: false, _type: 'pipe', destroySoon: stream.destroy});
		stream.end = stream.destroy = () => stream; // like node's own streams, they cannot be closed
		Object.defineProperty(process, name, {get: () => stream, configurable: true, enumerable: true});
	}
}

// ---- representations of a value

function isDeep(value, left = DEPTH_MAX) {
	if (typeof value !== 'object' || value === null)
		return false;
	return left === 0 || Object.values(value).some((each) => isDeep(each, left - 1));
}

function show(value) {
	const bundle = value !== null && value !== undefined && value[Symbol.for('Jupyter.display')];
	if (typeof bundle === 'function') {
		sendBundle(bundle.call(value));
		return;
	}
	const tag = Object.prototype.toString.call(value);
	if (tag === '[object Object]' || tag === '[object Array]') {
		try {
			const text = JSON.stringify(value);
			if (text !== undefined && !isDeep(JSON.parse(text))) {
				emit(`{"type":"result","json":${text},"metadata":{}}`);
				return;
			}
		} catch {
			// circular, or a BigInt: as text
		}
	}
	sendResult('text', util.inspect(value, {maxStringLength: Infinity}));
}

function sendBundle(bundle) {
	for (const [mime, kind] of Object.entries(KINDS)) {
		let value = bundle[mime];
		if (value === undefined || value === null)
			continue;
		if (value instanceof Uint8Array)
			value = Buffer.from(value).toString('base64');
		sendResult(kind, kind === 'json' ? value : String(value));
	}
}

function display(value, options) {
	if (options && options.raw)
		sendBundle(value);
	else
		show(value);
}

function report(error) {
	let name = 'Error', text, lines;
	try {
		if (util.types.isNativeError(error) || error instanceof Error) {
			name = String(error.name);
			text = String(error.message);
			lines = String(error.stack).split('\n');
		} else {
			text = typeof error === 'string' ? error : util.inspect(error);
			lines = [`Uncaught ${text}`];
		}
	} catch {
		text = '(it cannot be told)';
		lines = [];
	}
	const ours = lines.findIndex((line) => line.includes(ME) || /^ +at .*node:vm:/.test(line));
	emit({type: 'error', ename: name, evalue: text, traceback: ours < 0 ? lines : lines.slice(0, ours)});
}

// ---- rewriting a cell

function findParser() {
	try {
		return require('internal/deps/acorn/acorn/dist/acorn');
	} catch {
		return null; // then a cell is run unchanged
	}
}
const acorn = findParser();

function parse(code) {
	return acorn.parse(code, {
		ecmaVersion: 'latest', sourceType: 'script', allowAwaitOutsideFunction: true,
		allowImportExportEverywhere: true, allowHashBang: true,
	});
}

// Calls see(node, inside) for every node; `inside`: in a function.
function walk(node, see, inside = false) {
	see(node, inside);
	const deeper = inside || /Function/.test(node.type) || node.type === 'StaticBlock' || node.type === 'PropertyDefinition';
	for (const child of Object.values(node)) {
		if (Array.isArray(child))
			child.forEach((each) => each && typeof each.type === 'string' && walk(each, see, deeper));
		else if (child && typeof child.type === 'string')
			walk(child, see, deeper);
	}
}

// Only the names that a pattern binds: neither keys nor defaults.
function boundBy(pattern, out) {
	switch (pattern && pattern.type) {
	case 'Identifier':
		out.add(pattern.name);
		break;
	case 'ObjectPattern':
		pattern.properties.forEach((each) => boundBy(each.type === 'RestElement' ? each.argument : each.value, out));
		break;
	case 'ArrayPattern':
		pattern.elements.forEach((each) => boundBy(each, out));
		break;
	case 'AssignmentPattern':
		boundBy(pattern.left, out);
		break;
	case 'RestElement':
		boundBy(pattern.argument, out);
		break;
	}
}

class Rewrite {
	constructor(code, tree) {
		this.code = code;
		this.tree = tree;
		this.edits = [];
		this.names = new Set();
		this.functions = [];
		this.awaits = false;
		walk(tree, (node, inside) => {
			if (node.type === 'ImportExpression')
				this.put(node.start, node.start + 6, 'imp0rt'); // of the same length: columns stay
			if (!inside && (node.type === 'AwaitExpression' || node.type === 'ImportDeclaration' ||
					(node.type === 'ForOfStatement' && node.await)))
				this.awaits = true;
		});
	}

	put(start, end, text) {
		this.edits.push([start, end, text]);
	}

	variables(node) {
		node.declarations.forEach((each) => boundBy(each.id, this.names));
		if (!this.awaits) {
			if (node.kind !== 'var')
				this.put(node.start, node.start + node.kind.length, 'var'.padEnd(node.kind.length));
			return;
		}
		this.put(node.start, node.start + node.kind.length, ';void (');
		for (const each of node.declarations)
			if (!each.init)
				this.put(each.end, each.end, node.kind === 'var' ? '' : ' = undefined');
		const end = this.code[node.end - 1] === ';' ? node.end - 1 : node.end;
		this.put(end, end, ')');
	}

	imports(node) {
		const parts = [`const m = await imp0rt(${node.source.raw})`];
		for (const each of node.specifiers) {
			const name = each.local.name, from = each.imported && (each.imported.name ?? each.imported.value);
			this.names.add(name);
			parts.push(each.type === 'ImportNamespaceSpecifier' ? `${name} = m` :
				`${name} = m[${JSON.stringify(each.type === 'ImportDefaultSpecifier' ? 'default' : from)}]`);
		}
		this.put(node.start, node.end, `{ ${parts.join('; ')} }`);
	}

	statement(node) {
		switch (node.type) {
		case 'VariableDeclaration':
			this.variables(node);
			break;
		case 'ClassDeclaration':
			this.names.add(node.id.name);
			this.put(node.start, node.start, this.awaits ? `;${node.id.name} = ` : `var ${node.id.name} = `);
			this.put(node.end, node.end, ';');
			break;
		case 'FunctionDeclaration':
			this.names.add(node.id.name);
			this.functions.push(node.id.name);
			break;
		case 'ImportDeclaration':
			this.imports(node);
			break;
		case 'ExportNamedDeclaration':
			this.put(node.start, node.declaration ? node.declaration.start : node.end, '');
			if (node.declaration)
				this.statement(node.declaration);
			break;
		case 'ExportDefaultDeclaration':
			this.put(node.start, node.declaration.start, '');
			if (node.declaration.id)
				this.statement(node.declaration);
			break;
		}
	}

	text() {
		let at = 0, out = '';
		this.edits.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
		for (const [start, end, text] of this.edits) {
			if (start < at)
				continue;
			out += this.code.slice(at, start) + text;
			at = end;
		}
		return out + this.code.slice(at);
	}

	run() {
		const last = this.tree.body.at(-1);
		const hasValue = Boolean(last) && last.type === 'ExpressionStatement' && !last.directive;
		this.tree.body.forEach((node) => this.statement(node));
		if (this.awaits && hasValue) {
			this.put(last.start, last.start, ';return (');
			this.put(this.code[last.end - 1] === ';' ? last.end - 1 : last.end, last.end, ')');
		}
		const body = this.text(), names = [...this.names];
		if (!this.awaits)
			return {text: body, names, hasValue: hasValue || Boolean(last && last.directive)};
		const head = (names.length ? `var ${names.join(', ')};` : '') +
			`(async () => {${this.functions.map((name) => `globalThis.${name} = ${name};`).join('')}`;
		return {text: `${head}${body}\n})()`, names, hasValue, shift: head.length};
	}
}

// True: the cell is an object literal, although a script that begins so is a block.
function isObject(code) {
	const text = code.trim();
	if (!text.startsWith('{') || !/\}\s*;?$/.test(text))
		return false;
	try {
		return parse(`(${text.replace(/;$/, '')})`).body.length === 1;
	} catch {
		return false;
	}
}

function prepare(code) {
	if (language === 'typescript')
		code = strip(code);
	if (!acorn)
		return {text: code, names: [], hasValue: true};
	if (isObject(code))
		code = `(${code.trim().replace(/;$/, '')})`;
	let tree;
	try {
		tree = parse(code);
	} catch (error) {
		try {
			new vm.Script(code, {filename: `<cell ${cells}>`});
		} catch (better) {
			throw /\bawait\b/.test(better.message) || /import/.test(better.message) ? new SyntaxError(error.message) : better;
		}
		return {text: code, names: [], hasValue: true}; // newer syntax than the parser's
	}
	return new Rewrite(code, tree).run();
}

let sucrase = null;

function plain(code) {
	return sucrase.transform(code, {transforms: ['typescript'], disableESTransforms: true, keepUnusedImports: true}).code;
}

// The tokens of TypeScript, without comments: [text, start, end, is it a type].
function tokensOf(code) {
	const lines = [0];
	for (let at = code.indexOf('\n'); at >= 0; at = code.indexOf('\n', at + 1))
		lines.push(at + 1);
	const rows = sucrase.getFormattedTokens(code, {transforms: ['typescript']}).split('\n').slice(1);
	return rows.map((row) => row.match(/^(\d+):(\d+)-(\d+):(\d+)/)).filter(Boolean).map((place) => {
		const [line, column, endLine, endColumn] = place.slice(1).map(Number);
		const from = lines[line - 1] + column - 1, to = lines[endLine - 1] + endColumn - 1;
		return [code.slice(from, to), from, to, / isType /.test(place.input)];
	});
}

// The closing brackets of the brackets that open at each token.
function closes(tokens, at) {
	for (let depth = 0; at < tokens.length; at++) {
		depth += tokens[at][0] === '{' || tokens[at][0] === '${' ? 1 : tokens[at][0] === '}' ? -1 : 0;
		if (!depth)
			return at;
	}
	throw new SyntaxError('a bracket is not closed');
}

// A namespace is an object that a function fills. Its exports are its members, as variables of that
// function. A namespace with only types is empty.
function namespace(names, body) {
	const text = plain(namespaces(body)), tree = acorn.parse(text, {ecmaVersion: 'latest', sourceType: 'module'});
	const members = [];
	let made = '', at = 0;
	if (!tree.body.length)
		return body.replace(/[^\n]/g, '');
	for (const node of tree.body) {
		if (node.type !== 'ExportNamedDeclaration' || !node.declaration)
			continue;
		made += text.slice(at, node.start);
		at = node.declaration.start;
		if (node.declaration.id)
			members.push(node.declaration.id.name);
		else
			node.declaration.declarations.forEach((one) => bound(one.id, members));
	}
	made += text.slice(at);
	const name = names[names.length - 1];
	const filled = members.map((one) => `Object.defineProperty(${name}, '${one}', {get: () => ${one}, set: (v) => { ${one} = v; }, ` +
		'enumerable: true, configurable: true});').join('');
	return names.reduceRight((inside, one, i) => `var ${one};(function (${one}) {${inside}})(` +
		(i ? `${one} = ${names[i - 1]}.${one} || (${names[i - 1]}.${one} = {})` : `${one} || (${one} = {})`) + ');', filled + made);
}

function bound(pattern, names) {
	if (!pattern)
		return;
	if (pattern.type === 'Identifier')
		names.push(pattern.name);
	for (const part of pattern.elements || pattern.properties || [])
		bound(part && (part.value || part.argument || part), names);
	if (pattern.type === 'AssignmentPattern')
		bound(pattern.left, names);
}

// The transformer drops namespaces together with types, so they are rewritten as JavaScript before.
function namespaces(code) {
	if (!/\b(namespace|module)\s+[\p{ID_Start}$_]/u.test(code))
		return code;
	const tokens = tokensOf(code);
	let made = '', at = 0;
	for (let i = 0; i < tokens.length; i++) {
		const before = i ? tokens[i - 1][0] : '', names = [];
		if (tokens[i][0] === 'declare' && tokens[i][3]) {
			while (i < tokens.length && tokens[i][0] !== '{' && tokens[i][0] !== ';' && tokens[i][3])
				i++;
			if (i < tokens.length && tokens[i][0] === '{')
				i = closes(tokens, i);
			continue;
		}
		if (!tokens[i][3] || !/^(namespace|module)$/.test(tokens[i][0]) || before === '.')
			continue;
		let next = i + 1;
		for (; next < tokens.length && tokens[next][0] !== '{'; next++)
			if (tokens[next][0] !== '.')
				names.push(tokens[next][0]);
		if (next === tokens.length || !names.every((one) => /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(one)))
			continue;
		const end = closes(tokens, next);
		if (!acorn)
			throw new SyntaxError(`a namespace ('${names.join('.')}') needs a node with its own parser`);
		const text = namespace(names, code.slice(tokens[next][2], tokens[end][1]));
		made += code.slice(at, tokens[before === 'export' ? i - 1 : i][1]) + (before === 'export' && text.trim() ? 'export ' : '') + text;
		at = tokens[end][2];
		i = end;
	}
	return made + code.slice(at);
}

function strip(code) {
	if (!sucrase) {
		if (!typescript)
			throw named('TranspileError', 'TypeScript is not part of this build');
		const module = {exports: {}};
		vm.runInThisContext(`(function (module, exports, require) {${typescript}\n})`, {filename: ME})(module, module.exports, require);
		sucrase = module.exports;
	}
	try {
		const text = plain(namespaces(code));
		if (acorn)
			parse(text);
		return text;
	} catch (error) {
		throw named('TranspileError', error.message);
	}
}

function named(name, text) {
	const error = new Error(text);
	error.name = name;
	error.stack = `${name}: ${text}`;
	return error;
}

// ---- running a cell

async function imported(name) {
	if (typeof name === 'string' && /^\.{0,2}\//.test(name))
		return load(pathToFileURL(path.resolve(name)).href);
	return load(name);
}

// Globals that node defines by an accessor may be declared too.
function clear(names) {
	for (const name of names) {
		const found = Object.getOwnPropertyDescriptor(globalThis, name);
		if (found && found.get && found.configurable)
			Object.defineProperty(globalThis, name, {value: globalThis[name], writable: true, configurable: true, enumerable: true});
	}
}

function interrupted() {
	return named('KeyboardInterrupt', 'the cell was interrupted');
}

async function execute(code) {
	const cell = prepare(code);
	const stopped = new Promise((resolve, reject) => {
		interrupt = () => reject(interrupted());
	});
	stopped.catch(() => {});
	const script = new vm.Script(cell.text, {
		filename: `<cell ${cells}>`, columnOffset: -(cell.shift || 0),
	});
	clear(cell.names);
	let value;
	try {
		value = script.runInThisContext({breakOnSigint: true, displayErrors: false});
	} catch (error) {
		throw error && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? interrupted() : error;
	}
	if (util.types.isPromise(value))
		value = await Promise.race([value, stopped]);
	if (cell.hasValue && value !== undefined)
		show(value);
}

async function run(code) {
	cells++;
	try {
		await execute(code);
		emit({type: 'execution_complete', execution_count: cells});
		return 0;
	} catch (error) {
		report(error);
		return 1;
	} finally {
		interrupt = null;
	}
}

// ---- the dialogue

// Turns a prewarmed interpreter into that of a context. 1: it does not match the request.
function take(text) {
	const [mine, cwd, ...pairs] = text.split('\0').slice(0, -1);
	try {
		process.chdir(cwd);
	} catch {
		return 1;
	}
	if (pairs.length) {
		for (const name of Object.keys(process.env))
			delete process.env[name];
		for (const pair of pairs)
			process.env[pair.slice(0, pair.indexOf('='))] = pair.slice(pair.indexOf('=') + 1);
	}
	key = mine;
	return 0;
}

function serve() {
	const socket = new net.Socket({fd: DIALOGUE});
	let heard = Buffer.alloc(0), busy = false;

	async function next() {
		const end = heard.indexOf(10);
		if (busy || end < 0)
			return;
		const [verb, mark, length] = heard.toString('latin1', 0, end).split(' ');
		if (heard.length < end + 1 + Number(length))
			return;
		const text = heard.toString('utf8', end + 1, end + 1 + Number(length));
		heard = heard.subarray(end + 1 + Number(length));
		busy = true;
		let status = 0;
		if (verb === 'hello')
			[key, language] = text.split(' ');
		else if (verb === 'take')
			status = take(text);
		else if (verb === 'run')
			status = await run(text);
		let cwd = '';
		try {
			cwd = process.cwd().slice(0, 4096);
		} catch {
 // it was removed
		}
		socket.write(`${status} ${mark}  ${cwd}\0`);
		busy = false;
		next();
	}

	socket.on('data', (data) => {
		heard = Buffer.concat([heard, data]);
		next();
	});
	socket.on('end', () => process.reallyExit(0));
	socket.on('error', () => process.reallyExit(0));
}

takeSeats();
process.execArgv.length = 0; // for us only, not for child processes
process.exit = (code) => {
	throw named('ProcessExit', `process.exit(${code === undefined ? '' : code}) was called; the context lives on`);
};
process.on('SIGINT', () => interrupt && interrupt());
for (const event of ['uncaughtException', 'unhandledRejection'])
	process.on(event, (error) => complain(`Uncaught ${util.inspect(error)}`));
for (const [name, value] of Object.entries({imp0rt: imported, display}))
	Object.defineProperty(globalThis, name, {value, writable: true, configurable: true, enumerable: false});
serve();
})
