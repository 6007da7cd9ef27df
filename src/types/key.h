// An access key: its scopes and lifetime. The secret is shown once, when it is made; only its hash
// is stored.
#pragma once

#include "base/secret.h"
#include "codec/json.h"
#include "types/who.h"

#define KEY_PREFIX "cove_"
#define KEY_TEXT_LEN (sizeof(KEY_PREFIX) - 1 + 64)

struct key {
	char id[WHO_KEY_LEN + 1];
	char name[WHO_NAME_MAX + 1];	 // for people; may be ""
	char tenant[WHO_TENANT_MAX + 1]; // "": of the operator
	char box[ID_BOX_LEN + 1];	 // "": any of the tenant's
	unsigned scopes;
	bool host;			// may start from `host`, regardless of its tenant
	int64_t created_ms, expires_ms; // wall clock; expires 0: never
	uint8_t hash[SECRET_HASH];	// of the secret
};

// A new id and a new secret, whose hash is set. The caller wipes the text.
void key_make(struct key *key, char text[KEY_TEXT_LEN + 1]);
// "read", "make", …; false: there is no such scope.
bool key_scope(struct str word, unsigned *out_bit);
// Reads an array of scopes. NULL: *out is unchanged. INVALID bad_field.
fallible key_read_scopes(const struct json *array, unsigned *out);
void key_put_scopes(struct json_out *out, unsigned set);   // an array
void key_put(struct json_out *out, const struct key *key); // members of an object
// The principal of a key; an operator's key with the scope `admin` equals the operator's own.
struct who key_who(const struct key *key);
