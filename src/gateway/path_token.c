// Tokens are HMACs over the box's id and its rotation counter, compared in constant time. A box
// that does not exist is compared with a fixed id, so that the time does not show whether it
// exists.
#include "gateway/path_token.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/text.h"
#include "types/file_url.h"
#include "types/preview_token.h"

#define TOKEN_PATH "/v1/t/"
#define SANDBOXES "/sandboxes/"
#define TOOLBOX "/daytona/toolbox/"

void path_token_write(const uint8_t key[SECRET_HASH], const char *box, uint64_t turn,
		      char out[PATH_TOKEN_LEN + 1])
{
	auto_buf hex = BUF_INIT(2 * SECRET_HASH);
	uint8_t mac[SECRET_HASH];
	char text[ID_BOX_LEN + 32];

	snprintf(text, sizeof(text), "%s", box);
	if (turn)
		snprintf(text, sizeof(text), "%s/%llu", box, (unsigned long long)turn);
	secret_hmac(key, text, strlen(text), mac);
	text_hex(&hex, mac, sizeof(mac));
	snprintf(out, PATH_TOKEN_LEN + 1, PATH_TOKEN_PREFIX "%s", hex.at);
}

static bool is_token_of(const uint8_t key[SECRET_HASH], struct str token, const char *box,
			uint64_t turn)
{
	char right[PATH_TOKEN_LEN + 1];
	bool same;

	path_token_write(key, box, turn, right);
	same = token.len == PATH_TOKEN_LEN && secret_equal(token.at, right, PATH_TOKEN_LEN);
	secret_wipe(right, sizeof(right));
	return same;
}

static const struct who *path_token_who(struct http *x, const struct entry *entry)
{
	struct who *who = arena_take(x->arena, sizeof(*who));

	*who = (struct who){.role = WHO_BOX, .name = "box"};
	snprintf(who->tenant, sizeof(who->tenant), "%s", entry->record.tenant);
	snprintf(who->box, sizeof(who->box), "%s", entry->record.id);
	return who;
}

const struct who *path_token_toolbox(const uint8_t key[SECRET_HASH], const struct manager *manager,
				     struct http *x)
{
	struct str given = http_field(x, PREVIEW_TOKEN_FIELD), rest = x->url.path, name;
	char token[PREVIEW_TOKEN_BOX_LEN + 1];
	const struct entry *entry;
	bool right;

	if (!given.len)
		given = http_query(x, PREVIEW_TOKEN_QUERY);
	if (!given.len || !str_starts(rest, TOOLBOX))
		return NULL;
	rest = str_skip(rest, strlen(TOOLBOX));
	str_cut(&rest, '/', &name);
	entry = table_find(manager, "", name);
	preview_token_of_box(key, entry ? entry->record.id : "",
			     entry ? &entry->record.labels : &(struct env_map){0}, token);
	right = preview_token_is_box(given, token) && entry;
	secret_wipe(token, sizeof(token));
	return right ? path_token_who(x, entry) : NULL;
}

const struct who *path_token_file(const uint8_t key[SECRET_HASH], const struct manager *manager,
				  struct http *x)
{
	struct file_url url = {.method = x->head.method, .signature = http_query(x, "signature")};
	struct str rest = x->url.path, name;
	char secret[FILE_URL_KEY_LEN + 1];
	const struct entry *entry;
	bool right;

	if (!url.signature.len || !str_starts(rest, TOOLBOX))
		return NULL;
	rest = str_skip(rest, strlen(TOOLBOX));
	str_cut(&rest, '/', &name);
	if (!(str_is(url.method, "GET") && str_is(rest, "files/download")) &&
	    !(str_is(url.method, "POST") && str_is(rest, "files/upload-v2")))
		return NULL;
	url.path = http_query(x, "path");
	url.expires = http_query(x, "expires");
	entry = table_find(manager, "", name);
	file_url_key(key, entry ? entry->record.id : "",
		     entry ? &entry->record.labels : &(struct env_map){0}, secret);
	right = file_url_is_good(secret, &url, clock_wall_ms() / 1000) && entry;
	secret_wipe(secret, sizeof(secret));
	return right ? path_token_who(x, entry) : NULL;
}

enum path_token path_token_take(const uint8_t key[SECRET_HASH], const struct manager *manager,
				struct http *x)
{
	struct str rest = x->url.path, token, name;
	const struct entry *entry;
	bool right;

	if (!str_starts(rest, TOKEN_PATH))
		return PATH_TOKEN_NONE;
	rest = str_skip(rest, strlen(TOKEN_PATH));
	str_cut(&rest, '/', &token);
	if (!rest.at || !str_starts((struct str){rest.at - 1, rest.len + 1}, SANDBOXES)) {
		x->url.path = STR(TOKEN_PATH "-");
		return PATH_TOKEN_WRONG;
	}
	rest = str_skip(rest, strlen(SANDBOXES) - 1);
	str_cut(&rest, '/', &name);
	entry = table_find(manager, "", name);
	right = is_token_of(key, token, entry ? entry->record.id : "box-",
			    entry ? entry->record.retention.token_turn : 0) &&
		entry;
	x->url.path = str_of(arena_fmt(x->arena, "/v1" SANDBOXES "%.*s%s%.*s",
				       right ? ID_BOX_LEN : (int)name.len,
				       right ? entry->record.id : name.at, rest.at ? "/" : "",
				       rest.at ? (int)rest.len : 0, rest.at ? rest.at : ""));
	if (!right)
		return PATH_TOKEN_WRONG;
	x->principal = path_token_who(x, entry);
	return PATH_TOKEN_GOOD;
}
