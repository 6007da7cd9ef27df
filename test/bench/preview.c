// The server is this program, started inside of a sandbox and, for nginx, beside it. Both relays
// keep their connections to the server. The three ways take turns, so that a busy moment is
// one for all of them; medians are compared.
#include "bench/preview.h"

#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/stat.h"

#define PORT 8000
#define ROUNDS 5
#define SPAN_MS 1000.0 // of a round
#define CLIENTS 8
#define BIG (512u << 20)
#define HEAD_MAX 4096

struct way {
	const char *name;
	int netns; // to be in; -1: this one
	int port;
	char host[160];
	struct samples rate, bytes;
};

static int dial(const struct way *way)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)way->port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), fd;

	if (way->netns >= 0 && setns(way->netns, CLONE_NEWNET))
		err(1, "enter the sandbox's network");
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (way->netns >= 0 && setns(own, CLONE_NEWNET))
		err(1, "leave the sandbox's network");
	close(own);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	return fd;
}

// One request to the end of its reply; the bytes of its body.
static size_t ask(int fd, const struct way *way, const char *path)
{
	static _Thread_local char room[1 << 18];
	int len = snprintf(room, sizeof(room), "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path,
			   way->host);
	size_t have = 0, want = 0, head = 0;

	if (send(fd, room, (size_t)len, MSG_NOSIGNAL) != len)
		err(1, "%s: send", way->name);
	while (!head || have < want) {
		ssize_t got = recv(fd, room + (head ? 0 : have),
				   sizeof(room) - 1 - (head ? 0 : have), 0);
		const char *end;

		if (got <= 0)
			errx(1, "%s: the server hung up", way->name);
		have += (size_t)got;
		if (head)
			continue;
		room[have] = 0;
		end = strstr(room, "\r\n\r\n");
		if (!end)
			continue;
		if (strncmp(room, "HTTP/1.1 200", 12) != 0)
			errx(1, "%s: %.200s", way->name, room);
		head = (size_t)(end - room) + 4;
		want = head + strtoul(strcasestr(room, "\r\ncontent-length:") + 17, NULL, 10);
	}
	return want - head;
}

struct client {
	pthread_t thread;
	const struct way *way;
	size_t done;
};

static void *run_client(void *arg)
{
	struct client *client = arg;
	double end = now_ms() + SPAN_MS;
	int fd = dial(client->way);

	while (now_ms() < end) {
		ask(fd, client->way, "/small");
		client->done++;
	}
	close(fd);
	return NULL;
}

static void measure(struct way *way)
{
	struct client clients[CLIENTS] = {0};
	size_t sum = 0;
	double start;
	int fd;

	for (int i = 0; i < CLIENTS; i++) {
		clients[i].way = way;
		pthread_create(&clients[i].thread, NULL, run_client, &clients[i]);
	}
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i].thread, NULL);
		sum += clients[i].done;
	}
	samples_add(&way->rate, (double)sum / SPAN_MS * 1000);
	fd = dial(way);
	start = now_ms();
	sum = ask(fd, way, "/big");
	samples_add(&way->bytes, (double)sum / 1e6 / (now_ms() - start));
	close(fd);
}

static void *serve_one(void *arg)
{
	static const char piece[1 << 16];
	int fd = (int)(long)arg;
	char head[HEAD_MAX];
	size_t have = 0;

	for (;;) {
		ssize_t got = recv(fd, head + have, sizeof(head) - 1 - have, 0);
		size_t len;

		if (got <= 0)
			break;
		have += (size_t)got;
		head[have] = 0;
		if (!strstr(head, "\r\n\r\n"))
			continue;
		len = strncmp(head, "GET /big", 8) == 0 ? BIG : 5;
		dprintf(fd, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", len,
			len == 5 ? "hello" : "");
		for (size_t left = len == 5 ? 0 : len; left; left -= sizeof(piece))
			if (send(fd, piece, sizeof(piece), MSG_NOSIGNAL) != sizeof(piece))
				break;
		if (strcasestr(head, "connection: close"))
			break;
		have = 0;
	}
	close(fd);
	return NULL;
}

int preview_serve(int port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 1024))
		err(1, "listen on %d", port);
	for (;;) {
		int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		pthread_attr_t slim;
		pthread_t thread;

		if (client < 0)
			continue;
		setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
		pthread_attr_init(&slim);
		pthread_attr_setdetachstate(&slim, PTHREAD_CREATE_DETACHED);
		if (pthread_create(&thread, &slim, serve_one, (void *)(long)client))
			close(client);
	}
}

// This program as a file of the sandbox.
static void carry(struct net *net, const char *id)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	char head[512], *bytes;
	int len;

	if (fd < 0 || fstat(fd, &st) || !(bytes = malloc((size_t)st.st_size)) ||
	    read(fd, bytes, (size_t)st.st_size) != st.st_size)
		err(1, "read this program");
	close(fd);
	len = snprintf(
		head, sizeof(head),
		"PUT /v1/sandboxes/%s/api/files/workspace/bench HTTP/1.1\r\n"
		"Host: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\nContent-Length: %zu\r\n\r\n",
		id, net->port, net->key, (size_t)st.st_size);
	if (send(net->fd, head, (size_t)len, MSG_NOSIGNAL) != len ||
	    send(net->fd, bytes, (size_t)st.st_size, MSG_NOSIGNAL) != st.st_size)
		err(1, "send this program");
	free(bytes);
	if (net_recv(net, NULL) / 100 != 2)
		errx(1, "this program was not taken");
}

static void say(struct net *net, const char *id, const char *path, const char *words, char **out)
{
	char whole[160];
	int status;
	char *body;

	snprintf(whole, sizeof(whole), "/v1/sandboxes/%s%s", id, path);
	status = net_ask(net, "POST", whole, words, &body);
	if (status / 100 != 2)
		errx(1, "%s: %d %s", path, status, body);
	if (out)
		*out = body;
}

// The network of the sandbox whose pid 1 the warden has noted.
int preview_enter(const char *id)
{
	char path[512], line[256];
	FILE *file;
	int pid = 0, fd;

	snprintf(path, sizeof(path), "%s/run/data/cells/%s", getenv("BENCH_DIR"), id);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "pid ", 4))
			pid = (int)strtol(line + 4, NULL, 10);
	if (file)
		fclose(file);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err(1, "the sandbox's network: %s", path);
	return fd;
}

static pid_t start(char *const argv[])
{
	pid_t pid = fork();

	if (pid == 0) {
		execvp(argv[0], argv);
		_exit(127);
	}
	return pid;
}

static void end(pid_t pid)
{
	if (pid > 0) {
		kill(pid, SIGTERM);
		waitpid(pid, NULL, 0);
	}
}

static void await(const struct way *way)
{
	for (int i = 0, fd = -1; fd < 0; i++) {
		fd = dial(way);
		if (fd >= 0)
			close(fd);
		else if (i == 500)
			errx(1, "%s does not come up", way->name);
		else
			usleep(20000);
	}
}

// nginx as packaged, with one worker, as cove has one loop.
static pid_t start_nginx(void)
{
	char path[300];
	FILE *file;

	snprintf(path, sizeof(path), "%s/nginx.conf", getenv("BENCH_DIR"));
	file = fopen(path, "w");
	if (!file)
		err(1, "%s", path);
	fprintf(file,
		"daemon off; master_process off; pid %s/nginx.pid; error_log /dev/null;\n"
		"events { worker_connections 1024; }\n"
		"http { access_log off; keepalive_requests 10000000; proxy_max_temp_file_size 0;\n"
		"client_body_temp_path %s/n1; proxy_temp_path %s/n2; fastcgi_temp_path %s/n3;\n"
		"uwsgi_temp_path %s/n4; scgi_temp_path %s/n5;\n"
		"upstream inside { server 127.0.0.1:18081; keepalive 64; keepalive_requests "
		"10000000; }\n"
		"server { listen 127.0.0.1:18082; location / { proxy_pass http://inside;\n"
		"proxy_http_version 1.1; proxy_set_header Connection \"\"; } } }\n",
		getenv("BENCH_DIR"), getenv("BENCH_DIR"), getenv("BENCH_DIR"), getenv("BENCH_DIR"),
		getenv("BENCH_DIR"), getenv("BENCH_DIR"));
	fclose(file);
	return start((char *[]){(char *)"nginx", (char *)"-c", path, NULL});
}

static void show(struct way *way)
{
	printf("  %-28s %9.0f requests/s %9.2f GB/s\n", way->name, samples_pct(&way->rate, 50),
	       samples_pct(&way->bytes, 50));
}

static void compare(struct way *ways, int count)
{
	struct way *direct = &ways[0], *preview = &ways[1], *nginx = &ways[2];

	printf("previews: %d keep-alive clients, then %u MiB on one connection\n", CLIENTS,
	       BIG >> 20);
	for (int i = 0; i < count; i++)
		show(&ways[i]);
	promise("preview.rate/direct",
		samples_pct(&preview->rate, 50) / samples_pct(&direct->rate, 50), 0.03, 0, "x");
	promise("preview.bytes/direct",
		samples_pct(&preview->bytes, 50) / samples_pct(&direct->bytes, 50), 0.25, 0, "x");
	if (count < 3)
		return;
	promise("preview.rate/nginx",
		samples_pct(&preview->rate, 50) / samples_pct(&nginx->rate, 50), 1, 0, "x");
	promise("preview.bytes/nginx",
		samples_pct(&preview->bytes, 50) / samples_pct(&nginx->bytes, 50), 0.8, 0, "x");
}

void preview_bench(struct net *net, int has_nginx)
{
	static struct way ways[3] = {
		{.name = "direct", .port = PORT, .host = "localhost:8000"},
		{.name = "preview", .netns = -1},
		{.name = "nginx", .netns = -1, .port = 18082, .host = "localhost"},
	};
	char id[64], self[256], url[256], path[128], *body;
	pid_t server = 0, nginx = 0;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (net_ask(net, "POST", "/v1/sandboxes", "{}", &body) != 201)
		errx(1, "create: %s", body);
	net_text(body, "id", id, sizeof(id));
	carry(net, id);
	say(net, id, "/api/process/start",
	    "{\"command\":\"chmod 755 /workspace/bench && exec /workspace/bench serve 8000\"}",
	    NULL);
	say(net, id, "/ports", "{\"port\":8000}", &body);
	net_text(body, "url", url, sizeof(url));
	ways[0].netns = preview_enter(id);
	snprintf(ways[1].host, sizeof(ways[1].host), "%.*s", (int)strcspn(url + 7, "/"), url + 7);
	ways[1].port = (int)strtol(strrchr(ways[1].host, ':') + 1, NULL, 10);
	if (has_nginx) {
		self[len > 0 ? len : 0] = 0;
		server = start((char *[]){self, (char *)"serve", (char *)"18081", NULL});
		nginx = start_nginx();
	}
	await(&ways[0]);
	if (has_nginx)
		await(&ways[2]);
	for (int i = 0; i < ROUNDS; i++)
		for (int j = 0; j < 2 + has_nginx; j++)
			measure(&ways[j]);
	compare(ways, 2 + has_nginx);
	end(nginx);
	end(server);
	close(ways[0].netns);
	snprintf(path, sizeof(path), "/v1/sandboxes/%s", id);
	net_ask(net, "DELETE", path, NULL, NULL);
}
