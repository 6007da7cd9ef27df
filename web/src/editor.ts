// The editor of a file, loaded on its first use. It is in a shadow root: only there are its styles
// style sheets of the document, which the policy of the pages allows.
import {defaultKeymap, history, historyKeymap, indentWithTab} from '@codemirror/commands';
import {HighlightStyle, StreamLanguage, bracketMatching, indentUnit, syntaxHighlighting} from '@codemirror/language';
import type {StreamParser} from '@codemirror/language';
import {c, cpp, java} from '@codemirror/legacy-modes/mode/clike';
import {css} from '@codemirror/legacy-modes/mode/css';
import {diff} from '@codemirror/legacy-modes/mode/diff';
import {dockerFile} from '@codemirror/legacy-modes/mode/dockerfile';
import {go} from '@codemirror/legacy-modes/mode/go';
import {javascript, json, typescript} from '@codemirror/legacy-modes/mode/javascript';
import {properties} from '@codemirror/legacy-modes/mode/properties';
import {python} from '@codemirror/legacy-modes/mode/python';
import {rust} from '@codemirror/legacy-modes/mode/rust';
import {shell} from '@codemirror/legacy-modes/mode/shell';
import {standardSQL} from '@codemirror/legacy-modes/mode/sql';
import {toml} from '@codemirror/legacy-modes/mode/toml';
import {html, xml} from '@codemirror/legacy-modes/mode/xml';
import {yaml} from '@codemirror/legacy-modes/mode/yaml';
import {highlightSelectionMatches, search, searchKeymap} from '@codemirror/search';
import {EditorState} from '@codemirror/state';
import {EditorView, drawSelection, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers} from '@codemirror/view';
import {tags} from '@lezer/highlight';

const MODES: Record<string, StreamParser<unknown>> = {
	c, h: c, cc: cpp, cpp, hpp: cpp, java, css, diff, patch: diff, dockerfile: dockerFile, go, js: javascript, mjs: javascript, jsx: javascript,
	json, ts: typescript, tsx: typescript, ini: properties, conf: properties, env: properties, py: python, rs: rust, sh: shell, bash: shell,
	sql: standardSQL, toml, html, xml, svg: xml, yml: yaml, yaml,
} as Record<string, StreamParser<unknown>>;

const theme = EditorView.theme({
	'&': {height: '100%', color: 'var(--ink)', backgroundColor: 'var(--paper)', fontSize: '13px'},
	'.cm-scroller': {fontFamily: 'var(--mono)', lineHeight: '1.55'},
	'.cm-gutters': {backgroundColor: 'var(--paper)', color: 'var(--dim)', border: 'none', paddingInlineStart: '.4rem'},
	'.cm-content': {caretColor: 'var(--ink)'},
	'.cm-cursor': {borderLeftColor: 'var(--ink)'},
	'&.cm-focused': {outline: 'none'},
	'.cm-activeLine, .cm-activeLineGutter': {backgroundColor: 'var(--hover)'},
	'.cm-panels': {backgroundColor: 'var(--soft)', color: 'var(--ink)'},
	'&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {background: 'var(--tint)'},
});
const colours = HighlightStyle.define([
	{tag: [tags.keyword, tags.operatorKeyword], color: 'var(--mark)'},
	{tag: [tags.string, tags.special(tags.string)], color: 'var(--good)'},
	{tag: [tags.comment, tags.meta], color: 'var(--dim)', fontStyle: 'italic'},
	{tag: [tags.number, tags.bool, tags.atom], color: 'var(--warn)'},
	{tag: [tags.tagName, tags.propertyName, tags.attributeName], color: 'var(--mark)'},
	{tag: tags.invalid, color: 'var(--bad)'},
]);

export interface Editor {
	text: () => string;
	close: () => void;
}

export function openEditor(at: HTMLElement, text: string, name: string, label: string, changed: () => void, store: () => void): Editor {
	const inside = document.createElement('div');
	inside.style.height = '100%';
	const root = at.shadowRoot ?? at.attachShadow({mode: 'open'});
	root.replaceChildren(inside);
	const mode = MODES[/^dockerfile/i.test(name) ? 'dockerfile' : name.split('.').pop()?.toLowerCase() ?? ''];
	const view = new EditorView({
		root, parent: inside,
		state: EditorState.create({
			doc: text,
			extensions: [
				lineNumbers(), highlightSpecialChars(), history(), drawSelection(), bracketMatching(), highlightActiveLine(), highlightSelectionMatches(),
				search({top: true}), indentUnit.of('\t'), theme, syntaxHighlighting(colours),
				EditorView.contentAttributes.of({'aria-label': label}),
				EditorView.updateListener.of((update) => {
					if (update.docChanged)
						changed();
				}),
				keymap.of([{key: 'Mod-s', preventDefault: true, run: () => {
					store();
					return true;
				}}, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...(mode === MODES['py'] || mode === MODES['yml'] ? [] : [indentWithTab])]),
				...(mode ? [StreamLanguage.define(mode)] : []),
			],
		}),
	});
	return {text: () => view.state.doc.toString(), close: () => view.destroy()};
}
