// Puts secret values into requests on the way out of a box (in place of a placeholder, as a header,
// as a query parameter), and replaces values by placeholders on the way back: only in inspected
// requests, to hosts that the secret names.
#pragma once

#include "base/buf.h"
#include "codec/http1.h"
#include "egress/egress.h"
#include "types/policy.h"

#define SECRETS_PIECE (64 * 1024)
#define SECRETS_HEAD_MAX (2 * HTTP1_HEAD_MAX)
#define SECRETS_BASIC_MAX 4 // Basic credentials with a placeholder in one request
// Shorter values are not masked: they can be guessed, and occur by chance.
#define SECRETS_MASK_MIN 6

// The secrets of a policy, referenced while an exchange needs them.
struct secrets;

struct conn;

// The secrets that the host of a connection may get. Values sent inside other data are added.
struct secrets_set {
	struct secrets *of;
	struct conn *conn; // its ledger row gets the name of each secret before the value is sent
	size_t count, basic_count;
	uint64_t used; // bits: those of `at` that were put into this request
	struct secrets_pair {
		struct str value, placeholder;
		const struct policy_secret *secret; // NULL: of `basic`
	} at[POLICY_SECRETS_MAX], basic[SECRETS_BASIC_MAX];
};
void secrets_set_init(struct secrets_set *set, struct conn *conn); // for the host conn->name
void secrets_set_done(struct secrets_set *set);			   // wipes

// Processes as much of `in` as is decidable, up to about a piece: replaces every placeholder by its
// value, or every value by its placeholder. is_end: nothing follows. Returns the bytes used. Wipe
// the result.
size_t secrets_substitute(struct secrets_set *set, struct str in, bool is_end, struct buf *out);
size_t secrets_mask(const struct secrets_set *set, struct str in, bool is_end, struct buf *out);

struct secrets_head {
	enum { SECRETS_AS_IS, SECRETS_LENGTH, SECRETS_CHUNKED, SECRETS_CLOSE } framing;
	uint64_t length;
	bool identity; // request an uncompressed reply
	bool no_offer; // remove offers of another protocol
};
// Writes the head of a request with the values, also inside Basic credentials; a value with
// characters that are invalid in its place is not substituted. Headers and query parameters of the
// same name as a secret's are replaced by it.
void secrets_write_request(struct secrets_set *set, const struct http1_head *head,
			   const struct secrets_head *how, struct buf *out);
// Writes the head of a reply, whose first line is `line`.
void secrets_write_reply(const struct secrets_set *set, const struct http1_head *head,
			 const char *line, const struct secrets_head *how, struct buf *out);
