// Fifty cold starts that see the same two free gigabytes must not all take them: starts in one
// sandbox are measured one after another, and each that is accepted has the threshold of the host's
// file system promised to it, in the same turn of the loop, until its first run is over or nobody
// has used it for a while. By then what it took can be seen.
//
// Nothing is destroyed for want of space. Only a sandbox whose own file system proves to be of no
// use is rebuilt, and only if what lies below it is sound.
#include "conv/admission.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "conv/faults.h"
#include "model/timers.h"

#define SIBLINGS_MS 5000
#define SIBLINGS_STEP_MS 10

struct admission_judgement admission_judge(const struct admission_facts *facts)
{
	bool proves = facts->errnum == ENOSPC || facts->errnum == EIO || facts->errnum == EROFS;
	bool low;

	if (proves)
		return (struct admission_judgement){ADMISSION_UNUSABLE, facts->host_sound};
	if (facts->no_workspace || facts->control_broken || facts->hung)
		return (struct admission_judgement){ADMISSION_FAILED, facts->host_sound};
	if (!facts->measured)
		return (struct admission_judgement){ADMISSION_UNKNOWN, false};
	low = facts->available < facts->threshold || facts->host_free < facts->host_floor ||
	      (facts->inodes &&
	       facts->inodes_free < facts->inodes / 100 * ADMISSION_INODES_PERCENT);
	if (!low)
		return (struct admission_judgement){ADMISSION_ACCEPT, false};
	return (struct admission_judgement){facts->cleaned ? ADMISSION_REJECTED : ADMISSION_CLEAN,
					    false};
}

int admission_proof(const struct err *err)
{
	if (strcmp(err_reason(err), "read_only") == 0)
		return EROFS;
	return strcmp(err_reason(err), "io_error") == 0 ? EIO : 0;
}

// Promises that nobody came for.
static void forget_old(struct convs *convs)
{
	int64_t now = loop_now(convs->loop);

	list_each (at, &convs->all) {
		struct conv *conv = link_of(at, struct conv, link);

		if (conv->reserved && now - conv->reserved_at >= timer_ms(TIMER_IDLE))
			conv_unreserve(conv);
	}
}

static uint64_t less(uint64_t from, uint64_t take)
{
	return from > take ? from - take : 0;
}

static fallible admission_measure(struct conv *conv, struct admission_facts *facts)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);
	struct seam_room room = {0};
	uint64_t promised;
	struct err *err = seam->capacity(seam->arg, &site, &room);

	// What lies below is measured first: of a host that was not, nothing is known to be sound.
	facts->host_free = room.host_free;
	facts->host_sound = room.host_free > facts->host_floor;
	if (!err)
		err = faults_meet_until(FAULT_CAPACITY, conv->id,
					loop_now(conv->convs->loop) + timer_ms(TIMER_CAPACITY));
	if (err && err_kind(err) == ERR_NO_SPACE)
		facts->errnum = ENOSPC;
	if (err)
		return err;
	// After the wait: whoever was accepted meanwhile is counted in.
	promised = conv->convs->reserved - conv->reserved;
	facts->measured = true;
	facts->available = less(room.host_free, promised);
	if (!room.cold && room.free < facts->available)
		facts->available = room.free;
	facts->inodes = room.cold ? 0 : room.inodes;
	facts->inodes_free = room.inodes_free;
	return OK;
}

static bool admission_is_used(const char *directory, void *of)
{
	const struct conv *asking = of;

	if (strcmp(directory, asking->directory) == 0)
		return true;
	list_each (at, &asking->convs->all) {
		const struct conv *conv = link_of(at, struct conv, link);

		if (strcmp(conv->directory, directory) == 0)
			return conv->lease.state != LEASE_NONE || conv->run_count > 0;
	}
	return false;
}

static void admission_clean(struct conv *conv, struct admission_facts *facts,
			    struct seam_cleaned *cleaned)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);

	seam->clean(seam->arg, &site, admission_is_used, conv, cleaned);
	facts->cleaned = true;
	facts->errnum = cleaned->errnum;
	conv->convs->cleaned += cleaned->cleaned;
	conv->convs->skipped += cleaned->skipped;
}

static unsigned long long mb(uint64_t bytes)
{
	return bytes >> 20;
}

static fallible admission_refuse(struct conv *conv, const struct admission_facts *facts,
				 const struct seam_cleaned *cleaned, enum admission_verdict verdict)
{
	conv->convs->rejected++;
	conv->convs->refusal = conv->room = (struct conv_refusal){
		facts->available, facts->threshold, cleaned->cleaned, cleaned->skipped};
	if (verdict == ADMISSION_UNKNOWN)
		return err_new(UNAVAILABLE, "capacity_unknown",
			       "the free space of the sandbox could not be measured");
	if (verdict == ADMISSION_UNUSABLE)
		return err_new(NO_SPACE, "filesystem_unusable",
			       "the file system of the sandbox cannot be used");
	return err_hint(err_new(NO_SPACE, "capacity_rejected",
				"%llu MB are free, and a new workspace needs %llu",
				mb(facts->available), mb(facts->threshold)),
			"delete sessions or files that nobody needs");
}

static bool is_sibling(const struct conv *conv, const struct conv *other)
{
	return other != conv && strcmp(other->box, conv->box) == 0;
}

// Runs of others in it end first, each by its own keeper, and are told why.
static void end_siblings(struct conv *conv)
{
	struct loop *loop = conv->convs->loop;
	int64_t deadline = loop_now(loop) + SIBLINGS_MS;
	bool left = true;

	list_each (at, &conv->convs->all) {
		struct conv *other = link_of(at, struct conv, link);

		if (!is_sibling(conv, other) || !conv_running(other))
			continue;
		other->destroyed = true;
		bell_ring(&other->wake);
	}
	while (left && loop_now(loop) < deadline) {
		left = false;
		list_each (at, &conv->convs->all) {
			struct conv *other = link_of(at, struct conv, link);

			left |= is_sibling(conv, other) && other->destroyed && conv_running(other);
		}
		if (left)
			err_free(task_sleep_until(loop_now(loop) + SIBLINGS_STEP_MS));
	}
}

// A sandbox that proves to be of no use is removed: whoever wants it next has a fresh one.
static void admission_rebuild(struct conv *conv)
{
	const struct seam *seam = conv->convs->seam;
	struct seam_site site = conv_site(conv);
	auto_err err = OK;

	end_siblings(conv);
	log_event(LOG_WARN, "sandbox.unusable", "sandbox", conv->box, "session", conv->id, NULL);
	err = seam->forget(seam->arg, &site, SEAM_END_SANDBOX);
	list_each (at, &conv->convs->all) {
		struct conv *other = link_of(at, struct conv, link);

		if (strcmp(other->box, conv->box) == 0) {
			other->prepared = false;
			bell_ring(&other->wake);
		}
	}
	if (err)
		log_event(LOG_ERROR, "sandbox.not_rebuilt", "sandbox", conv->box, "trail",
			  err_trail(err), NULL);
}

static fallible conv_admission_ask(struct conv *conv)
{
	struct admission_facts facts = {
		.threshold = conv->convs->threshold,
		.host_floor = conv->convs->threshold / 8,
		.host_sound = true,
	};
	struct seam_cleaned cleaned = {0};
	struct admission_judgement judgement;
	auto_err err = admission_measure(conv, &facts);

	if (err)
		log_event(LOG_WARN, "capacity.unknown", "session", conv->id, "trail",
			  err_trail(err), NULL);
	judgement = admission_judge(&facts);
	if (judgement.verdict == ADMISSION_CLEAN) {
		admission_clean(conv, &facts, &cleaned);
		err_free(err);
		err = admission_measure(conv, &facts);
		facts.measured &= !err;
		judgement = admission_judge(&facts);
	}
	if (judgement.verdict == ADMISSION_UNUSABLE && judgement.may_destroy)
		admission_rebuild(conv);
	if (judgement.verdict != ADMISSION_ACCEPT)
		return admission_refuse(conv, &facts, &cleaned, judgement.verdict);
	conv_unreserve(conv);
	conv->reserved = facts.threshold;
	conv->reserved_at = loop_now(conv->convs->loop);
	conv->convs->reserved += conv->reserved;
	if (cleaned.cleaned || cleaned.skipped)
		conv->room = (struct conv_refusal){facts.available, facts.threshold,
						   cleaned.cleaned, cleaned.skipped};
	return OK;
}

fallible admission_prepared(struct conv *conv, struct err *failed)
{
	struct admission_facts facts = {
		.no_workspace = true,
		.errnum = failed ? admission_proof(failed) : 0,
		.host_floor = conv->convs->threshold / 8,
	};

	if (!facts.errnum)
		return failed;
	err_free(admission_measure(conv, &facts));
	if (!admission_judge(&facts).may_destroy)
		return failed;
	err_free(failed);
	admission_rebuild(conv);
	return err_new(UNAVAILABLE, "filesystem_unusable",
		       "the file system of the sandbox could not be used, and was made anew");
}

// Somebody else's cold start in the same sandbox is at it. Of different sandboxes each is measured
// by itself, and what all of them take from the host is counted when each is decided.
static bool is_measured(const struct conv *conv)
{
	list_each (at, &conv->convs->all) {
		const struct conv *other = link_of(at, struct conv, link);

		if (other->admitting && (other == conv || is_sibling(conv, other)))
			return true;
	}
	return false;
}

fallible admission_ask(struct conv *conv)
{
	struct convs *convs = conv->convs;
	struct err *err;

	while (is_measured(conv))
		TRY(bell_wait(&convs->admitted, CLOCK_NEVER), "wait for other cold starts");
	conv_hold(conv);
	conv->admitting = true;
	forget_old(convs);
	convs->refusal = conv->room = (struct conv_refusal){0};
	err = conv_admission_ask(conv);
	conv->admitting = false;
	bell_ring(&convs->admitted);
	conv_drop(conv);
	return err;
}
