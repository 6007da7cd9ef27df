// A first cell is held against a bare `python3 -c`, the next ones against the same driver without
// any sandbox: a Python that we told its driver ourselves, over a socket and two pipes.
#include "bench/code.h"

#include <err.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/stat.h"

#define PYTHON "/usr/bin/python3"
#define WARM_US 400000 // in which one that is to wait is there
#define GAP_US 20000
#define CELLS 50 // of a sandbox
#define CELL "{\"code\":\"1+1\"}"
#define FILE_MAX 65536

// ---------------------------------------------------------------------------------- without cove

struct bare {
	pid_t pid;
	int talk, out;
};

static size_t read_file(const char *name, char *room)
{
	const char *dir = getenv("BENCH_DRIVE");
	char path[4096];
	FILE *file;
	size_t len;

	snprintf(path, sizeof(path), "%s/%s", dir ? dir : "src/kernels", name);
	file = fopen(path, "re");
	if (!file)
		err(1, "%s", path);
	len = fread(room, 1, FILE_MAX - 1, file);
	fclose(file);
	room[len] = 0;
	return len;
}

static void await_end(const struct bare *bare)
{
	char room[4096];
	ssize_t n;

	do {
		n = read(bare->talk, room, sizeof(room));
		if (n <= 0)
			errx(1, "the driver has ended");
	} while (room[n - 1] != 0);
}

static void put(int fd, const char *text, size_t len)
{
	if (write(fd, text, len) != (ssize_t)len)
		err(1, "tell a driver");
}

static void bare_open(struct bare *bare)
{
	static char boot[FILE_MAX], driver[FILE_MAX];
	char *const argv[] = {(char *)PYTHON, (char *)"-c", boot, NULL};
	char head[64];
	posix_spawn_file_actions_t seats;
	int talk[2], out[2];
	size_t len;

	read_file("boot.py", boot);
	len = read_file("python.py", driver);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) || pipe2(out, O_CLOEXEC))
		err(1, "pipes");
	posix_spawn_file_actions_init(&seats);
	posix_spawn_file_actions_adddup2(&seats, talk[1], 240);
	posix_spawn_file_actions_adddup2(&seats, out[1], 241);
	posix_spawn_file_actions_adddup2(&seats, out[1], 242);
	if (posix_spawn(&bare->pid, PYTHON, &seats, NULL, argv, environ))
		errx(1, "no " PYTHON);
	posix_spawn_file_actions_destroy(&seats);
	close(talk[1]);
	close(out[1]);
	bare->talk = talk[0];
	bare->out = out[0];
	put(bare->talk, head, (size_t)snprintf(head, sizeof(head), "%zu 0\n", len));
	put(bare->talk, driver, len);
	put(bare->talk, "hello 1 16\n0123456789abcdef", 27);
	await_end(bare);
}

static double bare_cell(const struct bare *bare)
{
	char room[4096];
	double start = now_ms();

	put(bare->talk, "run 2 3\n1+1", 11);
	await_end(bare);
	if (read(bare->out, room, sizeof(room)) <= 0)
		errx(1, "no result");
	return now_ms() - start;
}

static void bare_close(struct bare *bare)
{
	close(bare->talk);
	close(bare->out);
	waitpid(bare->pid, NULL, 0);
}

// ------------------------------------------------------------------------------------- with it

static char base[128]; // of the sandbox

static void make_box(struct net *net, const char *spec)
{
	char *body, id[96];

	if (net_ask(net, "POST", "/v1/sandboxes", spec, &body) != 201)
		errx(1, "create: %s", body);
	net_text(body, "id", id, sizeof(id));
	snprintf(base, sizeof(base), "/v1/sandboxes/%s", id);
}

static void remove_box(struct net *net)
{
	net_ask(net, "DELETE", base, NULL, NULL);
}

static double cell(struct net *net, const char *body)
{
	char path[256];
	double start;

	snprintf(path, sizeof(path), "%s/api/execute/code", base);
	start = now_ms();
	net_send(net, "POST", path, body);
	if (!strstr(net_chunked(net), "\"text\":\"2\""))
		errx(1, "a cell: %.300s", net->room);
	return now_ms() - start;
}

// A context, then its first cell.
static double context(struct net *net, struct samples *first)
{
	char path[256], id[64], *reply, body[256];
	double start;

	snprintf(path, sizeof(path), "%s/api/contexts", base);
	start = now_ms();
	if (net_ask(net, "POST", path, "{}", &reply) != 200)
		errx(1, "a context: %.300s", reply);
	start = now_ms() - start;
	net_text(reply, "contextId", id, sizeof(id));
	snprintf(body, sizeof(body), "{\"code\":\"1+1\",\"context_id\":\"%s\"}", id);
	usleep(GAP_US);
	samples_add(first, cell(net, body));
	return start;
}

static void cold(struct net *net, int rounds)
{
	char *const spawn[] = {(char *)PYTHON, (char *)"-c", (char *)"1+1", NULL};
	struct samples first = {0}, bare = {0};

	for (int i = 0; i < rounds; i++) {
		make_box(net, "{}");
		usleep(GAP_US);
		samples_add(&bare, spawn_ms(spawn));
		usleep(GAP_US);
		samples_add(&first, cell(net, CELL));
		remove_box(net);
	}
	row("first cell of a fresh sandbox", &first);
	row("bare python3 -c", &bare);
	promise("code.first", samples_pct(&first, 50) / samples_pct(&bare, 50), 1.15, 1, "x");
}

static void warm(struct net *net, int rounds)
{
	struct samples first = {0}, made = {0}, of_made = {0};

	for (int i = 0; i < rounds; i++) {
		make_box(net, "{\"labels\":{\"cove.warm\":\"python\"}}");
		usleep(WARM_US);
		samples_add(&first, cell(net, CELL));
		usleep(WARM_US);
		samples_add(&made, context(net, &of_made));
		remove_box(net);
	}
	row("first cell, an interpreter waits", &first);
	row("context, an interpreter waits", &made);
	row("its first cell", &of_made);
	promise("code.first_warm", samples_pct(&first, 50), 2, 1, "ms");
	promise("code.context_warm", samples_pct(&made, 50), 5, 1, "ms");
}

static void next(struct net *net, int rounds)
{
	struct samples cells = {0}, pipes = {0};
	struct bare bare;

	make_box(net, "{}");
	cell(net, CELL);
	bare_open(&bare);
	bare_cell(&bare);
	for (int i = 0; i < rounds * CELLS; i++) {
		samples_add(&cells, cell(net, CELL));
		samples_add(&pipes, bare_cell(&bare));
	}
	bare_close(&bare);
	remove_box(net);
	row("a cell", &cells);
	row("the same driver over bare pipes", &pipes);
	promise("code.cell", samples_pct(&cells, 50), 0.5, 1, "ms");
	promise("code.cell/pipe", samples_pct(&cells, 50) / samples_pct(&pipes, 50), 4, 1, "x");
}

void code_bench(struct net *net, int rounds)
{
	puts("code");
	if (access(PYTHON, X_OK)) {
		puts("  no " PYTHON " on this machine");
		return;
	}
	cold(net, rounds / 2 + 1);
	warm(net, rounds / 4 + 1);
	next(net, rounds);
}
