// The owner of a sandbox. The id of an agent session's sandbox is a pure function of its owner:
// equal owners get equal ids, on every host and after every restart. It is derived once, when the
// session is made, stored with it, and never derived again.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"

#define OWNER_PART_MAX 256 // bytes of an org, user, bot or session id
#define OWNER_LABEL_MAX 128
#define OWNER_KEY_MAX (5 * OWNER_PART_MAX) // bytes of the text that is hashed
#define OWNER_LEGACY_MAX 256
#define OWNER_SESSION_LEN 40 // "session_" and 32 hex digits: made by cove

enum owner_class { OWNER_STANDARD, OWNER_SMALL, OWNER_CLASSES };
const char *owner_class_word(enum owner_class class); // "standard"

// clang-format off
//	  kind  prefix  size class
#define OWNER_KINDS(X) \
	X(ORG,  "org",  STANDARD) \
	X(USR,  "usr",  STANDARD) \
	X(BOT,  "bot",  STANDARD) \
	X(UBT,  "ubt",  STANDARD) \
	X(SES,  "ses",  SMALL)
// clang-format on
enum owner_kind {
#define X(kind, prefix, class) OWNER_##kind,
	OWNER_KINDS(X)
#undef X
		OWNER_LEGACY,
};
const char *owner_kind_word(enum owner_kind kind); // "org"; "legacy"

// As the client named it. Absent parts have len 0; user and session are always present.
struct owner {
	struct str org, user, bot, session;
};
// INVALID invalid_owner, naming the part: empty, longer than OWNER_PART_MAX, not UTF-8, with a
// control character, "_" at an end, or "__" within.
fallible owner_check(const struct owner *owner);
fallible owner_check_part(struct str part, const char *what); // one that is given

// Whether a list of organisations ("acme, beta", or "*" for all) contains this owner's. Compared
// byte for byte; blanks around an entry are ignored.
bool owner_is_chosen(struct str list, struct str org);

// The sandbox of an agent session.
struct owner_route {
	enum owner_kind kind;
	char key[OWNER_KEY_MAX + 1];   // the hashed text, without the tag
	char tag[OWNER_LABEL_MAX + 1]; // "": none; never of OWNER_SES
	char id[ID_BOX_LEN + 1];
};
// The owner was checked. `tag` may be empty; it does not change isolated ids.
void owner_derive(const struct owner *owner, bool isolated, struct str tag,
		  struct owner_route *out);
bool owner_is_label(struct str tag); // one that may be configured
// The second slot of a shared sandbox that is wedged.
void owner_slot(const char *first, char out[ID_BOX_LEN + 1]);

// ^(org|usr|bot|ubt|ses)-[0-9a-f]{48}$, and nothing else.
bool owner_is_id(struct str id, enum owner_kind *out);
// Two or three parts joined by "__", as older versions stored them: from storage only.
bool owner_is_legacy(struct str id);
// The id of such a sandbox: never the legacy text itself.
void owner_legacy_id(struct str legacy, char out[ID_BOX_LEN + 1]);
// By the prefix alone. False: no id of this family, which has no class.
bool owner_class_of(struct str id, enum owner_class *out);

void owner_new_session(char out[OWNER_SESSION_LEN + 1]); // 128 random bits
// The name of a session's directories: the same form as the id of an isolated sandbox.
void owner_directory(struct str session, char out[ID_BOX_LEN + 1]);
