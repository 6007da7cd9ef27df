// Access keys: a random id and a 256-bit secret, of which only the hash is stored. The text form of
// the secret exists once, in the caller's buffer.
#include "types/key.h"

#include <stdio.h>
#include <string.h>

#define SECRET_BYTES 32
#define ID_BYTES 8

static const struct {
	const char *word;
	unsigned bit;
} scopes[] = {
#define X(name, text, what) {.word = text, .bit = WHO_MAY_##name},
	WHO_SCOPES(X)
#undef X
};

void key_make(struct key *key, char text[KEY_TEXT_LEN + 1])
{
	snprintf(key->id, sizeof(key->id), "key-");
	secret_hex(key->id + strlen(key->id), ID_BYTES);
	snprintf(text, KEY_TEXT_LEN + 1, KEY_PREFIX);
	secret_hex(text + strlen(KEY_PREFIX), SECRET_BYTES);
	secret_sha256(text, KEY_TEXT_LEN, key->hash);
}

bool key_scope(struct str word, unsigned *out_bit)
{
	for (int i = 0; i < WHO_BIT_COUNT; i++)
		if (str_is(word, scopes[i].word)) {
			*out_bit = scopes[i].bit;
			return true;
		}
	return false;
}

fallible key_read_scopes(const struct json *array, unsigned *out)
{
	unsigned set = 0, bit = 0;

	if (!array)
		return OK;
	TRY(json_want(array, "scopes", JSON_ARRAY));
	for (size_t i = 0; i < json_count(array); i++) {
		struct str word = {0};

		TRY(json_str(json_at(array, i), "scopes", &word));
		if (!key_scope(word, &bit))
			return err_hint(
				err_new(INVALID, "bad_field", "'scopes' has an unknown scope"),
				"read, make, use, templates, admin");
		set |= bit;
	}
	if (!set)
		return err_new(INVALID, "bad_field", "'scopes' must not be empty");
	*out = set;
	return OK;
}

static void key_put_time(struct json_out *out, const char *name, int64_t wall_ms)
{
	if (wall_ms)
		json_put_time(out, name, wall_ms);
	else
		json_put_text(out, name, NULL);
}

void key_put_scopes(struct json_out *out, unsigned set)
{
	json_begin(out, '[');
	for (int i = 0; i < WHO_BIT_COUNT; i++)
		if (set & scopes[i].bit)
			json_add_str(out, str_of(scopes[i].word));
	json_end(out, ']');
}

void key_put(struct json_out *out, const struct key *key)
{
	json_put_text(out, "id", key->id);
	json_put_text(out, "name", key->name[0] ? key->name : NULL);
	json_put_text(out, "tenant", key->tenant[0] ? key->tenant : NULL);
	json_key(out, "scopes");
	key_put_scopes(out, key->scopes);
	json_put_text(out, "sandbox", key->box[0] ? key->box : NULL);
	json_put_bool(out, "host", key->host);
	key_put_time(out, "createdAt", key->created_ms);
	key_put_time(out, "expiresAt", key->expires_ms);
}

struct who key_who(const struct key *key)
{
	struct who who = {
		.role = WHO_TENANT,
		.scopes = key->scopes,
		.may_host = key->host,
	};

	if (!key->tenant[0] && !key->box[0] && key->scopes & WHO_MAY_ADMIN)
		who.role = WHO_OPERATOR;
	memcpy(who.name, key->name[0] ? key->name : key->id,
	       key->name[0] ? sizeof(key->name) : sizeof(key->id));
	memcpy(who.tenant, key->tenant, sizeof(who.tenant));
	memcpy(who.box, key->box, sizeof(who.box));
	memcpy(who.key, key->id, sizeof(who.key));
	return who;
}
