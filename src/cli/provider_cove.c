// The provider `cove`: sandboxes, files and runs are the daemon's. A run is a background process of
// the sandbox; the daemon marks the sandbox unsynced before it starts. Files are moved by
// cli/sync_box.
#include <string.h>

#include "base/mem.h"
#include "cli/interrupt.h"
#include "cli/jobs.h"
#include "cli/provider.h"
#include "lib/fields.h"

#define BODY_BYTES_MAX (1u << 20)

static fallible provider_cove_connect(struct sync_box *box, const struct call *call,
				      struct remote *remote)
{
	TRY(remote_open(remote, call));
	box->remote = remote;
	interrupt_arm(remote->cove);
	return OK;
}

static fallible provider_cove_did(const struct sync_box *box, enum cove_kind kind)
{
	return remote_did(box->remote, kind);
}

static void provider_cove_took(struct sync_box *box)
{
	free(box->id);
	free(box->home);
	box->id = mem_str(cove_box_id(box->box));
	box->home = mem_str(SYNC_HOME);
}

static fallible provider_cove_open(struct sync_box *box, const struct provider_owner *owner,
				   const struct cove_box_spec *make)
{
	auto_free char *name = mem_fmt("wt-%.40s", owner->identity);
	auto_free char *label = mem_fmt("worktree=%s", owner->identity);
	auto_free char *machine = mem_fmt("worktree-machine=%s", owner->machine);
	const char *labels[] = {label, machine, NULL};
	struct cove_box_spec spec = make ? *make : (struct cove_box_spec){0};
	struct cove_error *error = &box->remote->error;
	enum cove_kind kind;

	spec.labels = labels;
	if (owner->given || !make)
		kind = cove_box_find(box->remote->cove, owner->given ? owner->given : name,
				     &box->box, error);
	else
		kind = cove_box_ensure(box->remote->cove, name, &spec, &box->box, error);
	if (kind == COVE_NOT_FOUND && !owner->given && !make)
		return err_hint(
			err_new(NOT_FOUND, "no_sandbox", "'%s' has no sandbox", owner->worktree),
			"'cove sync in' makes one");
	TRY(provider_cove_did(box, kind));
	provider_cove_took(box);
	return OK;
}

static fallible provider_cove_at(struct sync_box *box, const char *id)
{
	box->box = cove_box_at(box->remote->cove, id);
	provider_cove_took(box);
	return OK;
}

static int provider_cove_on_box(void *arg, const struct cove_box_info *info)
{
	sync_ids_add(arg, info->id, info->name);
	return 0;
}

static fallible provider_cove_list(struct sync_box *box, const char *machine, struct sync_ids *out)
{
	auto_free char *label = mem_fmt("worktree-machine=%s", machine);
	const char *const labels[] = {label, NULL};

	return provider_cove_did(box, cove_box_list(box->remote->cove, labels, provider_cove_on_box,
						    out, &box->remote->error));
}

static fallible provider_cove_destroy(struct sync_box *box)
{
	struct err *err = provider_cove_did(
		box, cove_box_delete_unsynced(box->box, &box->remote->error));

	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err); // by a try whose answer was lost
		return OK;
	}
	return err;
}

static fallible provider_cove_exec(struct sync_box *box, const struct cove_command *command,
				   struct cove_output *out)
{
	return provider_cove_did(box,
				 cove_exec_output(box->box, command, out, &box->remote->error));
}

// ---------------------------------------------------------------------------------------- runs

static fallible provider_cove_start(struct provider_run *run, const struct cove_command *command,
				    const char *const *argv)
{
	struct sync_box *box = run->box;
	auto_buf body = BUF_INIT(BODY_BYTES_MAX);
	struct json_out json = json_to(&body);
	struct err *err;

	json_begin(&json, '{');
	json_put_text(&json, "sandbox", box->id);
	json_put_text(&json, "id", run->id);
	json_key(&json, "argv");
	json_begin(&json, '[');
	for (; *argv; argv++)
		json_add_text(&json, *argv);
	json_end(&json, ']');
	json_put_text(&json, "cwd", command->cwd);
	if (command->user)
		json_put_text(&json, "user", command->user);
	if (command->timeout_ms)
		json_put_int(&json, "timeoutMs", command->timeout_ms);
	TRY(fields_pairs(&json, "env", command->env));
	json_end(&json, '}');
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "too_large",
			       "the command and its variables exceed 1 MiB");
	err = remote_ask(box->remote, "POST", "/v1/agent-runs", &body, NULL, NULL);
	return err ? fields_no_cwd(err, box->remote->cove, command->cwd) : OK;
}

static struct cove_process *provider_cove_process(struct provider_run *run)
{
	if (!run->process)
		run->process = cove_process_at(run->box->box, run->id);
	return run->process;
}

static fallible provider_cove_next(struct provider_run *run, struct cove_piece *out)
{
	struct remote *remote = run->box->remote;

	TRY(remote_did(remote,
		       cove_process_next(provider_cove_process(run), -1, out, &remote->error)));
	if (!out->ended)
		return OK;
	return remote_did(remote,
			  cove_process_wait(run->process, -1, &run->result, &remote->error));
}

static fallible provider_cove_stop(struct provider_run *run, bool interrupt)
{
	struct cove_process *process = provider_cove_process(run);
	struct remote *remote = run->box->remote;

	return remote_did(remote, interrupt ? cove_process_interrupt(process, &remote->error)
					    : cove_process_kill(process, &remote->error));
}

static bool provider_cove_has(struct sync_box *box, const char *id)
{
	return jobs_has(box->box, id);
}

static fallible provider_cove_runs(struct sync_box *box, cove_process_fn *each, void *arg)
{
	return provider_cove_did(box, cove_process_list(box->box, each, arg, &box->remote->error));
}

const struct provider provider_cove = {
	.name = "cove",
	.instead =
		"--provider local --allow-local runs the command on this host, without a sandbox",
	.connect = provider_cove_connect,
	.open = provider_cove_open,
	.at = provider_cove_at,
	.list = provider_cove_list,
	.destroy = provider_cove_destroy,
	.exec = provider_cove_exec,
	.state = sync_box_state,
	.keep = sync_box_keep,
	.read = sync_box_read,
	.fetch = sync_box_fetch,
	.send = sync_box_send,
	.start = provider_cove_start,
	.next = provider_cove_next,
	.stop = provider_cove_stop,
	.has = provider_cove_has,
	.runs = provider_cove_runs,
};
