// A registry as one pull sees it: its mirrors, the credential of who asks, and the token that was
// got with it. Tokens are in memory only.
#pragma once

#include "registry/fetch.h"
#include "types/reference.h"

struct registry_credential {
	char *username, *password; // NULL: none
	char *identity;		   // an identity token instead
};
void registry_credential_done(struct registry_credential *credential); // wipes

struct registry_options {
	struct fetch_rules rules;
	struct str mirrors; // "HOST=URL[/PREFIX], …"
	const struct reference *reference;
	const struct registry_credential *credential; // for that host; NULL: as `find` says
	// The credential for a registry or a mirror that asks for one; *out stays empty if there is
	// none. NULL: there is none.
	fallible (*find)(void *arg, const char *host, struct registry_credential *out);
	void *arg;
};

struct registry;

// Everything is copied but the rules' outbound and lists. No I/O.
struct registry *registry_new(const struct registry_options *options);
void registry_free(struct registry *registry); // takes NULL
#define auto_registry on_exit_call(auto_registry_) struct registry *
static inline void auto_registry_(struct registry **registry)
{
	registry_free(*registry);
}

// GET /v2/PATH/KIND/NAME: "manifests" or "blobs", a tag or a digest, from that byte on; the status
// is 200, or 206 for a part. Mirrors are tried in order before the registry itself; `tries` of that
// one, with pauses, if it may help. Waits. NOT_FOUND no_image; FORBIDDEN registry_denied,
// not_global; BAD_PEER registry_unreachable, tls_untrusted; TIMEOUT.
fallible registry_get(struct registry *registry, const char *kind, const char *name, uint64_t from,
		      int tries, struct fetch **out);
// True if asking again may help.
bool registry_may_pass(const struct err *err);
// The pause before try n, 1 to 16 s.
#define REGISTRY_TRIES 5
int64_t registry_pause_ms(int attempt);
// A whole document of at most `max` bytes. TOO_LARGE archive_too_large.
fallible registry_read(struct fetch *fetch, size_t max, struct buf *out);
// Whether the credential is accepted: GET /v2/. The path of the reference is empty. FORBIDDEN
// registry_denied.
fallible registry_try(struct registry *registry);
// Asks the first mirror for anything: OK if it answers, also that it wants a credential.
fallible registry_try_mirror(struct registry *registry);
