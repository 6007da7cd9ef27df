// The bench: cove over HTTP against the tools people know, alternated in one run, because on a
// shared machine only ratios mean anything.
//
//	bench PORT KEY DAEMON_PID PEERS...
//
// PEERS are words of peers that the script beside this file prepared: bwrap crun runc podman
// nsenter. Each promise is a line `ok|MISS id value limit`; their ids stand in
// docs/SPECIFICATION.md. Exit status 1 when one is broken.
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bare.h"
#include "bench/code.h"
#include "bench/neighbour.h"
#include "bench/net.h"
#include "bench/out.h"
#include "bench/preview.h"
#include "bench/recovery.h"
#include "bench/stat.h"
#include "bench/toolbox.h"

#define REST_US 1000000
#define GAP_US 100000 // "lone": RCU grace periods are paid in full

static int port, daemon_pid;
static const char *key;
static char **peers;

static const char *peer_file(const char *peer, const char *verb)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s-%s", getenv("BENCH_DIR"), peer, verb);
	return path;
}

static int has_peer(const char *name)
{
	for (char **p = peers; *p; p++)
		if (!strcmp(*p, name))
			return 1;
	return 0;
}

// A peer's verb is a file of argv, a word a line, written by the script: no shell in the timing.
static char **peer_argv(const char *peer, const char *verb)
{
	static char text[8192];
	static char *argv[128];
	FILE *file = fopen(peer_file(peer, verb), "r");
	size_t len, n = 0;

	if (!file)
		return NULL;
	len = fread(text, 1, sizeof(text) - 1, file);
	text[len] = 0;
	fclose(file);
	for (char *rest = text, *word; (word = strsep(&rest, "\n")) && n < 127;)
		if (*word)
			argv[n++] = word;
	argv[n] = NULL;
	return argv;
}

static void peer_once(const char *peer, const char *verb, struct samples *into)
{
	char **argv;

	if (has_peer(peer) && (argv = peer_argv(peer, verb)))
		samples_add(into, spawn_ms(argv));
}

static void create_as(struct net *net, const char *spec, char id[64])
{
	char *body;
	int status = net_ask(net, "POST", "/v1/sandboxes", spec, &body);

	if (status != 201)
		errx(1, "create: %d %s", status, body);
	net_text(body, "id", id, 64);
}

static void create(struct net *net, char id[64])
{
	create_as(net, "{}", id);
}

static void run_true(struct net *net, const char *id)
{
	char path[128], *body;
	int status;

	snprintf(path, sizeof(path), "/v1/sandboxes/%s/api/execute", id);
	status = net_ask(net, "POST", path, "{\"argv\":[\"/bin/true\"]}", &body);
	if (status != 200 || !strstr(body, "\"exitCode\":0"))
		errx(1, "execute: %d %s", status, body);
}

static void destroy(struct net *net, const char *id)
{
	char path[128], *body;
	int status;

	snprintf(path, sizeof(path), "/v1/sandboxes/%s", id);
	status = net_ask(net, "DELETE", path, NULL, &body);
	if (status != 204)
		errx(1, "delete: %d %s", status, body);
}

static void lone_lifecycle(struct net *net, int rounds)
{
	struct samples up = {0}, down = {0}, all = {0}, bwrap = {0}, crun = {0}, runc = {0},
		       podman = {0};
	char id[64];

	for (int i = 0; i < rounds + 2; i++) {
		double t0, t1, t2;

		usleep(GAP_US);
		t0 = now_ms();
		create(net, id);
		run_true(net, id);
		t1 = now_ms();
		destroy(net, id);
		t2 = now_ms();
		if (i >= 2) {
			samples_add(&up, t1 - t0);
			samples_add(&down, t2 - t1);
			samples_add(&all, t2 - t0);
		}
		usleep(GAP_US);
		peer_once("bwrap", "run", &bwrap);
		usleep(GAP_US);
		peer_once("crun", "run", &crun);
		if (i % 4 == 0)
			peer_once("runc", "run", &runc);
		if (i % 10 == 0)
			peer_once("podman", "run", &podman);
	}
	puts("lone: create, first exec, destroy");
	row("cove create + exec", &up);
	row("cove destroy, verified gone", &down);
	row("cove create + exec + destroy", &all);
	row("bwrap", &bwrap);
	row("crun run", &crun);
	row("runc run", &runc);
	row("podman run", &podman);
	promise("create-exec.p50", samples_pct(&up, 50), 4, 1, "ms");
	promise("create-exec.p95", samples_pct(&up, 95), 8, 1, "ms");
	promise("destroy.p50", samples_pct(&down, 50), 2, 1, "ms");
	if (bwrap.count)
		promise("lifecycle/bwrap", samples_pct(&all, 50) / samples_pct(&bwrap, 50), 0.95, 1,
			"x");
	if (crun.count)
		promise("lifecycle/crun", samples_pct(&all, 50) / samples_pct(&crun, 50), 0.3, 1,
			"x");
}

// Whoever is measured has rested as long as the others.
static void lone_peer(const char *peer, struct samples *into)
{
	usleep(GAP_US / 4);
	peer_once(peer, "exec", into);
}

static void lone_exec(struct net *net, int rounds)
{
	struct samples cove = {0}, bare = {0}, nsenter = {0}, crun = {0}, runc = {0}, podman = {0};
	char id[64];

	create(net, id);
	for (int i = 0; i < rounds + 2; i++) {
		double t0;

		usleep(GAP_US / 4);
		t0 = now_ms();
		run_true(net, id);
		if (i >= 2)
			samples_add(&cove, now_ms() - t0);
		usleep(GAP_US / 4);
		samples_add(&bare, bare_ms("/bin/true"));
		lone_peer("nsenter", &nsenter);
		lone_peer("crun", &crun);
		if (i % 4 == 0)
			lone_peer("runc", &runc);
		if (i % 10 == 0)
			lone_peer("podman", &podman);
	}
	destroy(net, id);
	puts("exec of true in a running box, 25 ms apart");
	row("cove execute", &cove);
	row("bare spawn", &bare);
	row("nsenter", &nsenter);
	row("crun exec", &crun);
	row("runc exec", &runc);
	row("podman exec", &podman);
	if (nsenter.count)
		promise("exec/nsenter", samples_pct(&cove, 50) / samples_pct(&nsenter, 50), 0.5, 1,
			"x");
	if (crun.count)
		promise("exec/crun", samples_pct(&cove, 50) / samples_pct(&crun, 50), 0.1, 1, "x");
}

static void bare_true(struct net *net)
{
	if (net_ask(net, "POST", "/", "{\"argv\":[\"/bin/true\"]}", NULL) != 200)
		errx(1, "the barest server does not answer");
}

// The overhead over a bare spawn. Each side has blocks of its own, back to back, so that neither
// the sleep states of the cores nor what cove does between two commands (it makes the next child
// ready) speak for or against anybody: in a block of cove's that work is paid for by cove alone,
// and a block of bare spawns begins when it is done. The first of each block is left out.
//
// A client's way to a server and back is not cove's overhead: the bare spawn is behind HTTP, too.
// What it is without, a row says.
static void exec_overhead(struct net *net, int rounds)
{
	enum { BLOCK = 20 };
	struct samples each = {0}, cove = {0}, bare = {0}, without = {0};
	static struct net bare_net;
	struct bare server;
	char id[64];

	create(net, id);
	bare_open(&server);
	net_open(&bare_net, server.port, "");
	for (int i = 0; i < rounds; i += BLOCK) {
		usleep(GAP_US / 20);
		for (int j = 0; j < BLOCK; j++) {
			double t0 = now_ms();

			run_true(net, id);
			samples_add(&each, now_ms() - t0);
			if (j)
				samples_add(&cove, each.at[each.count - 1]);
		}
		usleep(GAP_US / 20);
		for (int j = 0; j < BLOCK; j++) {
			double t0 = now_ms();

			bare_true(&bare_net);
			if (j)
				samples_add(&bare, now_ms() - t0);
		}
		usleep(GAP_US / 20);
		for (int j = 0; j < BLOCK; j++) {
			double took = bare_ms("/bin/true");

			if (j)
				samples_add(&without, took);
		}
	}
	net_close(&bare_net);
	bare_close(&server);
	destroy(net, id);
	puts("exec, back to back");
	row("cove execute", &cove);
	row("bare spawn, over HTTP", &bare);
	row("bare spawn", &without);
	promise("exec.p50", samples_pct(&each, 50), 0.9, 1, "ms");
	promise("exec.p95", samples_pct(&each, 95), 2, 1, "ms");
	promise("exec.overhead.p50", 1000 * (samples_pct(&cove, 50) - samples_pct(&bare, 50)), 150,
		1, "us");
}

struct worker {
	pthread_t thread;
	const char *box;
	int execs;
};

static void *exec_worker(void *arg)
{
	struct worker *w = arg;
	struct net *net = malloc(sizeof(*net));

	net_open(net, port, key);
	for (int i = 0; i < w->execs; i++)
		run_true(net, w->box);
	net_close(net);
	free(net);
	return NULL;
}

static void exec_rate(struct net *net)
{
	enum { AT_ONCE = 16, EACH = 250 };
	struct worker workers[AT_ONCE];
	double start;
	char id[64];

	// Two cores: what is measured is cove, not the box's own ceiling of one.
	create_as(net, "{\"limits\":{\"cpus\":2,\"pids\":512}}", id);
	start = now_ms();
	for (int i = 0; i < AT_ONCE; i++) {
		workers[i] = (struct worker){.box = id, .execs = EACH};
		pthread_create(&workers[i].thread, NULL, exec_worker, &workers[i]);
	}
	for (int i = 0; i < AT_ONCE; i++)
		pthread_join(workers[i].thread, NULL);
	promise("exec.rate.16", AT_ONCE * EACH / (now_ms() - start) * 1000, 2000, 0, "/s");
	destroy(net, id);
}

static void run_execution(struct net *net)
{
	char *body;
	int status = net_ask(net, "POST", "/v1/executions?wait=60", "{\"argv\":[\"/bin/true\"]}",
			     &body);

	if (status != 200 || !strstr(body, "\"outcome\":\"completed\""))
		errx(1, "execution: %d %s", status, body);
}

static void run_cycle(struct net *net)
{
	char id[64];

	create(net, id);
	run_true(net, id);
	destroy(net, id);
}

struct submitter {
	pthread_t thread;
	void (*turn)(struct net *net);
	int turns;
};

static void *submitter_run(void *arg)
{
	struct submitter *submitter = arg;
	struct net *net = malloc(sizeof(*net));

	net_open(net, port, key);
	for (int i = 0; i < submitter->turns; i++)
		submitter->turn(net);
	net_close(net);
	free(net);
	return NULL;
}

static double submit_rate(void (*turn)(struct net *net))
{
	enum { AT_ONCE = 16, EACH = 25 };
	struct submitter all[AT_ONCE];
	double start = now_ms();

	for (int i = 0; i < AT_ONCE; i++) {
		all[i] = (struct submitter){.turn = turn, .turns = EACH};
		pthread_create(&all[i].thread, NULL, submitter_run, &all[i]);
	}
	for (int i = 0; i < AT_ONCE; i++)
		pthread_join(all[i].thread, NULL);
	return AT_ONCE * EACH / (now_ms() - start) * 1000;
}

// An execution keeps a record, and its result before its sandbox goes: compared with the same work
// by the routes of sandboxes.
static void executions(struct net *net, int rounds)
{
	struct samples whole = {0}, cycle = {0};
	double rate[2] = {0};

	for (int i = 0; i < rounds + 2; i++) {
		double t0 = now_ms(), t1, t2;

		run_cycle(net);
		t1 = now_ms();
		run_execution(net);
		t2 = now_ms();
		if (i >= 2) {
			samples_add(&cycle, t1 - t0);
			samples_add(&whole, t2 - t1);
		}
	}
	puts("executions: true, end to end");
	row("execution", &whole);
	row("create + exec + destroy", &cycle);
	promise("execution.p50", samples_pct(&whole, 50) / samples_pct(&cycle, 50), 2, 1, "x");
	for (int i = 0; i < 3; i++) {
		rate[0] += submit_rate(run_cycle);
		rate[1] += submit_rate(run_execution);
	}
	promise("execution.rate.16", rate[1] / rate[0], 0.5, 0, "x");
}

static void *burst_worker(void *arg)
{
	struct net *net = arg;
	char id[64];

	create(net, id);
	run_true(net, id);
	snprintf(net->room, sizeof(net->room), "%s", id);
	return NULL;
}

static double burst_cove(struct net *control, int count)
{
	struct net *nets = calloc((size_t)count, sizeof(*nets));
	pthread_t *threads = calloc((size_t)count, sizeof(*threads));
	double took;

	for (int i = 0; i < count; i++)
		net_open(&nets[i], port, key);
	took = now_ms();
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, burst_worker, &nets[i]);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	took = now_ms() - took;
	for (int i = 0; i < count; i++) {
		destroy(control, nets[i].room);
		net_close(&nets[i]);
	}
	free(nets);
	free(threads);
	return took;
}

static double burst_peer(const char *peer, const char *verb, int count)
{
	char **argv = peer_argv(peer, verb);
	double start = now_ms();
	int status;

	if (!has_peer(peer) || !argv)
		return 0;
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (!pid) {
			char number[16];

			snprintf(number, sizeof(number), "%d", i);
			setenv("BENCH_N", number, 1);
			execvp(argv[0], argv);
			_exit(1);
		}
	}
	for (int i = 0; i < count; i++)
		wait(&status);
	return now_ms() - start;
}

// A hundred come to a machine at rest: the kernel takes down the namespaces of the last hundred,
// whose ever they were, behind everybody's back.
static void burst(struct net *net, int rounds)
{
	struct samples cove = {0}, bwrap = {0};

	for (int i = 0; i < rounds; i++) {
		double peer;

		usleep(REST_US);
		samples_add(&cove, burst_cove(net, 100));
		usleep(REST_US);
		peer = burst_peer("bwrap", "run", 100);
		if (peer > 0)
			samples_add(&bwrap, peer);
	}
	puts("100 creates + execs at once");
	row("cove", &cove);
	row("bwrap", &bwrap);
	promise("burst.100", samples_pct(&cove, 50), 300, 1, "ms");
}

static double mem_used_mib(void)
{
	char line[128];
	double value = 0;
	FILE *file = fopen("/proc/meminfo", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %lf", &value) == 1)
			break;
	if (file)
		fclose(file);
	return -value / 1024;
}

// Without what the kernel is still to take down or to write.
static double mem_at_rest(void)
{
	sync();
	usleep(2 * REST_US);
	return mem_used_mib();
}

static double rss_mib(int pid)
{
	char path[64], line[128];
	double value = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmRSS: %lf", &value) == 1)
			break;
	if (file)
		fclose(file);
	return value / 1024;
}

static void density(struct net *net, int top)
{
	static const int marks[] = {10, 100, 500, 1000, 2000, 5000};
	char(*ids)[64] = calloc((size_t)top, sizeof(*ids));
	double before = mem_at_rest(), first = 0, last = 0;
	int alive = 0;

	puts("density: create + exec with n alive");
	for (size_t m = 0; m < sizeof(marks) / sizeof(*marks) && marks[m] <= top; m++) {
		struct samples lone = {0};

		while (alive < marks[m] - 10)
			create(net, ids[alive++]);
		for (; alive < marks[m]; alive++) {
			double t0;

			usleep(GAP_US / 2);
			t0 = now_ms();
			create(net, ids[alive]);
			run_true(net, ids[alive]);
			samples_add(&lone, now_ms() - t0);
		}
		last = samples_pct(&lone, 50);
		if (!m)
			first = last;
		printf("  %5d alive: create + exec p50 %.3f ms, %.3f MiB a box, daemon %.1f MiB\n",
		       alive, last, (mem_used_mib() - before) / alive, rss_mib(daemon_pid));
		if (alive == 500)
			promise("memory.idle-box.500", (mem_at_rest() - before) / alive, 0.5, 1,
				"MiB");
		if (alive == 2000)
			promise("memory.idle-box.2000", (mem_at_rest() - before) / alive, 0.65, 1,
				"MiB");
		if (alive == 2000)
			promise("density.2000/10", last / first, 2, 1, "x");
		if (alive == 5000)
			promise("density.5000/10", last / first, 1.5, 1, "x");
		free(lone.at);
	}
	while (alive)
		destroy(net, ids[--alive]);
	free(ids);
}

// What it costs to write things down: the same steps beside a cove that keeps its state in memory,
// in turns. BENCH_MEMORY is that one's port and key.
static void store_cost(struct net *net, int rounds)
{
	const char *other = getenv("BENCH_MEMORY");
	struct samples make[2] = {0}, first[2] = {0}, end[2] = {0};
	struct net *nets[2] = {net, calloc(1, sizeof(*net))};
	char word[256] = "";
	int memory_port = 0;

	if (!other || !nets[1] || sscanf(other, "%d %255s", &memory_port, word) != 2)
		return;
	net_open(nets[1], memory_port, word);
	for (int i = 0; i < 2 * rounds + 4; i++) {
		char id[64];
		int at = i % 2;
		double t0, t1, t2, t3;

		usleep(GAP_US);
		t0 = now_ms();
		create(nets[at], id);
		t1 = now_ms();
		run_true(nets[at], id);
		t2 = now_ms();
		destroy(nets[at], id);
		t3 = now_ms();
		if (i < 4)
			continue;
		samples_add(&make[at], t1 - t0);
		samples_add(&first[at], t2 - t1);
		samples_add(&end[at], t3 - t2);
	}
	puts("the store: on disk with a full sync, beside one in memory");
	row("create, on disk", &make[0]);
	row("create, in memory", &make[1]);
	row("exec, on disk", &first[0]);
	row("exec, in memory", &first[1]);
	row("destroy, on disk", &end[0]);
	row("destroy, in memory", &end[1]);
	promise("store.create", samples_pct(&make[0], 50) / samples_pct(&make[1], 50), 1.3, 1, "x");
	promise("store.exec", samples_pct(&first[0], 50) / samples_pct(&first[1], 50), 1.3, 1, "x");
	net_close(nets[1]);
	free(nets[1]);
}

static void http_alone(struct net *net)
{
	double idle = rss_mib(daemon_pid), start;
	enum { REQUESTS = 100000 };

	start = now_ms();
	for (int i = 0; i < REQUESTS; i++)
		net_ask(net, "GET", "/v1/health", NULL, NULL);
	printf("HTTP layer: %d keep-alive requests on one connection\n", REQUESTS);
	promise("http.rate.1", REQUESTS / (now_ms() - start) * 1000, 40000, 0, "/s");
	promise("daemon.rss.idle", idle, 12, 1, "MiB");
	promise("daemon.rss.growth", rss_mib(daemon_pid) - idle, 1, 1, "MiB");
}

// Like a server that has been in use for a minute: the journal of its store does not grow any more,
// so that a sync has nothing to say about the file's size.
static void warm_up(struct net *net)
{
	char id[64];

	for (int i = 0; i < 100; i++) {
		create(net, id);
		destroy(net, id);
	}
}

int main(int argc, char **argv)
{
	struct net *net = calloc(1, sizeof(*net));
	const char *only = getenv("BENCH_ONLY");
	const char *count = getenv("BENCH_ROUNDS");
	int rounds = count ? (int)strtol(count, NULL, 10) : 60;

	if (argc == 3 && !strcmp(argv[1], "serve"))
		return preview_serve((int)strtol(argv[2], NULL, 10));
	if (argc < 4 || !net)
		errx(2, "usage: bench PORT KEY DAEMON_PID PEERS...");
	port = (int)strtol(argv[1], NULL, 10);
	key = argv[2];
	daemon_pid = (int)strtol(argv[3], NULL, 10);
	peers = argv + 4;
	net_open(net, port, key);
#define PART(name, call)                                                                           \
	if (!only || strstr(only, name))                                                           \
		call;
	PART("http", http_alone(net))
	warm_up(net);
	PART("life", lone_lifecycle(net, rounds))
	PART("exec", lone_exec(net, rounds))
	PART("overhead", exec_overhead(net, rounds * 10))
	PART("rate", exec_rate(net))
	PART("executions", executions(net, rounds))
	PART("toolbox", toolbox_bench(net, rounds))
	PART("code", code_bench(net, rounds))
	PART("egress", out_bench(net, rounds))
	PART("preview", preview_bench(net, has_peer("nginx")))
	PART("store", store_cost(net, rounds))
	PART("neighbour", neighbour_bench(net))
	PART("burst", burst(net, 5))
	PART("density", density(net, 5000))
	PART("recovery", recovery_bench(net, 500)) // last: the daemon is another one then
	net_close(net);
	free(net);
	printf("%d promises broken\n", promises_broken());
	return promises_broken() != 0;
}
