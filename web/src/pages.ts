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
const manages = () => may('admin');
export const isOperator = (): boolean => currentSession()?.who.role === 'operator' && may('admin');
// What concerns the host is the operator's, also to read.
const seesHost = () => currentSession()?.who.role === 'operator' && may('read');

export const PAGES: PageEntry[] = [
	{path: '/ui/', label: T.overview, icon: 'M4 13h6V4H4zM14 20h6V11h-6zM14 4v3h6V4zM4 17v3h6v-3z', may: reads},
	{path: '/ui/sandboxes', label: T.sandboxes, icon: 'M12 3l8 4.5v9L12 21l-8-4.5v-9zM12 12l8-4.5M12 12v9M12 12L4 7.5', may: reads},
	{path: '/ui/executions', label: T.executions, icon: 'M7 4v16l13-8z', may: reads},
	{path: '/ui/agent-sessions', label: T.agentSessions, icon: 'M4 5h16v11H9l-5 4z', may: reads},
	{path: '/ui/agent-runs', label: T.agentRuns, icon: 'M5 5h6v6H5zM13 13h6v6h-6zM11 8h5v5M8 11v5h5', may: reads},
	{path: '/ui/templates', label: T.templates, icon: 'M12 3l9 5-9 5-9-5zM3 13l9 5 9-5', apart: true, may: reads},
	{path: '/ui/volumes', label: T.volumes, icon: 'M4 6c0-4 16-4 16 0v12c0 4-16 4-16 0zM4 6c0 4 16 4 16 0M4 12c0 4 16 4 16 0', may: reads},
	{path: '/ui/secrets', label: T.secrets, icon: 'M6 11h12v9H6zM9 11V8a3 3 0 016 0v3', may: reads},
	{path: '/ui/alerts', label: T.alerts, icon: 'M6 17V11a6 6 0 0112 0v6l2 2H4zM10 21h4', apart: true, may: seesHost},
	{path: '/ui/usage', label: T.usage, icon: 'M4 20V4M4 20h16M8 16v-5M12 16V7M16 16v-8', may: reads},
	{path: '/ui/keys', label: T.keys, icon: 'M8 11a4 4 0 100 8 4 4 0 000-8zM11 12l9-9M16 7l3 3', may: manages},
	{path: '/ui/nodes', label: T.nodes, icon: 'M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01', may: isOperator},
	{path: '/ui/audit', label: T.audit, icon: 'M6 3h9l4 4v14H6zM9 11h7M9 15h7', may: manages},
	{path: '/ui/settings', label: T.settings, icon: 'M4 7h10M18 7h2M4 17h2M10 17h10M14 5v4M6 15v4', apart: true, may: () => true},
];
