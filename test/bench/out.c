// The client is a thread of this program whose sockets are made in the sandbox's network; the
// server is another, at an address of loopback that the operator's exceptions have. Both sides of a
// comparison are the same client and the same server: once through the daemon, once by a direct
// connection. What is sent first is the hello of TLS, so that the connection has a name; from then
// on nobody looks into it.
#include "bench/out.h"

#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/preview.h"
#include "bench/stat.h"

#define NAME "bench.test" // leads to ADDRESS: see the script beside this file
#define ADDRESS "127.0.0.9"
#define PORT 18090
#define RELAY_PORT 18091
#define GAP_US 100000
#define SHORT_US 2000
#define PIECE (256 * 1024)
#define FLOOD (1ull << 30)
#define RELAY_PIPE (512 * 1024)
#define FLOODS 9
#define MODE_AT 11 // the first random byte of a hello: what the server is to do

static const struct way {
	const char *address;
	int inside;
	int port;
} ways[3] = {{"203.0.113.9", 1, PORT}, {ADDRESS, 0, PORT}, {ADDRESS, 0, RELAY_PORT}};

// ---------------------------------------------------------------------------------- the server

static void *serve(void *arg)
{
	int fd = (int)(long)arg;
	char *room = calloc(1, PIECE);
	ssize_t n = recv(fd, room, PIECE, 0);

	if (n > MODE_AT && room[MODE_AT] == 'f')
		for (unsigned long long left = FLOOD; left; left -= (size_t)n) {
			n = send(fd, room, left < PIECE ? left : PIECE, MSG_NOSIGNAL);
			if (n <= 0)
				break;
		}
	else if (n > 0)
		send(fd, "x", 1, MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	while (recv(fd, room, PIECE, 0) > 0)
		;
	close(fd);
	free(room);
	return NULL;
}

static void start_thread(void *(*run)(void *), int fd)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, (void *)(long)fd))
		errx(1, "start a thread");
	pthread_detach(thread);
}

static void *listen_on(void *arg)
{
	for (;;) {
		int client = accept4((int)(long)arg, NULL, NULL, SOCK_CLOEXEC);

		if (client >= 0)
			start_thread(serve, client);
	}
	return NULL;
}

static struct sockaddr_in at(const char *address, int port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	inet_pton(AF_INET, address, &to.sin_addr);
	return to;
}

static void start_server(int port, void *(*run)(void *))
{
	struct sockaddr_in to = at(ADDRESS, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof(to)) || listen(fd, 256))
		err(1, "listen at %s:%d", ADDRESS, port);
	start_thread(run, fd);
}

// The least that a relay on this kernel does: the first bytes by hand, the rest by splice.
static void *relay_one(int client)
{
	struct sockaddr_in to = at(ADDRESS, PORT);
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), ends[2];
	char hello[256];
	ssize_t n = recv(client, hello, sizeof(hello), 0);

	if (server < 0 || n <= 0 || connect(server, (struct sockaddr *)&to, sizeof(to)) ||
	    send(server, hello, (size_t)n, MSG_NOSIGNAL) != n || pipe2(ends, O_CLOEXEC))
		err(1, "relay to %s", ADDRESS);
	fcntl(ends[1], F_SETPIPE_SZ, RELAY_PIPE);
	while ((n = splice(server, NULL, ends[1], NULL, RELAY_PIPE, SPLICE_F_MOVE)) > 0)
		for (ssize_t moved; n > 0; n -= moved) {
			moved = splice(ends[0], NULL, client, NULL, (size_t)n, SPLICE_F_MOVE);
			if (moved <= 0)
				break;
		}
	close(server);
	close(client);
	close(ends[0]);
	close(ends[1]);
	return NULL;
}

static void *relay(void *arg)
{
	for (;;) {
		int client = accept4((int)(long)arg, NULL, NULL, SOCK_CLOEXEC);

		if (client >= 0)
			relay_one(client);
	}
	return NULL;
}

// ---------------------------------------------------------------------------------- the client

// The least that names a server.
static size_t write_hello(char mode, unsigned char *out)
{
	static const unsigned char front[] = {0x16, 3, 1, 0, 0, 1, 0, 0, 0, 3, 3};
	static const unsigned char middle[] = {0, 0, 2, 0x13, 1, 1, 0};
	size_t name = strlen(NAME), len = sizeof(front);
	size_t extension = name + 9;

	memcpy(out, front, len);
	memset(out + len, mode, 32);
	len += 32;
	memcpy(out + len, middle, sizeof(middle));
	len += sizeof(middle);
	const unsigned char numbers[] = {0,
					 (unsigned char)extension,
					 0,
					 0,
					 0,
					 (unsigned char)(name + 5),
					 0,
					 (unsigned char)(name + 3),
					 0,
					 0,
					 (unsigned char)name};

	memcpy(out + len, numbers, sizeof(numbers));
	len += sizeof(numbers);
	memcpy(out + len, NAME, name);
	len += name;
	out[4] = (unsigned char)(len - 5);
	out[8] = (unsigned char)(len - 9);
	return len;
}

// A socket of the sandbox's network, or of ours.
static int make_socket(const struct way *way, int netns, int home)
{
	int fd;

	if (way->inside && setns(netns, CLONE_NEWNET))
		err(1, "enter the network of a sandbox");
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (way->inside && setns(home, CLONE_NEWNET))
		err(1, "come home");
	if (fd < 0)
		err(1, "socket");
	return fd;
}

// Milliseconds from connect() to the last byte that is awaited.
static double once(const struct way *way, int netns, int home, char mode)
{
	static char room[PIECE];
	struct sockaddr_in to = at(way->address, way->port);
	unsigned char hello[256];
	size_t len = write_hello(mode, hello);
	unsigned long long want = mode == 'f' ? FLOOD : 1;
	int fd = make_socket(way, netns, home);
	double begin = now_ms();

	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    send(fd, hello, len, MSG_NOSIGNAL) != (ssize_t)len)
		err(1, "connect to %s", way->address);
	while (want) {
		ssize_t n = recv(fd, room, sizeof(room), 0);

		if (n <= 0)
			errx(1, "%s: the connection ended, %llu bytes before its end", way->address,
			     want);
		want -= (unsigned long long)n < want ? (unsigned long long)n : want;
	}
	begin = now_ms() - begin;
	close(fd);
	return begin;
}

static void make(struct net *net, const char *spec, char id[64])
{
	char *body;
	int status = net_ask(net, "POST", "/v1/sandboxes", spec, &body);

	if (status != 201)
		errx(1, "create: %d %s", status, body);
	net_text(body, "id", id, 64);
}

static void unmake(struct net *net, const char *id)
{
	char path[128];

	snprintf(path, sizeof(path), "/v1/sandboxes/%s", id);
	net_ask(net, "DELETE", path, NULL, NULL);
}

// The ways take turns; a ratio is of one turn, so that a busy moment is one for both.
static void throughput(int netns, int home)
{
	struct samples took[3] = {0}, direct = {0}, relayed = {0};

	for (int i = 0; i < FLOODS; i++) {
		for (int j = 0; j < 3; j++)
			samples_add(&took[j], once(&ways[j], netns, home, 'f'));
		samples_add(&direct, took[1].at[i] / took[0].at[i]);
		samples_add(&relayed, took[2].at[i] / took[0].at[i]);
	}
	row("1 GiB, through the policy", &took[0]);
	row("1 GiB, direct", &took[1]);
	row("1 GiB, through a bare relay", &took[2]);
	promise("egress.throughput", (double)FLOOD / samples_pct(&took[0], 50) / 1e6, 1, 0, "GB/s");
	promise("egress.throughput/direct", samples_pct(&direct, 50), 0.7, 0, "x");
	promise("egress.throughput/relay", samples_pct(&relayed, 50), 0.9, 0, "x");
}

static void connections(int netns, int home, int rounds)
{
	struct samples took[2] = {0};
	double out, direct;

	for (int i = 0; i < 2 * rounds + 10; i++) {
		double ms;

		usleep(SHORT_US);
		ms = once(&ways[i % 2], netns, home, 'p');
		if (i >= 10)
			samples_add(&took[i % 2], ms);
	}
	out = samples_pct(&took[0], 50);
	direct = samples_pct(&took[1], 50);
	puts("out of a sandbox: a connection by its name, to the first byte; 1 GiB");
	row("connection, through the policy", &took[0]);
	row("connection, direct", &took[1]);
	promise("egress.connect.added", out - direct, 0.5, 1, "ms");
	promise("egress.connect/direct", out / direct, 4, 1, "x");
}

// What nobody who gives a sandbox a network of its own gets around.
static void *bare(void *arg)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = unshare(CLONE_NEWNET) ? -1 : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo))
		err(1, "a bare network namespace");
	close(fd);
	return arg;
}

static double netns_ms(void)
{
	double begin = now_ms();
	pthread_t thread;

	if (pthread_create(&thread, NULL, bare, NULL) || pthread_join(thread, NULL))
		errx(1, "a thread for a bare network namespace");
	return now_ms() - begin;
}

static void creation(struct net *net, int rounds)
{
	static const char *const specs[2] = {"{\"network\":{\"mode\":\"all\"}}",
					     "{\"network\":{\"mode\":\"off\"}}"};
	struct samples took[2] = {0}, netns = {0};
	double added;

	for (int i = 0; i < 2 * rounds + 4; i++) {
		char id[64];
		double begin;

		usleep(GAP_US);
		begin = now_ms();
		make(net, specs[i % 2], id);
		if (i >= 4)
			samples_add(&took[i % 2], now_ms() - begin);
		unmake(net, id);
		usleep(SHORT_US);
		samples_add(&netns, netns_ms());
	}
	row("create, with a network", &took[0]);
	row("create, without", &took[1]);
	row("a bare network namespace", &netns);
	added = samples_pct(&took[0], 50) - samples_pct(&took[1], 50);
	promise("create.network.added", added, 0.6, 1, "ms");
	promise("create.network.added/netns", added / samples_pct(&netns, 50), 1.2, 1, "x");
}

void out_bench(struct net *net, int rounds)
{
	int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), netns;
	char id[64], spec[256];

	start_server(PORT, listen_on);
	start_server(RELAY_PORT, relay);
	snprintf(spec, sizeof(spec),
		 "{\"network\":{\"mode\":\"allow\",\"allow\":[\"" NAME ":%d\"],"
		 "\"budgets\":{\"perSecond\":100000}}}",
		 PORT);
	make(net, spec, id);
	netns = preview_enter(id);
	if (home < 0 || netns < 0)
		err(1, "the network of a sandbox");
	connections(netns, home, rounds * 4);
	throughput(netns, home);
	close(netns);
	close(home);
	unmake(net, id);
	creation(net, rounds);
}
