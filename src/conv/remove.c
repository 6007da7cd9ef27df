// The end of a conversation. The intent was committed before; now its lease is brought to none by
// its own rules and its own deadlines, and only then anything is removed: the files, then the
// records. A crash at any point is gone on from by the next life, which reads the intent.
//
// A quarantined lease does not block it for ever: where nobody else lives in the sandbox, that is
// removed as a whole, once; a shared one never is.
#include "base/log.h"
#include "conv/book.h"
#include "conv/inner.h"
#include "conv/runs.h"

static fallible remove_begin_stop(struct conv *conv)
{
	struct hearing hearing = {
		.event = {.kind = LEASE_STOP, .reason = LEASE_FOR_SESSION_DELETE},
		.lost = {RUN_FAILED, "session_deleted", "the session was deleted"},
	};

	return keeper_hear(conv, &hearing);
}

// Tried once, whatever comes of it: the outcome is written down before the try.
static fallible remove_force(struct conv *conv)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);
	auto_err err = OK;

	conv->forced = true;
	err = book_commit(conv, &(struct book_change){.session = true});
	if (err) {
		conv->forced = false;
		return take_ptr(err);
	}
	err = seam->forget(seam->arg, &site, SEAM_END_SANDBOX);
	log_event(err ? LOG_ERROR : LOG_WARN, "session.sandbox_removed", "session", conv->id,
		  "sandbox", conv->box, "trail", err ? err_trail(err) : NULL, NULL);
	return keeper_tell(conv, LEASE_FORCE, NULL);
}

static bool is_alone(const struct conv *conv)
{
	return conv->route.kind == OWNER_SES;
}

static fallible purge(struct conv *conv)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);

	if (!conv->lone)
		TRY(seam->forget(seam->arg, &site,
				 is_alone(conv) ? SEAM_END_SANDBOX : SEAM_END_SESSION),
		    "remove the files of a session");
	runs_remove_logs(conv);
	TRY(book_drop(conv), "forget a session");
	log_event(LOG_INFO, "session.deleted", "tenant", conv->tenant, "session", conv->id, NULL);
	conv_unlist(conv);
	bell_ring(&conv->changed);
	return OK;
}

fallible remove_step(struct conv *conv, bool *out_did)
{
	switch (conv->lease.state) {
	case LEASE_STOP_NEEDED:
	case LEASE_STOPPING:
		return OK; // in its own time
	case LEASE_QUARANTINED:
		if (conv->forced || !is_alone(conv))
			return OK;
		*out_did = true;
		return remove_force(conv);
	case LEASE_NONE:
		*out_did = true;
		// What nothing was ever launched for has nothing that could be left.
		return conv->swept || conv->lease.next_generation == 1 ? purge(conv)
								       : remove_begin_stop(conv);
	default:
		*out_did = true;
		return remove_begin_stop(conv);
	}
}
