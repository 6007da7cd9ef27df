// A launch runs while its sandbox is running for everybody: what listens there can be looked at
// while it is not ready. Commands are the owner's, with its limits and quotas.
#include "manager/box_launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/box_ref.h"
#include "manager/exec.h"
#include "types/timers.h"

#define POLL_MS 200
#define ASK_READY_MS 30000
#define TAIL_BYTES 400

static struct who box_launch_owner(const char *tenant)
{
	struct who owner = WHO_COVE;

	snprintf(owner.tenant, sizeof(owner.tenant), "%s", tenant);
	return owner;
}

// Runs a command to its end. *out_done: it exited with 0.
static fallible box_launch_command(struct manager *manager, const struct who *owner, const char *id,
				   struct str command, bool *out_done, struct buf *tail)
{
	auto_buf errors = BUF_INIT(TAIL_BYTES);
	auto_free char *line = mem_dup(command.at, command.len);
	struct manager_exec_spec spec = {.command = line, .wall_ms = ASK_READY_MS};
	auto_manager_exec exec = NULL;
	struct exec_result result;

	TRY(manager_exec_start(manager, owner, str_of(id), &spec, &exec));
	TRY(manager_exec_wait(exec, &result));
	*out_done = result.ending == ENDING_EXITED && !result.exit_code;
	if (*out_done || !tail)
		return OK;
	buf_clear(tail);
	TRY(manager_exec_gather(exec, tail, &errors));
	if (!tail->len)
		buf_add(tail, errors.at ? errors.at : "", errors.len);
	return OK;
}

static fallible box_launch_find_port(const struct files *files, uint64_t port, bool *out)
{
	auto_free struct fileop_port *ports = mem_new(UINT8_MAX * sizeof(*ports));
	size_t count = 0;

	*out = false;
	TRY(files_ports(files, ports, UINT8_MAX, &count));
	for (size_t i = 0; i < count && i < UINT8_MAX; i++)
		*out |= ports[i].port == port;
	return OK;
}

static fallible box_launch_ask_of(struct manager *manager, const struct who *owner, const char *id,
				  const struct launch *launch, bool *out, struct buf *tail)
{
	struct files files = {.user = "", .base = "/"};
	auto_box_ref ref = {0};

	*out = true;
	TRY(box_ref_begin(manager, owner, str_of(id), &ref));
	files.box = ref.box;
	files.deadline = loop_now(manager->loop) + ASK_READY_MS;
	if (launch->ready.at)
		return box_launch_command(manager, owner, id, launch->ready, out, tail);
	if (launch->port)
		TRY(box_launch_find_port(&files, launch->port, out));
	if (*out && launch->file.at) {
		auto_free char *path = mem_dup(launch->file.at, launch->file.len);

		TRY(files_exists(&files, path, out));
	}
	return launch->port || launch->file.at ? OK : files_probe(&files);
}

fallible box_launch_ask(struct manager *manager, const char *tenant, const char *id,
			const char *text, bool *out, struct buf *tail)
{
	struct who owner = box_launch_owner(tenant);
	auto_launch launch = {0};

	TRY(launch_read(text, &launch));
	return box_launch_ask_of(manager, &owner, id, &launch, out, tail);
}

static fallible box_launch_start(struct manager *manager, const struct who *owner, const char *id,
				 const struct launch *launch, struct manager_exec **out)
{
	size_t count = launch->start_argv ? json_count(launch->start_argv) : 0;
	auto_free const char **argv = mem_new((count + 1) * sizeof(*argv));
	auto_free char *line = launch->start.at ? mem_dup(launch->start.at, launch->start.len)
						: NULL;
	struct manager_exec_spec spec = {.command = line};

	for (size_t i = 0; i < count; i++)
		argv[i] = json_chars(json_at(launch->start_argv, i)).at;
	argv[count] = NULL;
	if (count)
		spec.argv = argv;
	return count || line ? manager_exec_start(manager, owner, str_of(id), &spec, out) : OK;
}

// The end of what the started process has written.
static fallible box_launch_tail(struct manager *manager, struct manager_exec *exec,
				struct buf *tail)
{
	struct tape *tape = manager_exec_tape(exec);
	uint64_t kept = tape_kept(tape), offset = kept > TAIL_BYTES ? kept - TAIL_BYTES : 0;
	enum tape_stream stream;
	char room[TAIL_BYTES];
	size_t got = 1;

	while (got && offset < kept) {
		TRY(tape_read(tape, &offset, &stream, room, sizeof(room), &got,
			      loop_now(manager->loop)));
		if (got > tail->ceiling - tail->len)
			got = tail->ceiling - tail->len;
		buf_add(tail, room, got);
	}
	return OK;
}

static fallible box_launch_late(struct manager *manager, struct manager_exec *exec,
				struct buf *tail)
{
	if (!tail->len && exec)
		TRY(box_launch_tail(manager, exec, tail));
	for (size_t i = 0; i < tail->len; i++)
		if ((unsigned char)tail->at[i] < ' ')
			tail->at[i] = ' ';
	return err_hint(err_new(TIMEOUT, "not_ready", "the sandbox was not ready in time"),
			"the last output: %.*s", (int)tail->len, tail->at ? tail->at : "");
}

static fallible box_launch_run(struct manager *manager, const char *tenant, const char *id,
			       const char *text)
{
	int64_t deadline = loop_now(manager->loop) + timer_ms(TIMER_LAUNCH);
	struct who owner = box_launch_owner(tenant);
	auto_buf tail = BUF_INIT(TAIL_BYTES);
	auto_manager_exec exec = NULL;
	auto_launch launch = {0};
	bool ready = false;

	TRY(launch_read(text, &launch));
	TRY(box_launch_start(manager, &owner, id, &launch, &exec), "start what the sandbox runs");
	for (;;) {
		TRY(box_launch_ask_of(manager, &owner, id, &launch, &ready, &tail));
		if (ready)
			return OK;
		if (loop_now(manager->loop) >= deadline)
			return box_launch_late(manager, exec, &tail);
		TRY(task_sleep_until(loop_now(manager->loop) + POLL_MS));
	}
}

void box_launch_open(struct manager *manager)
{
	manager->launch = box_launch_run;
}
