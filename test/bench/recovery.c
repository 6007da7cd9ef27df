// How long cove is away when it is killed: 500 sandboxes, a process in each. From kill -9 of the
// daemon, or of daemon and warden, to the answer for the last of them that its process runs. Then
// 5,000 sandboxes in which a command ran: the first answer for the last of them, and for all.
#include "bench/recovery.h"

#include <dirent.h>
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/stat.h"

#define ROUNDS 5
#define REST_US 4000000 // a child that lived for a while is started again at once

// The supervisor's child of that role; 0: there is none.
static int child_of(int parent, const char *role)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int found = 0;

	while (proc && !found && (entry = readdir(proc))) {
		char path[300], text[512] = "";
		int pid = (int)strtol(entry->d_name, NULL, 10), ppid = 0;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		file = pid ? fopen(path, "r") : NULL;
		if (!file)
			continue;
		if (fscanf(file, "%*d (%*[^)]) %*c %d", &ppid) != 1)
			ppid = 0;
		fclose(file);
		snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
		file = ppid == parent ? fopen(path, "r") : NULL;
		if (!file)
			continue;
		if (fread(text, 1, sizeof(text) - 1, file) &&
		    !strcmp(text + strlen(text) + 1, role))
			found = pid;
		fclose(file);
	}
	if (proc)
		closedir(proc);
	return found;
}

static void populate(struct net *net, char (*ids)[64], int count, const char *verb,
		     const char *command)
{
	char path[128], *body;
	int status;

	for (int i = 0; i < count; i++) {
		status = net_ask(net, "POST", "/v1/sandboxes", "{}", &body);
		if (status != 201)
			errx(1, "create: %d %s", status, body);
		net_text(body, "id", ids[i], 64);
		snprintf(path, sizeof(path), "/v1/sandboxes/%s/api/%s", ids[i], verb);
		status = net_ask(net, "POST", path, command, &body);
		if (status != 200)
			errx(1, "start: %d %s", status, body);
	}
}

static void ask_all(struct net *net, char (*ids)[64], int count, const char *word)
{
	char path[128], *body;
	int status;

	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "/v1/sandboxes/%s/api/process/list", ids[i]);
		status = net_ask(net, "GET", path, NULL, &body);
		if (status != 200 || !strstr(body, word))
			errx(1, "after the kill: %d %s", status, body);
	}
}

// Returns when the first kill was; whoever answers at `net` is another daemon.
static double strike(struct net *net, int supervisor, int both)
{
	int daemon = child_of(supervisor, "daemon"), warden = child_of(supervisor, "warden");
	double begin;

	if (!daemon || !warden)
		errx(1, "cove is not whole");
	begin = now_ms();
	if (both)
		kill(warden, SIGKILL);
	kill(daemon, SIGKILL);
	while (!kill(daemon, 0)) // its listener must not take our connection with it
		usleep(200);
	net_close(net);
	net_open(net, net->port, net->key);
	return begin;
}

static void delete_all(struct net *net, char (*ids)[64], int count)
{
	char path[128];

	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "/v1/sandboxes/%s", ids[i]);
		net_ask(net, "DELETE", path, NULL, NULL);
	}
}

static void recovery_many(struct net *net, int supervisor, int count)
{
	char(*ids)[64] = calloc((size_t)count, sizeof(*ids));
	struct samples first = {0}, all = {0};

	if (!ids)
		return;
	populate(net, ids, count, "execute", "{\"command\":\"true\",\"encoding\":\"auto\"}");
	for (int i = 0; i < 3; i++) {
		double begin;

		usleep(2 * REST_US);
		begin = strike(net, supervisor, i % 2);
		ask_all(net, ids + count - 1, 1, "processes");
		samples_add(&first, now_ms() - begin);
		ask_all(net, ids, count, "processes");
		samples_add(&all, now_ms() - begin);
	}
	printf("killed with %d sandboxes\n", count);
	row("until one of them answers", &first);
	row("until all of them do", &all);
	promise("recovery.5000.first", samples_pct(&first, 50), 1000, 1, "ms");
	promise("recovery.5000", samples_pct(&all, 50), 5000, 1, "ms");
	delete_all(net, ids, count);
	free(ids);
	free(first.at);
	free(all.at);
}

void recovery_bench(struct net *net, int count)
{
	const char *text = getenv("BENCH_COVE_PID");
	int supervisor = text ? (int)strtol(text, NULL, 10) : 0;
	char(*ids)[64] = calloc((size_t)count, sizeof(*ids));
	struct samples one = {0}, two = {0};

	if (!supervisor || !ids)
		return;
	populate(net, ids, count, "process/start", "{\"command\":\"exec sleep 100000\"}");
	for (int i = 0; i < 2 * ROUNDS; i++) {
		double begin;

		usleep(REST_US);
		begin = strike(net, supervisor, i % 2);
		ask_all(net, ids, count, "\"running\"");
		samples_add(i % 2 ? &two : &one, now_ms() - begin);
	}
	printf("killed with %d sandboxes: until all of them answer\n", count);
	row("kill -9 of the daemon", &one);
	row("kill -9 of daemon and warden", &two);
	promise("recovery.500", samples_pct(&one, 50), 1000, 1, "ms");
	promise("recovery.500.both", samples_pct(&two, 50), 1000, 1, "ms");
	delete_all(net, ids, count);
	free(ids);
	free(one.at);
	free(two.at);
	recovery_many(net, supervisor, 5000);
}
