// Signing in: by a link's code, which is in the fragment of the address and is taken out of it at
// once, or by a key.
import {useEffect, useState} from 'preact/hooks';
import {Failure, currentSession, exchange, signIn} from './api';
import {T} from './text';
import {Fault, Field, Icon} from './ui';

let waiting = ''; // a code that would replace the session of this tab
let failed: Failure | null = null;

const asFailure = (fault: unknown): Failure =>
	fault instanceof Failure ? fault : new Failure(0, '', String(fault), '', '');

async function take(code: string): Promise<void> {
	try {
		await exchange(code);
		history.replaceState(null, '', '/ui/');
		dispatchEvent(new PopStateEvent('popstate'));
	} catch (fault) {
		failed = asFailure(fault);
	}
}

// Before the first paint: with a code and no session there is nothing to ask.
export async function attemptLogin(): Promise<void> {
	const code = /^#code=([0-9a-f]{64})$/.exec(location.hash)?.[1];
	if (location.pathname !== '/ui/login')
		return;
	history.replaceState(null, '', '/ui/login');
	if (!code) {
		if (currentSession())
			history.replaceState(null, '', '/ui/');
		return;
	}
	if (currentSession())
		waiting = code;
	else
		await take(code);
}

export function Login({signedIn}: {signedIn: boolean}) {
	const [key, setKey] = useState('');
	const [fault, setFault] = useState<Failure | null>(failed);
	const [busy, setBusy] = useState(false);
	const [, redraw] = useState(0);
	useEffect(() => {
		document.title = `${T.signIn} · ${T.product}`;
	}, []);
	const leave = () => {
		history.replaceState(null, '', '/ui/');
		dispatchEvent(new PopStateEvent('popstate'));
	};
	const enter = async (event: Event) => {
		event.preventDefault();
		setBusy(true);
		try {
			await signIn(key.trim());
			if (location.pathname === '/ui/login')
				leave();
		} catch (problem) {
			setFault(asFailure(problem));
		}
		setKey('');
		setBusy(false);
	};
	const brand = <p class="brand"><Icon path="M12 3c5 2 8 6 8 10a8 8 0 01-16 0c0-4 3-8 8-10zM8 14a4 4 0 008 0" /><span>{T.product}</span></p>;
	if (waiting && signedIn)
		return <main class="login">{brand}<div class="panel">
			<h1>{T.signIn}</h1>
			<p>{T.replaceSession}</p>
			<p class="row">
				<button type="button" onClick={() => {
					waiting = '';
					leave();
				}}>{T.keep}</button>
				<button type="button" class="primary" onClick={() => {
					const code = waiting;
					waiting = '';
					void take(code).then(() => {
						setFault(failed);
						redraw((old) => old + 1);
					});
				}}>{T.replace}</button>
			</p>
		</div></main>;
	return <main class="login">{brand}<div class="panel">
		<h1>{T.signIn}</h1>
		{fault && <Fault of={fault} />}
		<form onSubmit={enter}>
			<Field label={T.apiKey} type="password" required value={key} onInput={(event) => setKey(event.currentTarget.value)} />
			<button type="submit" class="primary" disabled={busy}>{T.signIn}</button>
		</form>
		<p class="dim small">{T.signInHint}</p>
	</div></main>;
}
