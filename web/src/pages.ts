// The pages of the navigation: address, name, picture, and who has them.
import {currentSession, may} from './api';
import {T} from './text';

export interface PageEntry {
	path: string;
	label: string;
	icon: string;
	apart?: boolean; // begins a group
	may: () => boolean;
}

const reads = () => may('read');
export const isOperator = () => currentSession()?.who.role === 'operator' && may('admin');

export const PAGES: PageEntry[] = [
	{path: '/ui/', label: T.overview, icon: 'M4 13h6V4H4zM14 20h6V11h-6zM14 4v3h6V4zM4 17v3h6v-3z', may: reads},
	{path: '/ui/sandboxes', label: T.sandboxes, icon: 'M12 3l8 4.5v9L12 21l-8-4.5v-9zM12 12l8-4.5M12 12v9M12 12L4 7.5', may: reads},
	{path: '/ui/executions', label: T.executions, icon: 'M7 4v16l13-8z', may: reads},
	{path: '/ui/settings', label: T.settings, icon: 'M12 9a3 3 0 100 6 3 3 0 000-6zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M5 19l2-2M17 7l2-2', apart: true, may: () => true},
];
