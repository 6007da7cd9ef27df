// The code of the dashboard that does no I/O, run by node: node pure.mjs BUNDLE VECTORS. Prints one
// line of JSON a check: {name, ok, told}. Random input is of a fixed seed.
import {readFileSync} from 'node:fs';
import {pathToFileURL} from 'node:url';

const {matches, readFilter, completions, pieces, plainLine, overwritten, readCast, skipped, shownAt, shown, readLabels, labelText, quote} = await import(pathToFileURL(process.argv[2]));
const {rows, vectors} = JSON.parse(readFileSync(process.argv[3], 'utf8'));
const check = (name, ok, told) => console.log(JSON.stringify({name, ok: Boolean(ok), told}));
const same = (name, got, want) => check(name, JSON.stringify(got) === JSON.stringify(want), {got, want});

let seed = 7;
const random = (most) => {
	seed = (seed * 1103515245 + 12345) & 0x7fffffff;
	return seed % most;
};
const made = (alphabet, most) => Array.from({length: random(most)}, () => alphabet[random(alphabet.length)]).join('');

const now = Date.parse('2026-01-01T00:00:00Z');
const all = rows.map((row) => ({...row, createdAt: new Date(now - row.ageSeconds * 1000).toISOString()}));
const wrong = vectors.filter(({filter, ids}) => JSON.stringify(all.filter((row) => matches(readFilter(filter), row, now)).map((row) => row.id)) !== JSON.stringify(ids));
same(`W-16 ${vectors.length} shared vectors of the filter`, wrong, []);
check('W-16 completion of a field', completions('state:ru', all).includes('state:running'), completions('state:ru', all));
check('W-16 completion of a name of a field', completions('web la', all).includes('web label:'), completions('web la', all));

let bad = null;
for (let i = 0; i < 20000 && !bad; i++) {
	const text = made(['a', 'web', ' ', ':', '"', '-', '*', '>', '<', '=', '%', ',', 'state', 'cpu', 'label', '1', '.', 'M', '\n', '\u202e'], 14);
	try {
		const terms = readFilter(text);
		for (const row of all)
			for (const term of terms)
				if (matches([term], row, now) === matches([{...term, isNot: !term.isNot}], row, now))
					bad = text;
		completions(text, all);
	} catch (fault) {
		bad = `${text}: ${fault}`;
	}
}
check('W-7 20,000 random filters: a term and its opposite never agree', !bad, bad);

const ESC = '\u001b';
same('W-26 SGR makes pieces', pieces(`${ESC}[1;31mred${ESC}[0m plain`), [{text: 'red', style: 'sgr-bold sgr-1'}, {text: ' plain', style: ''}]);
same('W-26 256 colours and all colours', pieces(`${ESC}[38;5;196ma${ESC}[48;2;1;2;300mb`).map(({colour, back}) => [colour, back]), [['rgb(255,0,0)', undefined], ['rgb(255,0,0)', 'rgb(1,2,255)']]);
same('W-26 a carriage return and a backspace overwrite', ['10 %\r50 %\r', 'ab\bc', '\b\bx', 'abc\b\b\b'].map(overwritten), ['50 %', 'ac', 'x', '']);
same('W-26 other sequences are dropped', plainLine(`a${ESC}[2Jb${ESC}]0;title\u0007c${ESC}]8;;x${ESC}\\d${ESC}(Be${ESC}P1$q${ESC}\\f`), 'abcdef');
same('W-60 what is left of controls is shown', plainLine('x\u0000\u202ey'), 'x\\u0000\\u202ey');
bad = null;
for (let i = 0; i < 20000 && !bad; i++) {
	const text = made([ESC, '[', ']', '3', '8', ';', 'm', 'a', '\b', '\r', '\u0007', '\\', 'P', '\u009b', '<img>', '\u202e', '\ud800'], 24);
	try {
		const found = pieces(text);
		if (found.map((one) => one.text).join('') !== plainLine(text) || /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/.test(plainLine(text)) || found.some((one) => !/^[a-z0-9 -]*$/.test(one.style)))
			bad = JSON.stringify(text);
	} catch (fault) {
		bad = `${JSON.stringify(text)}: ${fault}`;
	}
}
check('W-7 20,000 random lines: colours change no text, and no control is left', !bad, bad);

const cast = readCast('{"version":2,"width":100,"height":30}\n[0.5,"o","one"]\n[1,"i","typed"]\nnonsense\n[9.5,"r","120x40"]\n[10,"o","two"]\n[10.5,"o",');
same('W-47 a recording, cut in its last line', [cast.cols, cast.rows, cast.duration, cast.events.map((one) => one.kind).join('')], [100, 30, 10, 'oro']);
same('W-47 idle time is cut', skipped(cast).events.map((one) => one.time), [0.5, 1.5, 2]);
same('W-47 what is seen at a moment', [shownAt(cast, 1), shownAt(cast, 10)], [{text: 'one', next: 1, cols: 100, rows: 30}, {text: 'onetwo', next: 3, cols: 120, rows: 40}]);
const long = readCast(['{"version":2,"width":80,"height":24}', ...Array.from({length: 200000}, (_, i) => JSON.stringify([i / 100, 'o', `line ${i} ${'x'.repeat(70)}\r\n`]))].join('\n'));
const begun = performance.now();
for (let i = 0; i < 10; i++)
	shownAt(long, long.duration * (i / 10));
const took = (performance.now() - begun) / 10;
check('W-47 seeking in 16 MB of output: what is to show is found in time', took < 300, took);

same('labels are read as they are written', [readLabels(labelText({team: 'a', x: ''})), readLabels('=x')], [{team: 'a', x: ''}, null]);
check('W-60 a name that turns text around is shown', shown('a\u202eb') === 'a\\u202eb');
check('W-19 a word of a shell', quote(`a'b"c $(id)`) === `'a'\\''b"c $(id)'`, quote(`a'b"c $(id)`));
