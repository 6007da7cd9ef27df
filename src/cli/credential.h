// Credentials of registries, from the files of docker and of containers' tools.
#pragma once

#include "base/err.h"
#include "base/str.h"

struct credential {
	char *username, *password, *identity; // NULL: none
};
void credential_done(struct credential *credential); // wipes
#define auto_credential on_exit_call(credential_done) struct credential

// The credential for a registry: of $REGISTRY_AUTH_FILE, $DOCKER_CONFIG/config.json (or that of
// ~/.docker) and containers' auth.json, by `credHelpers`, `credsStore` and `auths`. A helper,
// docker-credential-NAME, runs as this user. No file, or nothing for that host: all NULL.
fallible credential_find(const char *host, struct credential *out);
// One file's text; *out_helper is the helper to ask, or NULL. No I/O. INVALID bad_credentials.
fallible credential_read(struct str text, const char *host, struct credential *out,
			 char **out_helper);
// A helper's answer: {"Username", "Secret"}.
fallible credential_answer(struct str text, struct credential *out);
