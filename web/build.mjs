// Bundles src/ and packs the files for the binary: node build.mjs FILE. The same sources and packages
// give the same bytes. The pack is an index of lines "PATH HASH PLAIN GZIP BROTLI TYPE", an empty
// line, and then the bytes of each file in its three forms.
import {createHash} from 'node:crypto';
import {mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {constants, brotliCompressSync, gzipSync} from 'node:zlib';
import path from 'node:path';
import {build} from 'esbuild';

const TYPES = {'.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.html': 'text/html; charset=utf-8'};
const out = mkdtempSync(path.join(process.cwd(), 'out-'));
const common = {
	bundle: true, minify: true, outdir: out, target: 'es2022', charset: 'utf8', metafile: true, legalComments: 'none',
	entryNames: '[name]-[hash]', chunkNames: '[name]-[hash]', logLevel: 'warning',
	define: {'process.env.NODE_ENV': '"production"'},
};

function made(result, entry) {
	for (const [file, one] of Object.entries(result.metafile.outputs))
		if (one.entryPoint === entry)
			return path.basename(file);
	throw new Error(`nothing was made of ${entry}`);
}

try {
	const main = await build({...common, entryPoints: ['src/main.tsx', 'src/style.css'], format: 'esm', splitting: true,
		jsx: 'automatic', jsxImportSource: 'preact'});
	const theme = await build({...common, entryPoints: ['src/theme.ts'], format: 'iife'});
	const page = readFileSync('src/index.html', 'utf8')
		.replace('{style}', made(main, 'src/style.css'))
		.replace('{main}', made(main, 'src/main.tsx'))
		.replace('{theme}', made(theme, 'src/theme.ts'));
	const files = readdirSync(out).sort().map((name) => ({path: `assets/${name}`, bytes: readFileSync(path.join(out, name))}));
	files.push({path: 'index.html', bytes: Buffer.from(page)});

	let index = '';
	const bodies = [];
	for (const {path: name, bytes} of files) {
		const forms = [bytes, gzipSync(bytes, {level: 9}),
			brotliCompressSync(bytes, {params: {[constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length}})];
		const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 16);
		index += `${name} ${hash} ${forms.map((one) => one.length).join(' ')} ${TYPES[path.extname(name)]}\n`;
		bodies.push(...forms);
	}
	writeFileSync(process.argv[2], Buffer.concat([Buffer.from(index + '\n'), ...bodies]));
} finally {
	rmSync(out, {recursive: true});
}
