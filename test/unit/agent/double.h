// A machine that is only memory: sandboxes are a flag, runners are tasks that speak the protocol.
// It counts what must never be: two runners of one session at once, a launch without a lease.
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../loop/inside.h"
#include "agent/faults.h"
#include "agent/private.h"
#include "agent/session.h"
#include "base/mem.h"
#include "loop/offload.h"
#include "loop/stream.h"
#include "store/agent.h"
#include "types/timers.h"

#define FAKES_MAX 64

struct fake {
	bool used, alive, deaf; // deaf: stopped, neither reads nor dies politely
	char session[64];
	char instance[LEASE_INSTANCE_LEN + 1];
	uint64_t generation;
	int pid;
	struct stream stream;
	struct task *task;
	int kept; // the daemon's end, as pid 1 keeps it
	char run[LEASE_RUN_LEN + 1];
	uint64_t run_generation, connection, seq;
	char owed[2048];	       // a result that was not acknowledged
	char acked[LEASE_RUN_LEN + 1]; // the run of the last acknowledgement
};

static struct machine {
	struct fake fakes[FAKES_MAX];
	int next_pid;
	size_t launches, most; // most: at once, of one session
	size_t ends, kills;
	bool blind;    // looks fail
	bool immortal; // kills do nothing
	bool refuses;  // launches fail
	int away;      // so many more fail because the warden is away
	bool mute;     // runners never greet
	bool impostor; // runners greet with another identity
	bool gone;     // no sandbox runs
	uint64_t host_free;
	size_t forgotten, destroyed, looks;
	struct loop *loop;
} machine;

static struct fake *fake_of(const char *session)
{
	for (int i = 0; i < FAKES_MAX; i++)
		if (machine.fakes[i].alive && strcmp(machine.fakes[i].session, session) == 0)
			return &machine.fakes[i];
	return NULL;
}

static void fake_say(struct fake *fake, const char *text)
{
	err_free(stream_write(&fake->stream, text, strlen(text), 1000));
}

static void fake_result(struct fake *fake, const char *status)
{
	snprintf(fake->owed, sizeof(fake->owed),
		 "{\"type\":\"result\",\"run\":\"%s\",\"run_generation\":%llu,\"connection\":%llu,"
		 "\"seq\":%llu,\"status\":\"%s\",\"output\":{\"by\":%d}}\n",
		 fake->run, (unsigned long long)fake->run_generation,
		 (unsigned long long)fake->connection, (unsigned long long)++fake->seq, status,
		 fake->pid);
	fake_say(fake, fake->owed);
}

static void fake_attach(struct fake *fake, const struct json *tree)
{
	char line[512];

	err_free(json_u64(json_get(tree, "connection"), "c", 0, UINT64_MAX >> 11,
			  &fake->connection));
	if (machine.mute)
		return;
	snprintf(line, sizeof(line),
		 "{\"type\":\"hello\",\"protocol\":1,\"session\":\"%s\",\"instance\":\"%s\","
		 "\"generation\":%llu,\"connection\":%llu,\"run\":%s%s%s}\n",
		 fake->session, fake->instance,
		 (unsigned long long)fake->generation + machine.impostor,
		 (unsigned long long)fake->connection, fake->run[0] ? "\"" : "",
		 fake->run[0] ? fake->run : "null", fake->run[0] ? "\"" : "");
	fake_say(fake, line);
	if (fake->owed[0]) { // said again, under the new number
		char status[16] = "completed";

		fake->seq--;
		if (strstr(fake->owed, "\"failed\""))
			memcpy(status, "failed", 7);
		fake_result(fake, status);
	}
}

static void fake_run(struct fake *fake, const struct json *tree)
{
	struct str run = {0}, input = {0};
	char line[512];

	err_free(json_str(json_get(tree, "run"), "run", &run));
	err_free(json_str(json_get(tree, "input"), "input", &input));
	err_free(json_u64(json_get(tree, "run_generation"), "g", 0, UINT64_MAX >> 11,
			  &fake->run_generation));
	snprintf(fake->run, sizeof(fake->run), STR_FMT, STR_ARG(run));
	fake->seq = 0;
	snprintf(line, sizeof(line),
		 "{\"type\":\"accepted\",\"run\":\"%s\",\"run_generation\":%llu,"
		 "\"connection\":%llu}\n",
		 fake->run, (unsigned long long)fake->run_generation,
		 (unsigned long long)fake->connection);
	fake_say(fake, line);
	snprintf(line, sizeof(line),
		 "{\"type\":\"output\",\"run\":\"%s\",\"run_generation\":%llu,\"connection\":%llu,"
		 "\"seq\":%llu,\"stream\":\"stdout\","
		 "\"data\":{\"run\":\"run_\",\"seq\":1000000}}\n",
		 fake->run, (unsigned long long)fake->run_generation,
		 (unsigned long long)fake->connection, (unsigned long long)++fake->seq);
	if (!str_is(input, "mum"))
		fake_say(fake, line);
	if (str_is(input, "ok"))
		fake_result(fake, "completed");
	else if (str_is(input, "bad"))
		fake_result(fake, "failed");
	else if (str_is(input, "ask"))
		snprintf(line, sizeof(line),
			 "{\"type\":\"question\",\"run\":\"%s\",\"run_generation\":%llu,"
			 "\"connection\":%llu,\"seq\":%llu,\"question\":\"q1\",\"text\":\"?\"}\n",
			 fake->run, (unsigned long long)fake->run_generation,
			 (unsigned long long)fake->connection, (unsigned long long)++fake->seq);
	if (str_is(input, "ask"))
		fake_say(fake, line);
	if (str_is(input, "die"))
		fake->alive = false;
	if (str_is(input, "babble"))
		fake_say(fake, "this is no word\n");
}

static void fake_hear(struct fake *fake, struct str line)
{
	auto_json tree = NULL;
	auto_err err = json_read(line, &tree);
	struct str type = {0};
	uint64_t number = 0;
	char text[64];

	if (err)
		return;
	err_free(json_str(json_get(tree, "type"), "type", &type));
	if (str_is(type, "attach"))
		fake_attach(fake, tree);
	if (str_is(type, "run"))
		fake_run(fake, tree);
	if (str_is(type, "answer"))
		fake_result(fake, "completed");
	if (str_is(type, "ack")) {
		struct str run = {0};

		err_free(json_str(json_get(tree, "run"), "run", &run));
		snprintf(fake->acked, sizeof(fake->acked), STR_FMT, STR_ARG(run));
	}
	if (str_is(type, "ack") && fake->owed[0]) {
		err_free(json_u64(json_get(tree, "seq"), "seq", 0, UINT64_MAX >> 11, &number));
		if (number == fake->seq)
			fake->owed[0] = fake->run[0] = 0;
	}
	if (str_is(type, "ping")) {
		err_free(json_u64(json_get(tree, "number"), "n", 0, UINT64_MAX >> 11, &number));
		snprintf(text, sizeof(text), "{\"type\":\"pong\",\"number\":%llu}\n",
			 (unsigned long long)number);
		fake_say(fake, text);
	}
}

static void fake_live(void *arg)
{
	struct fake *fake = arg;
	auto_buf in = BUF_INIT(1 << 20);
	char room[2048];

	while (fake->alive) {
		size_t got = 0;
		auto_err err = stream_read(&fake->stream, room, sizeof(room), CLOCK_NEVER, &got);
		const char *end;

		if (err || !got)
			break;
		while (fake->deaf && fake->alive)
			inside_sleep(2);
		buf_add(&in, room, got);
		while (in.len && (end = memchr(in.at, '\n', in.len)) && fake->alive) {
			size_t len = (size_t)(end - in.at);

			fake_hear(fake, (struct str){in.at, len});
			buf_drop_front(&in, len + 1);
		}
	}
	fake->task = NULL;
	stream_close(&fake->stream);
}

// As pid 1 does: its copy of the daemon's end lives on with what lies in it.
static void fake_kill(struct fake *fake)
{
	fake->alive = false;
	if (fake->task)
		task_cancel(fake->task);
}

static fallible m_provision(void *arg, const struct backend_site *local, bool *out_cold)
{
	(void)arg, (void)local;
	*out_cold = machine.gone;
	machine.gone = false;
	return OK;
}

static fallible m_check(void *arg, const struct who *who, const struct backend_site *local,
			struct choices *choices)
{
	(void)arg, (void)who, (void)local;
	if (!choices->text[CHOICE_TEMPLATE])
		choices_set_template(choices, "host");
	return OK;
}

static fallible m_probe(void *arg, const struct backend_site *local)
{
	(void)arg, (void)local;
	return OK;
}

static fallible m_prepare(void *arg, const struct backend_site *local, bool *out_new)
{
	(void)arg, (void)local;
	*out_new = true;
	return OK;
}

static size_t alive_of(const char *session)
{
	size_t count = 0;

	for (int i = 0; i < FAKES_MAX; i++)
		count += machine.fakes[i].alive && !strcmp(machine.fakes[i].session, session);
	return count;
}

static struct fake *plant(const char *session, const char *instance, uint64_t generation, int *out)
{
	struct fake *fake = NULL;
	int pair[2];

	for (int i = 0; i < FAKES_MAX && !fake; i++)
		if (!machine.fakes[i].used)
			fake = &machine.fakes[i];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		abort();
	*fake = (struct fake){.used = true, .alive = true, .pid = ++machine.next_pid};
	snprintf(fake->session, sizeof(fake->session), "%s", session);
	snprintf(fake->instance, sizeof(fake->instance), "%s", instance);
	fake->generation = generation;
	err_free(stream_open(&fake->stream, machine.loop, pair[0]));
	fake->kept = dup(pair[1]);
	fake->task = task_start(machine.loop, "fake", fake_live, fake);
	*out = pair[1];
	return fake;
}

static fallible m_launch(void *arg, const struct backend_site *local,
			 const struct backend_launch *what, struct lease_place *out_place,
			 int *out_fd)
{
	struct fake *fake;
	size_t alive;

	(void)arg;
	machine.launches++;
	if (machine.refuses)
		return err_new(UNAVAILABLE, "no_launch", "no");
	if (machine.away > 0) {
		machine.away--;
		return err_new(UNAVAILABLE, "no_warden", "away");
	}
	fake = plant(local->session, what->instance, what->generation, out_fd);
	out_place->pid = fake->pid;
	out_place->start = (uint64_t)fake->pid * 10;
	alive = alive_of(local->session);
	if (alive > machine.most)
		machine.most = alive;
	return OK;
}

static fallible m_attach(void *arg, const struct backend_site *local, const struct lease *lease,
			 int *out_fd)
{
	(void)arg;
	for (int i = 0; i < FAKES_MAX; i++) {
		struct fake *fake = &machine.fakes[i];

		if (fake->used && strcmp(fake->session, local->session) == 0 &&
		    strcmp(fake->instance, lease->instance) == 0) {
			*out_fd = dup(fake->kept);
			return OK;
		}
	}
	return err_new(NOT_FOUND, "no_runner", "no");
}

static fallible m_dial(void *arg, const struct backend_site *local, uint16_t port, int *out_fd)
{
	(void)arg, (void)local, (void)port;
	*out_fd = -1;
	return err_new(BAD_PEER, "port_closed", "no");
}

static void m_look(void *arg, const struct backend_site *local, const struct lease *lease,
		   struct backend_view *out)
{
	(void)arg, (void)lease;
	machine.looks++;
	*out = (struct backend_view){.failed = machine.blind};
	if (machine.blind) {
		snprintf(out->why, sizeof(out->why), "blind");
		return;
	}
	inside_sleep(1); // the world moves under a look
	for (int i = 0; i < FAKES_MAX && out->count < BACKEND_FOUND_MAX; i++) {
		struct fake *fake = &machine.fakes[i];
		struct backend_found *found = &out->found[out->count];

		if (!fake->alive || strcmp(fake->session, local->session) != 0)
			continue;
		*found = (struct backend_found){.generation = fake->generation,
						.pid = fake->pid,
						.start = (uint64_t)fake->pid * 10};
		memcpy(found->instance, fake->instance, sizeof(found->instance));
		out->count++;
	}
}

static void m_end(void *arg, const struct backend_site *local, const struct lease *lease,
		  const struct backend_view *seen, bool force)
{
	(void)arg, (void)lease, (void)seen;
	machine.ends++;
	machine.kills += force;
	for (int i = 0; i < FAKES_MAX; i++) {
		struct fake *fake = &machine.fakes[i];

		if (fake->alive && !strcmp(fake->session, local->session) && !machine.immortal &&
		    (force || !fake->deaf))
			fake_kill(fake);
	}
}

static bool m_lives(void *arg, const struct backend_site *local, const struct lease *lease)
{
	(void)arg, (void)lease;
	return fake_of(local->session) != NULL;
}

static void m_keep_alive(void *arg, const struct backend_site *local)
{
	(void)arg, (void)local;
}

static fallible m_capacity(void *arg, const struct backend_site *local, struct backend_room *out)
{
	(void)arg, (void)local;
	*out = (struct backend_room){.host_free = machine.host_free, .cold = true};
	return OK;
}

static void m_clean(void *arg, const struct backend_site *local,
		    bool (*is_used)(const char *directory, void *of), void *of,
		    struct backend_cleaned *out)
{
	(void)arg, (void)local, (void)is_used, (void)of;
	*out = (struct backend_cleaned){.cleaned = 1, .skipped = 2};
}

static fallible m_forget(void *arg, const struct backend_site *local, enum backend_end end)
{
	(void)arg;
	machine.forgotten++;
	machine.destroyed += end == BACKEND_END_SANDBOX;
	if (end == BACKEND_END_SANDBOX)
		for (int i = 0; i < FAKES_MAX; i++)
			if (machine.fakes[i].alive &&
			    !strcmp(machine.fakes[i].session, local->session))
				fake_kill(&machine.fakes[i]);
	return OK;
}

static void m_logs(void *arg, const struct backend_site *local, const struct lease *lease,
		   struct json_out *out)
{
	(void)arg, (void)local, (void)lease, (void)out;
}

static const struct backend backend_double = {
	.provision = m_provision,
	.check = m_check,
	.probe = m_probe,
	.prepare = m_prepare,
	.fill = m_probe,
	.launch = m_launch,
	.attach = m_attach,
	.dial = m_dial,
	.look = m_look,
	.end = m_end,
	.lives = m_lives,
	.keep_alive = m_keep_alive,
	.capacity = m_capacity,
	.clean = m_clean,
	.forget = m_forget,
	.logs = m_logs,
};
