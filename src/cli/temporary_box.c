// Creates a sandbox for one verb and removes it afterwards, also after errors and signals. Without
// a running daemon it starts one for the same time (cli/embedded).
#include "cli/temporary_box.h"

#include <stdlib.h>

#include "cli/embedded.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/status.h"
#include "lib/private.h"

// Connects to the daemon, or starts one when there is none.
static fallible temporary_box_reach(struct call *call, struct remote *remote,
				    struct embedded **out_alone)
{
	const char *url = getenv("COVE_URL");
	bool named = call_has(call, OPT_URL) || (url && *url);
	struct err *err = remote_open(remote, call);

	named |= !err && remote->cove->by_context;
	if (!err && !named)
		err = remote_ask(remote, "GET", "/v1/health", NULL, NULL, NULL);
	if (!err || named || err_kind(err) != ERR_UNAVAILABLE)
		return err;
	remote_close(remote);
	err_free(err);
	if (call_has(call, OPT_KEEP))
		return err_hint(err_new(UNAVAILABLE, "no_daemon",
					"no daemon is running that could keep the sandbox"),
				"start one with 'cove serve', or leave --keep out");
	TRY(embedded_start(remote_data(call), out_alone));
	return embedded_remote(*out_alone, remote);
}

// Also after an error or a signal: with a second client, which no signal cancels.
static void remove_box(const struct remote *remote, const char *id)
{
	auto_remote fresh = {0};
	auto_cove_box box = NULL;
	auto_err err = remote_open_at(&fresh, cove_url(remote->cove), cove_token(remote->cove));

	if (!err) {
		box = cove_box_at(fresh.cove, id);
		err = remote_did(&fresh, cove_box_delete(box, &fresh.error));
	}
	if (err && err_kind(err) != ERR_NOT_FOUND)
		print_note("sandbox %s could not be removed: %s", id, err_message(err));
}

static fallible in_a_box(struct call *call, struct remote *remote, const struct cove_box_spec *spec,
			 temporary_box_fn *work, void *arg)
{
	auto_cove_box box = NULL;
	struct err *err;

	// Not interruptible: a box whose id was not read could not be removed.
	interrupt_shield(true);
	err = remote_did(remote, cove_box_create(remote->cove, spec, &box, &remote->error));
	interrupt_shield(false);
	if (err)
		return err;
	err = status_end(call, work(call, remote, box, arg));
	if (!call_has(call, OPT_KEEP))
		remove_box(remote, cove_box_id(box));
	else if (!call_has(call, OPT_QUIET))
		print_note("kept %s", cove_box_id(box));
	return err;
}

static fallible with_daemon(struct call *call, const struct cove_box_spec *spec,
			    temporary_box_fn *work, void *arg, struct embedded **embedded)
{
	auto_remote remote = {0};
	struct err *err;

	interrupt_arm(NULL);
	err = temporary_box_reach(call, &remote, embedded);
	remote.call = call;
	interrupt_arm(err ? NULL : remote.cove);
	if (!err && interrupt_signal())
		err = err_new(CANCELLED, "interrupted", "interrupted");
	if (!err)
		err = in_a_box(call, &remote, spec, work, arg);
	interrupt_arm(NULL);
	return err;
}

fallible temporary_box_run(struct call *call, const struct cove_box_spec *spec,
			   temporary_box_fn *work, void *arg)
{
	struct embedded *embedded = NULL;
	struct err *err = with_daemon(call, spec, work, arg, &embedded);

	if (err && interrupt_signal())
		call->exit = STATUS_SIGNALED + interrupt_signal();
	if (embedded)
		embedded_stop(embedded);
	return err;
}
