// The connection to a runner. A malformed line ends the connection once the runner has said hello;
// before that it is skipped: after a restart the socket may hold the rest of a line that was meant
// for the previous daemon, and the runner repeats unacknowledged messages.
#include "agent/link.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define READ_SIZE 3072
#define SILENCE_MS (24ll * 3600 * 1000) // a stopped runner is detected by pings, not by this

static void link_let_go(struct runner_link *link)
{
	if (--link->refs)
		return;
	stream_close(&link->stream);
	list_each (at, &link->received) {
		link_drop(at);
		runner_free(link_of(at, struct runner_message, link));
	}
	buf_done(&link->in);
	buf_done(&link->out);
	free(link);
}

static void link_shut(struct runner_link *link, bool broken, const char *why)
{
	if (link->closed)
		return;
	link->closed = true;
	link->broken = broken;
	snprintf(link->why, sizeof(link->why), "%s", why);
	condition_signal(&link->more);
	if (!link->dropped)
		condition_signal(&link->agent->wake);
}

// Parses one line. False: the connection is over.
static bool link_take_line(struct runner_link *link, struct str line)
{
	struct runner_message *message = NULL;
	auto_err err = OK;

	if (!line.len)
		return true;
	err = runner_read(line, &message);
	if (!err) {
		link_add(&link->received, &message->link);
		link->received_count++;
		link->received_bytes += message->bytes;
		condition_signal(&link->agent->wake);
		return true;
	}
	if (!link->greeted)
		return true;
	link_shut(link, true, err_message(err));
	return false;
}

static bool is_full(const struct runner_link *link, size_t len)
{
	return link->received_count >= LINK_RECEIVED_MAX ||
	       (link->received_count && link->received_bytes + len > LINK_RECEIVED_BYTES);
}

static bool take_lines(struct runner_link *link)
{
	for (;;) {
		struct str all = buf_view(&link->in);
		const char *end = all.len ? memchr(all.at, '\n', all.len) : NULL;
		size_t len;

		if (!end)
			return true;
		len = (size_t)(end - all.at);
		while (is_full(link, len)) {
			auto_err err = condition_wait(&link->room, CLOCK_NEVER);

			if (err || link->dropped)
				return false;
		}
		if (!link_take_line(link, (struct str){link->in.at, len}))
			return false;
		buf_drop_front(&link->in, len + 1);
	}
}

static void read_on(void *arg)
{
	struct runner_link *link = arg;
	char room[READ_SIZE];

	while (!link->dropped && !link->closed) {
		size_t got = 0;
		auto_err err = stream_read(&link->stream, room, sizeof(room), CLOCK_NEVER, &got);

		if (err || !got) {
			link_shut(link, false, "the runner closed its dialogue");
			break;
		}
		buf_add(&link->in, room, got);
		if (!buf_ok(&link->in)) {
			link_shut(link, true, "a runner's line is too long");
			break;
		}
		if (!take_lines(link))
			break;
	}
	link->reader = NULL;
	link_let_go(link);
}

static void write_on(void *arg)
{
	struct runner_link *link = arg;

	while (!link->dropped && !link->closed) {
		auto_buf message = link->out;
		auto_err err = OK;

		link->out = BUF_INIT(LINK_OUT_MAX);
		if (message.len)
			err = stream_write(&link->stream, message.at, message.len, SILENCE_MS);
		else
			err = condition_wait(&link->more, CLOCK_NEVER);
		if (err) {
			link_shut(link, false, "the runner takes no more message");
			break;
		}
	}
	link->writer = NULL;
	link_let_go(link);
}

fallible link_open(struct agent_session *agent, int fd, struct runner_link **out)
{
	struct runner_link *link = mem_new_of(struct runner_link);
	struct err *err = stream_open(&link->stream, agent->agents->loop, fd);

	if (err) {
		free(link);
		return err;
	}
	link->agent = agent;
	link->in = BUF_INIT(RUNNER_LINE_MAX);
	link->out = BUF_INIT(LINK_OUT_MAX);
	link_init(&link->received);
	condition_init(&link->room);
	condition_init(&link->more);
	link->refs = 3; // the owner's, the reader's, the writer's
	link->reader = task_start(agent->agents->loop, "runner.hear", read_on, link);
	link->writer = task_start(agent->agents->loop, "runner.say", write_on, link);
	link_greet(link);
	*out = link;
	return OK;
}

void link_greet(struct runner_link *link)
{
	struct agent_session *agent = link->agent;
	struct run *run = agent_running(agent);
	auto_buf message = BUF_INIT(4096);

	link->connection = ++agent->agents->connections;
	link->greeted = false;
	runner_attach(&message, agent, link->connection, run ? run->seq : 0);
	link_send(link, &message);
}

void link_send(struct runner_link *link, const struct buf *message)
{
	buf_str(&link->out, buf_view(message));
	if (!buf_ok(&link->out))
		link_shut(link, false, "the runner reads nothing");
	condition_signal(&link->more);
}

struct runner_message *link_first(struct runner_link *link)
{
	if (link_empty(&link->received))
		return NULL;
	return link_of(link->received.next, struct runner_message, link);
}

void link_pop(struct runner_link *link)
{
	struct runner_message *message = link_first(link);

	if (!message)
		return;
	link_drop(&message->link);
	link->received_count--;
	link->received_bytes -= message->bytes;
	runner_free(message);
	condition_signal(&link->room);
}

void link_end(struct runner_link *link)
{
	if (!link)
		return;
	link->dropped = true;
	if (link->reader)
		task_cancel(link->reader);
	if (link->writer)
		task_cancel(link->writer);
	link_let_go(link);
}
