// Forwards local ports: one listener per word, one WebSocket per connection. Bytes go both ways,
// and the end of each half is passed on (http/wspipe.h).
#include "cli/forward.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/collection.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "http/wspipe.h"
#include "lib/private.h"
#include "loop/dial.h"

#define FORWARDS_MAX 16

static fallible malformed(const char *word)
{
	return err_hint(err_new(INVALID, "bad_words", "'%s' is no pair of ports", word),
			"write LOCAL:PORT, ADDRESS:LOCAL:PORT or PORT");
}

fallible forward_read(const char *word, struct forward_spec *out)
{
	const char *colon = strrchr(word, ':'), *before = NULL;
	struct str local = {word, colon ? (size_t)(colon - word) : strlen(word)}, host;
	uint64_t port, listen;

	for (size_t i = 0; colon && i < local.len; i++)
		if (word[i] == ':')
			before = word + i;
	host = before ? (struct str){word, (size_t)(before - word)} : STR("127.0.0.1");
	if (before)
		local = str_skip(local, host.len + 1);
	if (!str_to_u64(colon ? str_of(colon + 1) : local, 1, 65535, &port) ||
	    !str_to_u64(local, 0, 65535, &listen) || !host.len || host.len > 64)
		return malformed(word);
	snprintf(out->listen, sizeof(out->listen), STR_FMT ":%u", STR_ARG(host), (unsigned)listen);
	out->port = (uint16_t)port;
	return OK;
}

struct forward;

struct listener {
	struct forward *forward;
	struct forward_spec spec;
	int fd;
	struct task *task;
};

struct forward {
	struct cove *cove;
	const char *box;
	struct listener listeners[FORWARDS_MAX];
	int count;
	bool quiet;
	struct link links;
	struct condition left; // signalled when a listener or a connection ends
	uint32_t open;	       // of both
};

struct line {
	struct listener *listener;
	struct stream stream;
	struct link link;
	struct task *task;
};

static fallible connect_line(struct line *line)
{
	struct forward *forward = line->listener->forward;
	struct wsock_options options = WSPIPE_OPTIONS;
	auto_free char *rest = mem_fmt("/ports/%u/tcp", line->listener->spec.port);
	auto_free char *path = remote_path(BOXES_PATH, forward->box, rest);
	auto_http_client client = NULL;
	struct wsock *ws = NULL;
	int status = 0;
	struct err *err;

	TRY(http_client_open(forward->cove->loop, str_of(forward->cove->url),
			     str_of(forward->cove->token), &client));
	TRY(http_client_upgrade(client, path, &options, &status, &ws));
	if (!ws)
		return err_new(BAD_PEER, "refused",
			       status == 502 ? "nothing listens on port %u of the sandbox"
					     : "the daemon refused the connection to port %u",
			       line->listener->spec.port);
	err = wspipe_run(forward->cove->loop, ws, &line->stream);
	wsock_end(ws);
	wsock_unref(ws);
	return err;
}

static void run_line(void *arg)
{
	struct line *line = arg;
	struct forward *forward = line->listener->forward;
	auto_err err = connect_line(line);

	if (err && err_kind(err) != ERR_CANCELLED && !forward->quiet)
		print_note("%s", err_message(err));
	stream_close(&line->stream);
	link_drop(&line->link);
	forward->open--;
	condition_signal(&forward->left);
	free(line);
}

static void forward_admit(struct listener *listener, int fd)
{
	struct forward *forward = listener->forward;
	struct line *line = mem_new_of(struct line);
	auto_err err = stream_open(&line->stream, forward->cove->loop, fd);

	if (err) {
		free(line);
		return;
	}
	line->listener = listener;
	link_add(&forward->links, &line->link);
	forward->open++;
	line->task = task_start(forward->cove->loop, "line", run_line, line);
}

static void run_listener(void *arg)
{
	struct listener *listener = arg;
	struct forward *forward = listener->forward;
	auto_err err = NULL;

	while (!err) {
		uint32_t events;
		int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0)
			forward_admit(listener, fd);
		else if (errno == EAGAIN)
			err = task_wait_fd(listener->fd, EPOLLIN, CLOCK_NEVER, &events);
		else if (errno != ECONNABORTED && errno != EINTR)
			err = task_sleep_until(loop_now(forward->cove->loop) + 100);
	}
	listener->task = NULL;
	forward->open--;
	condition_signal(&forward->left);
}

// Runs until it is cancelled; then all connections end.
static fallible forward_hold(void *arg)
{
	struct forward *forward = arg;
	struct err *err = OK;

	for (int i = 0; i < forward->count; i++) {
		struct listener *listener = &forward->listeners[i];

		forward->open++;
		listener->task = task_start(forward->cove->loop, "ear", run_listener, listener);
	}
	while (!err)
		err = condition_wait(&forward->left, CLOCK_NEVER);
	for (int i = 0; i < forward->count; i++)
		if (forward->listeners[i].task)
			task_cancel(forward->listeners[i].task);
	list_each (at, &forward->links)
		task_cancel(link_of(at, struct line, link)->task);
	while (forward->open)
		condition_await(&forward->left);
	return err;
}

static fallible open_listener(struct forward *forward, const char *word)
{
	struct listener *listener = &forward->listeners[forward->count];
	uint16_t port;
	char *colon;

	if (forward->count == FORWARDS_MAX)
		return err_new(INVALID, "bad_words", "at most %d ports at once", FORWARDS_MAX);
	TRY(forward_read(word, &listener->spec));
	listener->forward = forward;
	TRY(dial_listen(str_of(listener->spec.listen), &listener->fd, &port));
	forward->count++;
	colon = strrchr(listener->spec.listen, ':');
	*colon = 0;
	if (!forward->quiet)
		print_line("%s:%u -> %u", listener->spec.listen, port, listener->spec.port);
	fflush(stdout);
	return OK;
}

// Checks that the sandbox exists before any client connects.
static fallible check_box(struct remote *remote, const char *box)
{
	auto_free char *path = remote_path(BOXES_PATH, box, "");

	return remote_ask(remote, "GET", path, NULL, NULL, NULL);
}

fallible forward_run(struct call *call)
{
	auto_remote remote = {0};
	struct forward forward = {.box = call->words[0], .quiet = call_has(call, OPT_QUIET)};
	struct err *err = OK;

	TRY(remote_open(&remote, call));
	TRY(check_box(&remote, call->words[0]));
	forward.cove = remote.cove;
	link_init(&forward.links);
	condition_init(&forward.left);
	for (int i = 1; !err && i < call->word_count; i++)
		err = open_listener(&forward, call->words[i]);
	if (!err) {
		interrupt_arm(remote.cove);
		err = private_wait(remote.cove, -1, forward_hold, &forward);
	}
	for (int i = 0; i < forward.count; i++)
		close(forward.listeners[i].fd);
	if (err && err_kind(err) == ERR_CANCELLED && interrupt_signal()) {
		err_free(err);
		return OK; // the normal end
	}
	return err;
}
