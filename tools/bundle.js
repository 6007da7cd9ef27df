// Makes one file of a CommonJS package and of what it requires: node tools/bundle.js DIR NAME > FILE.
// The modules are put beside one another as they are, each in a function of its own; what is
// required is known beforehand, so that nothing is looked for when it runs.
'use strict';
const fs = require('fs');
const path = require('path');
const {builtinModules, createRequire} = require('module');

const [dir, name] = process.argv.slice(2);
const modules = new Map(); // path -> {number, text, needs}

function add(file) {
	if (modules.has(file))
		return modules.get(file).number;
	const module = {number: modules.size, text: fs.readFileSync(file, 'utf8'), needs: {}};
	modules.set(file, module);
	for (const [, wanted] of module.text.matchAll(/\brequire\(['"]([\w@./:-]+)['"]\)/g)) {
		if (builtinModules.includes(wanted.replace(/^node:/, '')))
			continue;
		try {
			module.needs[wanted] = add(createRequire(file).resolve(wanted));
		} catch (error) {
			if (error.code !== 'MODULE_NOT_FOUND') // else it stands in a comment
				throw error;
		}
	}
	return module.number;
}

add(createRequire(path.resolve(dir, 'package.json')).resolve(name));
process.stdout.write(`// ${name}, bundled; see its licence.\nconst parts = [\n`);
for (const {text, needs} of modules.values())
	process.stdout.write(`[${JSON.stringify(needs)}, function (module, exports, require) {${text}\n}],\n`);
process.stdout.write(`];
const made = [];
function get(number) {
	if (!made[number]) {
		const module = made[number] = {exports: {}};
		const [needs, body] = parts[number];
		body(module, module.exports, (name) => name in needs ? get(needs[name]) : require(name));
	}
	return made[number].exports;
}
module.exports = get(0);
`);
