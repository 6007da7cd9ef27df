// All processes of a sandbox, as a file worker reads them in its /proc. Reading them neither wakes
// the sandbox nor counts as activity. A process is named by its pid and its start, since pids are
// reused: a signal for another start is refused.
#include <time.h>

#include "base/clock.h"
#include "codec/text.h"
#include "gateway/gateway.h"
#include "toolbox/handlers.h"
#include "toolbox/process.h"

#define ASK_MS 5000
#define BODY_MAX (8u << 20)
#define SAME_MS 1000 // startedAt is of the wall clock, which may have been set since

// From the time since boot to the wall clock.
static int64_t ps_boot_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return clock_wall_ms() - ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

// Without waking it. CONFLICT not_running.
static fallible ps_begin(struct http *x, struct box_ref *ref, struct files *files,
			 struct files_walk **out)
{
	const struct entry *entry;

	TRY(gateway_look(x, ref));
	entry = ref->entry;
	if (entry->record.state != STATE_RUNNING || entry->moving)
		return err_hint(err_new(CONFLICT, "not_running", "the sandbox does not run"),
				"start or resume it");
	*files = gateway_files(x, ref, ASK_MS);
	return box_ref_explain(files_processes(files, out));
}

struct ps_owner {
	int pid;
	struct proc_view view;
};

static void ps_find_owner(struct proc *proc, void *arg)
{
	struct ps_owner *owner = arg;
	struct proc_view view = proc_look(proc);

	if (view.pid == owner->pid && !view.ended_ms)
		owner->view = view;
}

// As ps(1): its CPU time by its life.
static double ps_percent(const struct fileop_process *process, int64_t life_ms)
{
	double percent = life_ms > 0 ? (double)process->cpu_ms * 100 / (double)life_ms : 0;

	return (double)(int64_t)(percent * 100 + 0.5) / 100;
}

static void ps_put(struct json_out *out, struct box *box, const struct fileop_process *process,
		   int64_t boot_ms)
{
	int64_t started_ms = clock_bound(boot_ms + (int64_t)process->started_ms);
	struct ps_owner owner = {.pid = process->pid};

	procs_each(box, ps_find_owner, &owner);
	json_begin(out, '{');
	json_put_int(out, "pid", process->pid);
	json_put_int(out, "ppid", process->ppid);
	json_put_str(out, "user", process->user);
	json_put_str(out, "state", (struct str){(const char *)&process->state, 1});
	json_key(out, "cpuPercent");
	json_add_double(out, ps_percent(process, clock_wall_ms() - started_ms));
	json_put_int(out, "cpuMs", (int64_t)process->cpu_ms);
	json_put_int(out, "rssBytes", (int64_t)process->rss);
	json_put_time(out, "startedAt", started_ms);
	json_put_str(out, "command", process->command);
	json_put_text(out, "processId", owner.view.id);
	json_end(out, '}');
}

static fallible ps_put_all(struct json_out *out, struct box *box, struct files_walk *walk)
{
	int64_t boot_ms = ps_boot_ms();

	for (bool more = true; more;) {
		struct fileop_process process;

		TRY(files_next_process(walk, &process, &more));
		if (more)
			ps_put(out, box, &process, boot_ms);
	}
	return OK;
}

fallible toolbox_ps_list(struct http *x)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	struct files_total total = {0};
	struct files_walk *walk = NULL;
	auto_box_ref ref = {0};
	struct files files;
	struct err *err;

	TRY(ps_begin(x, &ref, &files, &walk));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	err = ps_put_all(&out, ref.box, walk);
	if (err) {
		files_drop(walk);
		return box_ref_explain(err);
	}
	json_end(&out, ']');
	TRY(box_ref_explain(files_end(walk, &total)));
	json_put_bool(&out, "more", total.more);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// The process of that pid and start, in a list of now.
static fallible ps_find(struct files_walk *walk, uint64_t pid, int64_t started_ms,
			struct fileop_process *out)
{
	int64_t boot_ms = ps_boot_ms();

	for (bool more = true; more;) {
		int64_t away;

		TRY(files_next_process(walk, out, &more));
		away = boot_ms + (int64_t)out->started_ms - started_ms;
		if (more && (uint64_t)out->pid == pid && away < SAME_MS && away > -SAME_MS)
			return OK;
	}
	return err_new(CONFLICT, "process_gone", "no process of that pid has started then");
}

static fallible ps_read_ask(struct http *x, uint64_t *out_pid, int *out_signal, int64_t *out_start)
{
	static const char *const known[] = {"signal", "startedAt", NULL};
	struct str started = {0};
	auto_json json = NULL;

	if (!str_to_u64(x->params[1], 1, INT32_MAX, out_pid))
		return err_new(INVALID, "bad_pid", "a pid is a number from 1");
	TRY(gateway_object(x, &json));
	TRY(json_only(json, known));
	TRY(process_read_signal(json_get(json, "signal"), out_signal));
	TRY(json_str(json_get(json, "startedAt"), "startedAt", &started));
	if (!text_read_time(started, out_start))
		return err_hint(err_new(INVALID, "bad_field", "'startedAt' is not a time"),
				"send that of GET …/ps");
	return OK;
}

fallible toolbox_ps_signal(struct http *x)
{
	auto_buf body = BUF_INIT(4096);
	struct json_out out = json_to(&body);
	struct fileop_process process;
	struct files_walk *walk = NULL;
	auto_box_ref ref = {0};
	int64_t started_ms = 0;
	struct files files;
	struct err *err;
	uint64_t pid = 0;
	int signal = 0;

	TRY(ps_read_ask(x, &pid, &signal, &started_ms));
	TRY(ps_begin(x, &ref, &files, &walk));
	err = ps_find(walk, pid, started_ms, &process);
	files_drop(walk);
	if (!err)
		err = files_signal(&files, &process, signal);
	TRY(box_ref_explain(err));
	json_begin(&out, '{');
	json_put_int(&out, "pid", process.pid);
	json_put_int(&out, "signal", signal);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}
