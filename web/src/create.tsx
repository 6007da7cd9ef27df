// The creation of a sandbox, with the defaults of what is left out.
import {readLabels, shown} from './format';
import {nameOf} from './sandboxes';
import {T} from './text';
import type {Row} from './types';
import {FormDialog, notify} from './ui';

const words = (text: string | undefined): string[] => (text ?? '').split(/[\s,]+/).filter(Boolean);

export function Create({close, again, template}: {close: () => void; again: () => void; template?: string}) {
	return <FormDialog<Row> title={T.createSandbox} verb={T.create} close={close}
		inputs={[
			{name: 'name', label: T.name, placeholder: T.noName, wide: true},
			{name: 'template', label: T.template, placeholder: 'host', value: template ?? ''},
			{name: 'image', label: T.image, placeholder: 'python:3.12', hint: T.imageHint},
			{name: 'memory', label: T.memoryMiB, kind: 'number', placeholder: '512'},
			{name: 'cpus', label: T.cpus, kind: 'number', placeholder: '1'},
			{name: 'disk', label: T.diskMiB, kind: 'number', placeholder: '2048'},
			{name: 'pids', label: T.processes, kind: 'number', placeholder: '256'},
			{name: 'labels', label: T.labels, placeholder: 'team=a, tier=b', hint: T.labelsHint, wide: true},
			{name: 'mode', label: T.network, options: [['', T.networkDefault], ['all', T.networkAll], ['allow', T.networkAllow], ['off', T.networkOff]]},
			{name: 'allow', label: T.allowedNames, placeholder: 'pypi.org *.github.com'},
			{name: 'sleep', label: T.sleepAfter, placeholder: '10m'},
			{name: 'ttl', label: T.deleteAfter, placeholder: T.noExpiry},
		]}
		act={(values) => {
			const labels = readLabels(values['labels'] ?? '');
			if (!labels)
				return T.badLabels;
			const {name, template: from, image, memory, cpus, disk, pids, mode, sleep, ttl} = values;
			const allow = words(values['allow']);
			const limits = {...(memory ? {memoryMB: Number(memory)} : {}), ...(cpus ? {cpus: Number(cpus)} : {}), ...(disk ? {diskMB: Number(disk)} : {}), ...(pids ? {pids: Number(pids)} : {})};
			const network = {...(mode ? {mode} : {}), ...(allow.length ? {allow} : {})};
			const option = (key: string, value: string | undefined, unit = '') => (value ? [key, value + unit] : []);
			return {
				method: 'POST', path: '/v1/sandboxes',
				body: {
					...(name ? {name} : {}), ...(from ? {template: from} : {}), ...(image ? {image} : {}), ...(Object.keys(limits).length ? {limits} : {}),
					...(Object.keys(labels).length ? {labels} : {}), ...(Object.keys(network).length ? {network} : {}),
					...(sleep ? {sleepAfter: sleep} : {}), ...(ttl ? {ttl} : {}),
				},
				cli: ['create', ...option('--name', name), ...option('--template', from), ...option('--image', image), ...option('--memory', memory, 'm'), ...option('--cpus', cpus),
					...option('--disk', disk, 'm'), ...option('--pids', pids), ...Object.entries(labels).flatMap(([key, value]) => ['--label', `${key}=${value}`]),
					...option('--network', mode), ...allow.flatMap((one) => ['--allow', one]), ...option('--sleep-after', sleep), ...option('--ttl', ttl)],
			};
		}}
		done={(made) => {
			again();
			notify(T.done(T.createSandbox, shown(nameOf(made))));
		}} />;
}
