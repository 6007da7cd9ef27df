// The frame of all pages: who is signed in, navigation, the page of the address.
import {render} from 'preact';
import type {ComponentType} from 'preact';
import {useEffect, useRef, useState} from 'preact/hooks';
import {AgentSessionPage, AgentSessions} from './agents';
import {Alerts} from './alerts';
import {attemptLogin, Login} from './login';
import {currentLink, currentSession, may, resume, signOut, watchLink, watchSession} from './api';
import {Executions, Execution} from './executions';
import {Audit, Nodes} from './host';
import {Keys} from './keys';
import {isOldPage, watchBuild} from './live';
import {Overview} from './overview';
import {PAGES} from './pages';
import {Palette, Shortcuts, useKeys} from './palette';
import {followSystem, followZone} from './preferences';
import {AgentRunPage, AgentRuns} from './runs';
import {Sandbox} from './sandbox';
import {Sandboxes} from './sandboxes';
import {Settings} from './settings';
import {Secrets, Volumes} from './stores';
import {Templates} from './templates';
import {T} from './text';
import {Usages} from './usage';
import {attempt, go, Icon, Link, Menu, Notices} from './ui';

const SINGLE: Record<string, ComponentType<{id: string | undefined}>> = {
	templates: Templates, volumes: Volumes, secrets: Secrets, alerts: Alerts, usage: Usages, keys: Keys, nodes: Nodes, audit: Audit, settings: Settings,
};

function route(path: string) {
	const parts = path.replace(/^\/ui\/?/, '').split('/').filter(Boolean).map((one) => {
		try {
			return decodeURIComponent(one);
		} catch {
			return one;
		}
	});
	const [page, id, tab] = parts;
	if (!page)
		return <Overview />;
	if (page === 'sandboxes')
		return id ? <Sandbox key={id} id={id} tab={tab ?? 'overview'} /> : <Sandboxes />;
	if (page === 'executions')
		return id ? <Execution key={id} id={id} /> : <Executions />;
	if (page === 'agent-sessions')
		return id ? <AgentSessionPage key={id} id={id} /> : <AgentSessions />;
	if (page === 'agent-runs')
		return id ? <AgentRunPage key={id} id={id} /> : <AgentRuns />;
	const Named = page ? SINGLE[page] : undefined;
	if (Named)
		return <Named key={id} id={id} />;
	return <><h1>{T.noPage}</h1><Link to="/ui/">{T.overview}</Link></>;
}

function Connection() {
	const [state, setState] = useState(currentLink());
	const [late, setLate] = useState(false);
	const [isOld, setIsOld] = useState(isOldPage());
	useEffect(() => watchBuild(() => setIsOld(isOldPage())), []);
	useEffect(() => watchLink(() => setState(currentLink())), []);
	useEffect(() => {
		setLate(false);
		if (state === 'Live')
			return undefined;
		const timer = setTimeout(() => setLate(true), 2000);
		return () => clearTimeout(timer);
	}, [state]);
	useEffect(() => {
		document.documentElement.classList.toggle('stale', late);
	}, [late]);
	return <>
		<span role="status" aria-label={T.connection} class={state === 'Live' ? 'live' : 'lost'}>{{'Live': T.live, 'Reconnecting…': T.reconnecting, 'Offline': T.offline}[state]}</span>
		{late && <div role="alert" class="banner">{T.reconnecting}</div>}
		{isOld && <div role="status" class="banner">{T.newBuild} <button type="button" onClick={() => location.reload()}>{T.reload}</button></div>}
	</>;
}

function App() {
	const [session, setSession] = useState(currentSession());
	const [where, setWhere] = useState(location.pathname + location.search);
	const [menu, setMenu] = useState(false);
	const [dialog, setDialog] = useState<'palette' | 'help' | null>(null);
	const path = where.split('?')[0] ?? '/ui/';
	useKeys((what) => {
		if (currentSession())
			setDialog(what);
	});
	const main = useRef<HTMLElement>(null);
	useEffect(() => {
		const now = () => setSession(currentSession());
		now(); // it may have come between the first paint and here
		return watchSession(now);
	}, []);
	useEffect(() => {
		const moved = () => {
			setWhere(location.pathname + location.search);
			setMenu(false);
		};
		addEventListener('popstate', moved);
		return () => removeEventListener('popstate', moved);
	}, []);
	useEffect(() => {
		const name = () => {
			const heading = main.current?.querySelector('h1')?.textContent;
			document.title = heading ? `${heading} · ${T.product}` : T.product;
		};
		name();
		const watcher = new MutationObserver(name);
		if (main.current)
			watcher.observe(main.current, {childList: true, subtree: true, characterData: true});
		return () => watcher.disconnect();
	}, [path, session]);
	if (!session || path === '/ui/login')
		return <Login signedIn={session !== null} />;
	return <>
		<a class="skip" href="#main">{T.skip}</a>
		<header>
			<button type="button" class="phone" aria-expanded={menu} onClick={() => setMenu(!menu)}>{T.menu}</button>
			<Link to="/ui/" class="brand"><Icon path="M12 3c5 2 8 6 8 10a8 8 0 01-16 0c0-4 3-8 8-10zM8 14a4 4 0 008 0" /><span>{T.product}</span></Link>
			<Connection />
			<button type="button" class="finder" aria-keyshortcuts="Control+K" onClick={() => setDialog('palette')}>
				<Icon path="M11 4a7 7 0 100 14 7 7 0 000-14zM16 16l4 4" /><span>{T.search}</span><kbd aria-hidden="true">Ctrl K</kbd></button>
			<Menu label={T.account} items={[
				{label: T.settings, scope: 'read', work: () => go('/ui/settings')},
				{label: T.signOut, scope: may('read') ? 'read' : session.who.scopes[0] ?? 'read', work: () => void attempt(signOut)},
			]}>{T.account}</Menu>
		</header>
		<nav aria-label={T.main} class={menu ? 'open' : undefined}>
			{PAGES.filter((one) => one.may()).map((one) => <Link key={one.path} to={one.path} {...(one.apart ? {class: 'apart'} : {})}
				aria-current={path === one.path || (one.path !== '/ui/' && path.startsWith(one.path)) ? 'page' : undefined}><Icon path={one.icon} />{one.label}</Link>)}
		</nav>
		<main id="main" ref={main} tabIndex={-1}>{route(path)}</main>
		<Notices />
		{dialog === 'palette' && <Palette close={() => setDialog(null)} />}
		{dialog === 'help' && <Shortcuts close={() => setDialog(null)} />}
	</>;
}

async function begin(): Promise<void> {
	followSystem();
	followZone();
	await resume();
	await attemptLogin();
	const at = document.getElementById('app');
	if (at)
		render(<App />, at);
}

void begin();
