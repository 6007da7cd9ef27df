// One global counter of large bodies and messages, and one per account (fair_share). Bytes up to
// MEMORY_QUOTA_SMALL count as zero. The counter always equals the sum of all holders' `held`.
#include "http/memory_quota.h"

// A plain static: only the loop's thread uses it.
static size_t sum;

static size_t memory_quota_counted(size_t bytes)
{
	return bytes > MEMORY_QUOTA_SMALL ? bytes : 0;
}

fallible memory_quota_hold(struct memory_quota *memory_quota, size_t bytes)
{
	size_t others = sum - memory_quota->held;

	bytes = memory_quota_counted(bytes);
	if (bytes > memory_quota->held &&
	    (others > MEMORY_QUOTA_MAX || bytes > MEMORY_QUOTA_MAX - others))
		return err_hint(err_new(EXHAUSTED, "too_much_at_once",
					"the server holds too many large requests at once"),
				"try again in a moment, or send files as bodies of their own");
	if (bytes > memory_quota->held && memory_quota->share &&
	    !fair_share_is_fair(memory_quota->share,
				memory_quota->share->held - memory_quota->held + bytes,
				others + bytes, MEMORY_QUOTA_MAX))
		return err_hint(err_new(EXHAUSTED, "fair_share_exceeded",
					"you send too many large requests at once, and others "
					"need room"),
				"try again in a moment, or send files as bodies of their own");
	memory_quota_move(memory_quota, bytes);
	return OK;
}

void memory_quota_move(struct memory_quota *memory_quota, size_t bytes)
{
	sum = sum - memory_quota->held + memory_quota_counted(bytes);
	if (memory_quota->share)
		memory_quota->share->held += memory_quota_counted(bytes) - memory_quota->held;
	memory_quota->held = memory_quota_counted(bytes);
}

void memory_quota_join(struct memory_quota *memory_quota, struct fair_share *fair_share)
{
	if (memory_quota->share)
		memory_quota->share->held -= memory_quota->held;
	if (fair_share)
		fair_share->held += memory_quota->held;
	memory_quota->share = fair_share;
}

void memory_quota_drop(struct memory_quota *memory_quota)
{
	memory_quota_move(memory_quota, 0);
}

size_t memory_quota_sum(void)
{
	return sum;
}
