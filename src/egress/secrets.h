// Placeholders become values on their way out of a box, and values placeholders on their way back:
// in requests that are inspected, to hosts that the secret names, and nowhere else.
#pragma once

#include "base/buf.h"
#include "codec/http1.h"
#include "egress/egress.h"
#include "types/policy.h"

#define SECRETS_PIECE (64 * 1024)
#define SECRETS_HEAD_MAX (2 * HTTP1_HEAD_MAX)
#define SECRETS_BASIC_MAX 4 // credentials with a placeholder, of one request
// A shorter value is no secret to who can guess, and stands by chance in whatever is sent.
#define SECRETS_MASK_MIN 6

// The secrets of a policy as it was, for as long as somebody needs them.
struct secrets;

// Those of them that one host may have. Values that were sent inside of something else are added.
struct secrets_set {
	struct secrets *of;
	size_t count, basic_count;
	struct secrets_pair {
		struct str value, placeholder;
	} at[POLICY_SECRETS_MAX], basic[SECRETS_BASIC_MAX];
};
void secrets_set_init(struct secrets_set *set, struct egress_box *box, const char *name);
void secrets_set_done(struct secrets_set *set); // wipes

// As much of `in` as can be told, up to about a piece: every placeholder replaced by its value, or
// every value by its placeholder. is_end: nothing follows. What was used of it. Wipe the result.
size_t secrets_swap(const struct secrets_set *set, struct str in, bool is_end, struct buf *out);
size_t secrets_mask(const struct secrets_set *set, struct str in, bool is_end, struct buf *out);

struct secrets_head {
	enum { SECRETS_AS_IS, SECRETS_LENGTH, SECRETS_CHUNKED, SECRETS_CLOSE } framing;
	uint64_t length;
	bool identity; // it asks for what is not compressed
	bool no_offer; // of another protocol
};
// The head of a request, with the values, also inside of Basic credentials; a value that could not
// stand in its place is not put there.
void secrets_write_request(struct secrets_set *set, const struct http1_head *head,
			   const struct secrets_head *how, struct buf *out);
// The head of a reply, whose first line is at `line`.
void secrets_write_reply(const struct secrets_set *set, const struct http1_head *head,
			 const char *line, const struct secrets_head *how, struct buf *out);
