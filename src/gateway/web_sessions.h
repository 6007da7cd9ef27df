// Sessions of the dashboard: a browser exchanges a key, or the code of a link, for a token that
// ends with its key, after 12 hours, or after 30 minutes without a request. Only the hash of a
// token is stored. A session has at most the rights of its maker, and makes no others.
#pragma once

#include "base/secret.h"
#include "codec/json.h"
#include "manager/keyring.h"
#include "store/store.h"
#include "types/who.h"

#define WEB_TOKEN_PREFIX "cvs_"
#define WEB_TOKEN_LEN (sizeof(WEB_TOKEN_PREFIX) - 1 + 64)
#define WEB_CODE_LEN 64
#define WEB_CODE_MS 60000
#define WEB_TICKET_PREFIX "cvt_"
#define WEB_TICKET_LEN (sizeof(WEB_TICKET_PREFIX) - 1 + 64)

struct web_sessions;

// All borrowed. `root` is the hash of the operator's key: sessions of another one are dropped.
struct web_sessions *web_sessions_new(struct manager *manager, struct store *store,
				      const struct keyring *ring, const uint8_t root[SECRET_HASH]);
void web_sessions_free(struct web_sessions *web); // takes NULL
// Reads the stored sessions. Blocks: call before the loop runs.
fallible web_sessions_load(struct web_sessions *web);
void web_sessions_on_end(struct web_sessions *web, void (*ended)(void *arg, const char *id),
			 void *arg);

// The rights and names that a new session gets.
struct web_ask {
	unsigned scopes;   // bits of enum who_scope that it may keep
	struct str tenant; // at != NULL: of an operator who acts as that tenant
	struct str name;   // for people
};

// The caller wipes `text`. Durable on return, but for users of the Unix socket, whose sessions end
// with the daemon. FORBIDDEN not_allowed: a session makes no other, and gets no scope that its
// maker lacks. NOT_FOUND no_tenant; EXHAUSTED too_many_sessions.
fallible web_sessions_make(struct web_sessions *web, const struct who *who,
			   const struct web_ask *ask, struct who *out,
			   char text[WEB_TOKEN_LEN + 1]);
// A code that web_sessions_redeem() takes once within WEB_CODE_MS. EXHAUSTED too_many_links.
fallible web_sessions_link(struct web_sessions *web, const struct who *who,
			   const struct web_ask *ask, char code[WEB_CODE_LEN + 1],
			   int64_t *out_expires_ms);
// Makes the session of a code; *out_known is false, and nothing is made, for a wrong or late one.
fallible web_sessions_redeem(struct web_sessions *web, struct str code, bool *out_known,
			     struct who *out, char text[WEB_TOKEN_LEN + 1]);

// A ticket for one GET of `target`, a path with its query, within WEB_CODE_MS and while the
// caller's session or key lives. EXHAUSTED too_many_tickets.
fallible web_sessions_ticket(struct web_sessions *web, const struct who *who, struct str target,
			     char text[WEB_TICKET_LEN + 1], int64_t *out_expires_ms);
// Takes the ticket, whatever becomes of it. False: it is unknown, late, or for another target.
bool web_sessions_take_ticket(struct web_sessions *web, struct str text, struct str target,
			      struct who *out);

// The rights of a session or key as they are now, of the operator and users as they were. False: it
// is over.
bool web_sessions_rights(const struct web_sessions *web, const struct who *was, struct who *out);
// The rights of a token now; counts as use. False: unknown, or over.
bool web_sessions_who(struct web_sessions *web, struct str token, struct who *out);
// NOT_FOUND no_session: none of that id that `who` may see.
fallible web_sessions_end(struct web_sessions *web, const struct who *who, struct str id);
void web_sessions_end_key(struct web_sessions *web, const char *key);
void web_sessions_end_users(struct web_sessions *web); // of the Unix socket
// Members of the object of one session.
void web_sessions_put(const struct web_sessions *web, const char *id, struct json_out *out);
// An array of those that `who` may see.
void web_sessions_put_all(const struct web_sessions *web, const struct who *who,
			  struct json_out *out);
