#include "http/hoard.h"

// One thread turns the loop, and one process serves one set of clients.
static size_t sum;

static size_t counted(size_t bytes)
{
	return bytes > HOARD_SMALL ? bytes : 0;
}

fallible hoard_hold(struct hoard *hoard, size_t bytes)
{
	size_t others = sum - hoard->held;

	bytes = counted(bytes);
	if (bytes > hoard->held && (others > HOARD_MAX || bytes > HOARD_MAX - others))
		return err_hint(err_new(EXHAUSTED, "too_much_at_once",
					"the server holds too many large requests at once"),
				"try again in a moment, or send files as bodies of their own");
	if (bytes > hoard->held && hoard->share &&
	    !share_is_fair(hoard->share, hoard->share->held - hoard->held + bytes, others + bytes,
			   HOARD_MAX))
		return err_hint(err_new(EXHAUSTED, "share_spent",
					"you send too many large requests at once, and others "
					"need room"),
				"try again in a moment, or send files as bodies of their own");
	hoard_move(hoard, bytes);
	return OK;
}

void hoard_move(struct hoard *hoard, size_t bytes)
{
	sum = sum - hoard->held + counted(bytes);
	if (hoard->share)
		hoard->share->held += counted(bytes) - hoard->held;
	hoard->held = counted(bytes);
}

void hoard_join(struct hoard *hoard, struct share *share)
{
	if (hoard->share)
		hoard->share->held -= hoard->held;
	if (share)
		share->held += hoard->held;
	hoard->share = share;
}

void hoard_drop(struct hoard *hoard)
{
	hoard_move(hoard, 0);
}

size_t hoard_sum(void)
{
	return sum;
}
