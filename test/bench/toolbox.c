#include "bench/toolbox.h"

#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/bare.h"
#include "bench/stat.h"

#define GAP_US 100000
#define QUICK 2000 // rounds back to back
#define MIB (1 << 20)
#define BIG (256 * MIB)

static char base[128]; // of the sandbox

static const char *here(const char *path)
{
	static _Thread_local char whole[512];

	snprintf(whole, sizeof(whole), "%s%s", base, path);
	return whole;
}

static void must(struct net *net, const char *method, const char *path, const char *body,
		 const char *word)
{
	char *reply;
	int status = net_ask(net, method, here(path), body, &reply);

	if (status / 100 != 2 || (word && !strstr(reply, word)))
		errx(1, "%s %s: %d %.300s", method, path, status, reply);
}

static double timed(struct net *net, const char *path, const char *body, const char *word)
{
	double start = now_ms();

	must(net, "POST", path, body, word);
	return now_ms() - start;
}

// A reply in chunks, to its end.
static double streamed(struct net *net, const char *path, const char *body, const char *word)
{
	double start = now_ms();

	net_send(net, "POST", here(path), body);
	if (!strstr(net_chunked(net), word))
		errx(1, "%s: %.300s", path, net->room);
	return now_ms() - start;
}

static void commands(struct net *net, int rounds)
{
	struct samples session = {0}, stream = {0}, output = {0}, bare = {0};
	char *const spawn[] = {(char *)"/bin/bash", (char *)"-c", (char *)"/bin/true", NULL};

	for (int i = 0; i < rounds; i++) {
		usleep(GAP_US);
		samples_add(&session, timed(net, "/api/execute",
					    "{\"command\":\"true\",\"sessionId\":\"bench\"}",
					    "\"exitCode\":0"));
		usleep(GAP_US);
		samples_add(&stream, streamed(net, "/api/execute/stream",
					      "{\"command\":\"echo hi\",\"sessionId\":\"bench\"}",
					      "complete"));
		usleep(GAP_US);
		samples_add(&output, timed(net, "/api/execute", "{\"argv\":[\"/bin/echo\",\"hi\"]}",
					   "\"hi\\n\""));
		usleep(GAP_US);
		samples_add(&bare, spawn_ms(spawn));
	}
	puts("commands inside, 100 ms apart");
	row("execute in a session", &session);
	row("streamed echo, to its end", &stream);
	row("execute with output", &output);
	row("bare bash -c true", &bare);
	promise("session.p50", samples_pct(&session, 50), 1, 1, "ms");
	promise("session.p95", samples_pct(&session, 95), 3, 1, "ms");
	promise("stream.p50", samples_pct(&stream, 50), 1.5, 1, "ms");
	promise("stream.p95", samples_pct(&stream, 95), 4, 1, "ms");
	promise("session/bash", samples_pct(&session, 50) / samples_pct(&bare, 50), 1, 1, "x");
}

// The length of a whole server's frame at `at`; 0: more bytes are needed.
static size_t frame_len(const unsigned char *at, size_t have, size_t *head)
{
	size_t len = have < 2 ? 0 : at[1] & 0x7f;

	*head = len < 126 ? 2 : 4; // none here is longer than 64 KiB
	if (have < *head)
		return 0;
	if (len == 126)
		len = (size_t)at[2] << 8 | at[3];
	return have < *head + len ? 0 : *head + len;
}

// One text frame of the terminal is its end.
static int is_exit(const char *at, size_t len)
{
	return (at[0] & 15) == 1 && memmem(at, len, "\"exit\",\"code\":0", 15);
}

// A terminal that runs a program, from the connection to the news of its end.
static double terminal(struct net *net, const char *query)
{
	double start = now_ms();
	size_t len = 0, at = 0, head;
	char ask[1024];

	net_open(net, net->port, net->key);
	snprintf(ask, sizeof(ask),
		 "GET %s%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
		 "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		 "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		 here("/ws/pty?"), query, net->port, net->key);
	if (send(net->fd, ask, strlen(ask), MSG_NOSIGNAL) < 0)
		errx(1, "the server does not listen");
	for (;;) {
		ssize_t got = recv(net->fd, net->room + len, sizeof(net->room) - 1 - len, 0);
		char *end = at || got <= 0 ? NULL : memmem(net->room, len + got, "\r\n\r\n", 4);

		if (got <= 0)
			errx(1, "a terminal was cut: %.*s", (int)len, net->room);
		len += (size_t)got;
		at = end ? (size_t)(end - net->room) + 4 : at;
		while (at) {
			const char *frame = net->room + at;
			size_t whole = frame_len((const void *)frame, len - at, &head);

			if (!whole)
				break;
			if (is_exit(frame, whole)) {
				start = now_ms() - start;
				net_close(net);
				return start;
			}
			at += whole;
		}
	}
}

static void terminals(struct net *net, int rounds)
{
	struct net *own = calloc(1, sizeof(*own)); // a WebSocket takes its connection with it
	struct samples pty = {0};

	own->port = net->port;
	own->key = net->key;
	for (int i = 0; i < rounds; i++) {
		usleep(GAP_US);
		samples_add(&pty, terminal(own, "command=/bin/true"));
	}
	free(own);
	puts("terminals, 100 ms apart");
	row("connect, run true, its end", &pty);
	promise("pty.p50", samples_pct(&pty, 50), 1.2, 1, "ms");
	promise("pty.p95", samples_pct(&pty, 95), 3, 1, "ms");
}

struct shell {
	pthread_t thread;
	int port, number, runs;
	const char *key;
};

static void *shell_worker(void *arg)
{
	struct shell *shell = arg;
	struct net *net = calloc(1, sizeof(*net));
	char body[128];

	net_open(net, shell->port, shell->key);
	snprintf(body, sizeof(body), "{\"command\":\"true\",\"sessionId\":\"w%d\"}", shell->number);
	for (int i = 0; i < shell->runs; i++)
		must(net, "POST", "/api/execute", body, "\"exitCode\":0");
	net_close(net);
	free(net);
	return NULL;
}

static double shells_at_once(struct net *net, int count, int runs)
{
	struct shell shells[16];
	double start = 0;

	for (int lap = 0; lap < 2; lap++) { // the first one starts the shells
		start = now_ms();
		for (int i = 0; i < count; i++) {
			shells[i] = (struct shell){.port = net->port,
						   .key = net->key,
						   .number = i,
						   .runs = lap ? runs : 1};
			pthread_create(&shells[i].thread, NULL, shell_worker, &shells[i]);
		}
		for (int i = 0; i < count; i++)
			pthread_join(shells[i].thread, NULL);
	}
	return count * runs / (now_ms() - start) * 1000;
}

static void small_files(struct net *net)
{
	struct samples write = {0}, read = {0}, list = {0};
	char body[2048], kib[1025];
	double start;

	memset(kib, 'x', 1024);
	kib[1024] = 0;
	snprintf(body, sizeof(body), "{\"path\":\"/workspace/k\",\"content\":\"%s\"}", kib);
	for (int i = 0; i < QUICK; i++)
		samples_add(&write, timed(net, "/api/write", body, "success"));
	start = now_ms();
	for (int i = 0; i < QUICK; i++)
		samples_add(&read, timed(net, "/api/read", "{\"path\":\"/workspace/k\"}", kib));
	start = QUICK / (now_ms() - start) * 1000;
	must(net, "POST", "/api/execute",
	     "{\"command\":\"mkdir /workspace/d; cd /workspace/d; seq 1000 | xargs touch\","
	     "\"sessionId\":\"bench\"}",
	     "\"exitCode\":0");
	for (int i = 0; i < 50; i++)
		samples_add(&list, streamed(net, "/api/list-files", "{\"path\":\"/workspace/d\"}",
					    "\"count\":1000"));
	puts("files, back to back");
	row("write 1 KiB", &write);
	row("read 1 KiB", &read);
	row("list 1,000 entries", &list);
	promise("file.write.1k", samples_pct(&write, 50), 0.2, 1, "ms");
	promise("file.read.1k", samples_pct(&read, 50), 0.15, 1, "ms");
	promise("file.read.rate.1", start, 10000, 0, "/s");
	promise("list.1000", samples_pct(&list, 50), 20, 1, "ms");
}

// Both sides of a transfer have a window like anybody's who streams: 256 KiB that stay in the
// cache, as in the measurement that the targets come from. A client that keeps 256 MiB in memory
// measures its own page faults.
static char window[256 << 10];

static void send_all(struct net *net, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = send(net->fd, bytes, len, MSG_NOSIGNAL);

		if (n <= 0)
			errx(1, "the server does not take the upload");
		bytes += n;
		len -= (size_t)n;
	}
}

static double upload(struct net *net)
{
	char head[512];
	double start = now_ms();
	char *body;
	int n = snprintf(head, sizeof(head),
			 "PUT %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
			 "Content-Length: %zu\r\n\r\n",
			 here("/api/files/workspace/big"), net->port, net->key, (size_t)BIG);

	memset(window, 'b', sizeof(window));
	send_all(net, head, (size_t)n);
	for (size_t sent = 0; sent < BIG; sent += sizeof(window))
		send_all(net, window, sizeof(window));
	if (net_recv(net, &body) / 100 != 2)
		errx(1, "upload: %.300s", body);
	return BIG / (now_ms() - start) / 1e6;
}

static size_t receive(struct net *net, size_t from)
{
	ssize_t n = recv(net->fd, window + from, sizeof(window) - from, 0);

	if (n <= 0)
		errx(1, "the download was cut");
	return (size_t)n;
}

static double download(struct net *net)
{
	double start = now_ms();
	size_t got = 0;
	char *body;

	net_send(net, "GET", here("/api/files/workspace/big"), NULL);
	do
		got += receive(net, got);
	while (!(body = memmem(window, got, "\r\n\r\n", 4)));
	got -= (size_t)(body + 4 - window);
	while (got < BIG)
		got += receive(net, 0);
	return BIG / (now_ms() - start) / 1e6;
}

// The same bytes written by a program inside: what the disk of the sandbox takes, without us.
static double written_inside(struct net *net)
{
	char *body;
	const char *at;
	double seconds = 0;

	if (net_ask(net, "POST", here("/api/execute"),
		    "{\"argv\":[\"dd\",\"if=/dev/zero\",\"of=/workspace/"
		    "dd\",\"bs=1M\",\"count=256\"]}",
		    &body) == 200 &&
	    (at = strstr(body, "copied, ")))
		seconds = strtod(at + 8, NULL);
	if (seconds <= 0)
		errx(1, "dd: %.300s", body);
	must(net, "POST", "/api/execute", "{\"argv\":[\"rm\",\"/workspace/dd\"]}", NULL);
	return BIG / seconds / 1e9;
}

// What was written lies on the disk, and nobody is at it any more: the next measurement has both
// cores.
static void settle(struct net *net)
{
	must(net, "POST", "/api/execute", "{\"argv\":[\"sync\"]}", NULL);
}

// The same file system without cove, if the machine has it.
static void bare_files(struct samples *up, struct samples *down)
{
	const char *disk = getenv("BENCH_DISK");
	char path[512];

	if (!disk || !*disk)
		return;
	snprintf(path, sizeof(path), "%s/big", disk);
	samples_add(up, bare_upload(path, BIG));
	sync();
	samples_add(down, bare_download(path, BIG));
	unlink(path);
	sync();
}

static void big_files(struct net *net)
{
	struct samples up = {0}, hot = {0}, down = {0}, inside = {0}, bare_up = {0},
		       bare_down = {0};

	if (getenv("BENCH_DISK"))
		bare_disk(getenv("BENCH_DISK"));
	for (int i = 0; i < 9; i++) {
		samples_add(&up, upload(net));
		samples_add(&hot, download(net));
		settle(net);
		samples_add(&down, download(net));
		samples_add(&inside, written_inside(net));
		settle(net);
		bare_files(&bare_up, &bare_down);
	}
	puts("256 MiB as a raw body");
	printf("  written by dd inside, not over an old file       %.3f GB/s\n",
	       samples_pct(&inside, 50));
	printf("  read while the disk still takes it               %.3f GB/s\n",
	       samples_pct(&hot, 50));
	promise("upload.256m", samples_pct(&up, 50), 1.5, 0, "GB/s");
	promise("download.256m", samples_pct(&down, 50), 4, 0, "GB/s");
	if (!bare_up.count)
		return;
	printf("  bare, by splice and sendfile on such a disk      %.3f GB/s, %.3f GB/s\n",
	       samples_pct(&bare_up, 50), samples_pct(&bare_down, 50));
	promise("upload/bare", samples_pct(&up, 50) / samples_pct(&bare_up, 50), 0.6, 0, "x");
	promise("download/bare", samples_pct(&down, 50) / samples_pct(&bare_down, 50), 0.4, 0, "x");
}

void toolbox_bench(struct net *net, int rounds)
{
	char id[64], *body;

	if (net_ask(net, "POST", "/v1/sandboxes",
		    "{\"limits\":{\"cpus\":2,\"pids\":512,\"memoryMB\":1024}}", &body) != 201)
		errx(1, "create: %s", body);
	net_text(body, "id", id, sizeof(id));
	snprintf(base, sizeof(base), "/v1/sandboxes/%s", id);
	commands(net, rounds);
	terminals(net, rounds);
	promise("session.rate.8", shells_at_once(net, 8, 500), 2000, 0, "/s");
	small_files(net);
	big_files(net);
	net_ask(net, "DELETE", base, NULL, &body);
}
