// The HTTP engine alone: a fixed 200 on loopback, so that its price can be measured. It is linked
// with the archives http, loop, wire, os and base of a build, and -lcrypto; then:
//
//	./bare 127.0.0.1:8099 & wrk -c1 -t1 -d5 http://127.0.0.1:8099/
#include <signal.h>
#include <stdio.h>

#include "base/auto.h"
#include "http/server.h"
#include "loop/dial.h"

static struct loop *loop;

static void serve(struct http *x)
{
	err_free(http_reply(x, 200, "text/plain", STR("ok\n")));
}

static void refuse(struct http *x, struct err *why)
{
	auto_err err = why;

	err_free(http_reply(x, err_http(err), "text/plain", str_of(err_message(err))));
}

static void on_signal(int signal)
{
	(void)signal;
	loop_poke(loop);
}

static void stop(void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static fallible run(const char *address)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	struct http_server *server;
	struct loop_stats stats;
	uint16_t port;
	int fd = -1;

	TRY(loop_new(&loop));
	loop_on_poke(loop, stop, NULL);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	TRY(dial_listen(str_of(address), &fd, &port));
	TRY(http_server_open(loop, &limits, serve, refuse, NULL, &server));
	TRY(http_server_listen(server, fd));
	printf("%u\n", port);
	fflush(stdout);
	loop_run(loop);
	stats = loop_stats(loop);
	fprintf(stderr, "requests %lu turns %lu slow %lu slowest %ld us\n",
		(unsigned long)http_server_stats(server).requests, (unsigned long)stats.turns,
		(unsigned long)stats.slow_turns, (long)stats.slowest_us);
	return OK;
}

int main(int argc, char **argv)
{
	auto_err err = run(argc > 1 ? argv[1] : "127.0.0.1:0");

	if (err)
		fprintf(stderr, "%s\n", err_trail(err));
	return err != NULL;
}
