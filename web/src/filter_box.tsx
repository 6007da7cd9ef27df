// The field of a filter, with what may end its last word. Tab takes the first.
import {useState} from 'preact/hooks';
import {completions} from './filter';
import {shown} from './format';
import {T} from './text';
import type {Row} from './types';

const LEAVE_MS = 150; // a press on a completion takes the focus first

export function FilterBox({label, value, rows, search}: {label: string; value: string; rows: readonly Row[]; search: (text: string) => void}) {
	const [isOpen, setOpen] = useState(false);
	const offered = isOpen ? completions(value, rows) : [];
	const lastOf = (text: string) => text.slice(text.lastIndexOf(' ') + 1);
	return <div class="grow filters" onFocusIn={() => setOpen(true)} onFocusOut={(event) => {
		const box = event.currentTarget;
		setTimeout(() => setOpen(box.contains(document.activeElement)), LEAVE_MS);
	}}>
		<input type="search" class="filter" aria-label={label} placeholder={T.filterExample} spellcheck={false} value={value} onInput={(event) => search(event.currentTarget.value)}
			onKeyDown={(event) => {
				const first = offered[0];
				if (event.key === 'Escape')
					setOpen(false);
				if (event.key !== 'Tab' || event.shiftKey || !first || !lastOf(value))
					return;
				event.preventDefault();
				search(first);
			}} />
		{offered.length > 0 && <div role="group" aria-label={T.completions} class="offers">{offered.map((one) => <button type="button" class="quiet" key={one} onClick={(event) => {
			search(one);
			event.currentTarget.closest('.filters')?.querySelector('input')?.focus();
		}}><bdi>{shown(lastOf(one), 60)}</bdi></button>)}</div>}
	</div>;
}
