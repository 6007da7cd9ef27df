// Exec latency of a lone sandbox while another one, of half a processor, does what is known to slow
// a host. Each attack has five rounds, in each a block of execs without it and one with it; the row
// is the median of the five ratios of their p95.
#include "bench/neighbour.h"

#include <err.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/stat.h"

#define ROUNDS 5
#define BLOCK 100
#define GAP_US 3000
#define BEGIN_US 500000 // until the attack is under way
#define HEADS 4096

// As JSON text. In a sandbox the program has /workspace, and its output goes to the daemon.
static const struct {
	const char *id;
	double limit;
	const char *command; // NULL: half-sent heads, from outside
} attacks[] = {
	// What a busy processor alone costs.
	{"neighbour.spin", 1.5, "for i in 1 2 3 4 5 6 7; do while :; do :; done & done; wait"},
	{"neighbour.sync", 1.5, "while :; do sync; done"},
	{"neighbour.syncfs", 3, "while :; do sync -f /workspace; done"},
	{"neighbour.fsync", 3,
	 "python3 -c 'import os\\nf=os.open(\\\"/workspace/f\\\",65,384)\\n"
	 "while 1: os.pwrite(f,b\\\"x\\\"*4096,0); os.fsync(f)'"},
	{"neighbour.aio", 1.5,
	 "python3 -c 'import ctypes,platform\\nl=ctypes.CDLL(None)\\n"
	 "n=0 if platform.machine()==\\\"aarch64\\\" else 206\\n"
	 "while 1: c=ctypes.c_ulong(); l.syscall(n,128,ctypes.byref(c))'"},
	{"neighbour.hugepages", 1.5,
	 "python3 -c 'import mmap\\nwhile 1:\\n"
	 "  try: mmap.mmap(-1,2<<20,0x40022,3)[0]=1\\n"
	 "  except OSError: pass'"},
	{"neighbour.files", 1.5,
	 "python3 -c 'import os\\nfor i in range(4): os.fork()\\nwhile 1:\\n  f=[]\\n"
	 "  try:\\n    while 1: f.append(os.open(\\\"/\\\",0))\\n"
	 "  except OSError: pass\\n  for x in f: os.close(x)'"},
	{"neighbour.packets", 1.5,
	 "python3 -c 'import os,fcntl\\nfcntl.fcntl(1,4,fcntl.fcntl(1,3)|os.O_DIRECT)\\n"
	 "while 1: os.write(1,b\\\"x\\\")'"},
	{"neighbour.heads", 1.5, NULL},
};

static void ask_for(struct net *net, const char *method, const char *path, const char *body,
		    int wanted, char **out)
{
	char *reply;
	int status = net_ask(net, method, path, body, &reply);

	if (status != wanted)
		errx(1, "%s %s: %d %s", method, path, status, reply);
	if (out)
		*out = reply;
}

static void make_box(struct net *net, const char *spec, char id[64])
{
	char *reply;

	ask_for(net, "POST", "/v1/sandboxes", spec, 201, &reply);
	net_text(reply, "id", id, 64);
}

static void remove_box(struct net *net, const char *id)
{
	char path[128];

	snprintf(path, sizeof(path), "/v1/sandboxes/%s", id);
	ask_for(net, "DELETE", path, NULL, 204, NULL);
}

static double exec_p95(struct net *net, const char *id)
{
	struct samples took = {0};
	char path[128];

	snprintf(path, sizeof(path), "/v1/sandboxes/%s/api/execute", id);
	for (int i = 0; i < BLOCK; i++) {
		double begin;

		usleep(GAP_US);
		begin = now_ms();
		ask_for(net, "POST", path, "{\"argv\":[\"/bin/true\"]}", 200, NULL);
		samples_add(&took, now_ms() - begin);
	}
	return samples_pct(&took, 95);
}

static double under_command(struct net *net, const char *neighbour, const char *command)
{
	char attacker[64], path[128], body[1024];
	double p95;

	make_box(net, "{\"limits\":{\"cpus\":0.5}}", attacker);
	snprintf(path, sizeof(path), "/v1/sandboxes/%s/api/process/start", attacker);
	snprintf(body, sizeof(body), "{\"command\":\"%s\"}", command);
	ask_for(net, "POST", path, body, 200, NULL);
	usleep(BEGIN_US);
	p95 = exec_p95(net, neighbour);
	remove_box(net, attacker);
	return p95;
}

// What the server closes is opened again.
static double under_heads(struct net *net, const char *neighbour)
{
	static const char head[] = "GET /v1/health HTTP/1.1\r\nHost: ";
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)net->port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rlimit files;
	static int socks[HEADS];
	double p95;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	for (int i = 0; i < HEADS; i++) {
		socks[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (socks[i] < 0)
			err(1, "open socket %d", i);
		(void)connect(socks[i], (struct sockaddr *)&to, sizeof(to));
	}
	usleep(BEGIN_US);
	for (int i = 0; i < HEADS; i++)
		(void)send(socks[i], head, sizeof(head) - 1, MSG_NOSIGNAL);
	p95 = exec_p95(net, neighbour);
	for (int i = 0; i < HEADS; i++)
		close(socks[i]);
	usleep(BEGIN_US);
	return p95;
}

void neighbour_bench(struct net *net)
{
	char neighbour[64];

	make_box(net, "{}", neighbour);
	puts("exec of a lone sandbox while another of half a processor attacks: p95 over p95");
	for (size_t i = 0; i < sizeof(attacks) / sizeof(*attacks); i++) {
		struct samples ratios = {0}, quiet = {0}, loud = {0};

		for (int round = 0; round < ROUNDS; round++) {
			samples_add(&quiet, exec_p95(net, neighbour));
			samples_add(&loud, attacks[i].command ? under_command(net, neighbour,
									      attacks[i].command)
							      : under_heads(net, neighbour));
			samples_add(&ratios, loud.at[round] / quiet.at[round]);
		}
		printf("  %-20s p95 %.3f ms alone, %.3f ms beside it\n", attacks[i].id,
		       samples_pct(&quiet, 50), samples_pct(&loud, 50));
		promise(attacks[i].id, samples_pct(&ratios, 50), attacks[i].limit, 1, "x");
	}
	remove_box(net, neighbour);
}
