// Substitution and masking of secrets. A placeholder has one form and length, so it is found by its
// prefix and then compared as a whole. Values exist only in the policy; the sender wipes every
// buffer that held one.
//
// A policy may be replaced during an exchange: each exchange keeps the secrets that it began with,
// so that it masks what it sent.
#include "egress/secrets.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/base64.h"
#include "codec/text.h"
#include "egress/private.h"

#define MARK "cove-secret-"
#define MARK_LEN (sizeof(MARK) - 1)
#define BASIC_MAX 16384
#define LOOK_MAX 512 // bytes of a value's beginning that are compared at the end of a piece

// ----------------------------------------------------------------------------------- ownership

struct secrets {
	uint32_t holders;
	struct policy policy;
};

void secrets_free(struct secrets *secrets)
{
	if (!secrets || --secrets->holders)
		return;
	policy_done(&secrets->policy);
	free(secrets);
}

static struct secrets *secrets_ref(struct egress_box *box)
{
	if (!box->secrets) {
		box->secrets = mem_new_of(struct secrets);
		box->secrets->holders = 1;
		policy_copy(&box->policy, &box->secrets->policy);
	}
	box->secrets->holders++;
	return box->secrets;
}

void secrets_set_init(struct secrets_set *set, struct conn *conn)
{
	const struct policy *policy;
	int64_t now_ms;

	*set = (struct secrets_set){.conn = conn};
	if (!conn->box->policy.secret_count)
		return;
	set->of = secrets_ref(conn->box);
	policy = &set->of->policy;
	now_ms = clock_wall_ms();
	for (size_t i = 0; i < policy->secret_count; i++) {
		const struct policy_secret *secret = &policy->secrets[i];

		if (policy_secret_is_for(secret, conn->name, now_ms))
			set->at[set->count++] = (struct secrets_pair){
				.value = str_of(secret->value),
				.placeholder = str_of(secret->placeholder),
				.secret = secret};
	}
}

// Before the value is sent the ledger has the secret's name: a killed daemon leaves the row.
static void secrets_note_use(struct secrets_set *set, const struct secrets_pair *pair)
{
	uint64_t bit = 1ull << (pair - set->at);

	if (set->used & bit)
		return;
	set->used |= bit;
	judge_note_secret(set->conn, pair->secret);
}

void secrets_set_done(struct secrets_set *set)
{
	for (size_t i = 0; i < set->basic_count; i++) {
		struct secrets_pair *pair = &set->basic[i];

		secret_wipe((char *)pair->value.at, pair->value.len);
		free((char *)pair->value.at);
		free((char *)pair->placeholder.at);
	}
	secrets_free(set->of);
	set->of = NULL;
	set->count = set->basic_count = 0;
	set->used = 0;
}

// ----------------------------------------------------------------------------------- substitution

typedef bool may_stand(struct str value);

static bool may_stand_anywhere(struct str value)
{
	(void)value;
	return true;
}

static bool may_stand_in_field(struct str value)
{
	return http1_is_field(STR("x"), value);
}

// A request target has no blanks; characters that would begin another part of it are refused.
static bool may_stand_in_target(struct str value)
{
	for (size_t i = 0; i < value.len; i++) {
		char c = value.at[i];

		if (c <= ' ' || c >= 127 || strchr("\"#%&+/<>?\\^`{|}", c))
			return false;
	}
	return value.len > 0;
}

static const struct secrets_pair *secrets_find(const struct secrets_set *set, const char *at)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->at[i].secret->form == POLICY_PLACEHOLDER &&
		    !memcmp(at + MARK_LEN, set->at[i].placeholder.at + MARK_LEN,
			    POLICY_PLACEHOLDER_LEN - MARK_LEN))
			return &set->at[i];
	return NULL;
}

// How many bytes at the end could be the beginning of a placeholder.
static size_t begun_mark(struct str in)
{
	for (size_t k = in.len < MARK_LEN - 1 ? in.len : MARK_LEN - 1; k; k--)
		if (!memcmp(in.at + in.len - k, MARK, k))
			return k;
	return 0;
}

static size_t secrets_substitute_step(struct secrets_set *set, struct str all, bool is_end,
				      may_stand *may, struct buf *out)
{
	struct str in = all;

	while (in.len && out->len < SECRETS_PIECE) {
		const char *mark = memmem(in.at, in.len, MARK, MARK_LEN);
		size_t before = mark ? (size_t)(mark - in.at) : in.len;
		const struct secrets_pair *pair;

		if (!mark && !is_end)
			before -= begun_mark(in);
		buf_add(out, in.at, before);
		in = str_skip(in, before);
		if (!mark || (in.len < POLICY_PLACEHOLDER_LEN && !is_end))
			break;
		pair = in.len >= POLICY_PLACEHOLDER_LEN ? secrets_find(set, in.at) : NULL;
		if (pair && may(pair->value)) {
			secrets_note_use(set, pair);
			buf_str(out, pair->value);
			in = str_skip(in, POLICY_PLACEHOLDER_LEN);
		} else {
			buf_add(out, in.at, MARK_LEN);
			in = str_skip(in, MARK_LEN);
		}
	}
	return all.len - in.len;
}

size_t secrets_substitute(struct secrets_set *set, struct str in, bool is_end, struct buf *out)
{
	return secrets_substitute_step(set, in, is_end, may_stand_anywhere, out);
}

static void secrets_substitute_all(struct secrets_set *set, struct str in, may_stand *may,
				   struct buf *out)
{
	if (secrets_substitute_step(set, in, true, may, out) != in.len)
		out->failed = true;
}

// Remembers credentials as they were sent, to mask them in the reply.
static bool remember(struct secrets_set *set, struct str sent, struct str was)
{
	if (set->basic_count == SECRETS_BASIC_MAX)
		return false;
	set->basic[set->basic_count++] = (struct secrets_pair){
		.value = {mem_dup(sent.at, sent.len), sent.len},
		.placeholder = {mem_dup(was.at, was.len), was.len}};
	return true;
}

// "Basic dXNlcjpjb3ZlLXNlY3JldC0…": made by tools from a password in a URL or file. False: another
// scheme, or no placeholder inside.
static bool secrets_substitute_basic(struct secrets_set *set, struct str value, struct buf *out)
{
	auto_secret_buf plain = BUF_SECRET(BASIC_MAX), substituted = BUF_SECRET(BASIC_MAX);
	auto_free unsigned char *text = NULL;
	struct base64 base64 = {0};
	struct str was;
	bool good;
	int len;

	if (value.len < 6 || !str_eq_nocase((struct str){value.at, 6}, STR("basic ")))
		return false;
	was = str_trim(str_skip(value, 6));
	if (!base64_feed(&base64, was, &plain) || !base64_end(&base64, &plain))
		return false;
	secrets_substitute_all(set, buf_view(&plain), may_stand_in_field, &substituted);
	if (!buf_ok(&substituted) || str_eq(buf_view(&plain), buf_view(&substituted)))
		return false;
	text = mem_new(substituted.len * 4 / 3 + 8);
	len = EVP_EncodeBlock(text, (const unsigned char *)substituted.at, (int)substituted.len);
	good = remember(set, (struct str){(const char *)text, (size_t)len}, was);
	if (good) {
		buf_text(out, "Basic ");
		buf_add(out, text, (size_t)len);
	}
	secret_wipe(text, (size_t)len);
	return good;
}

// ----------------------------------------------------------------------------------- masking

#define PAIRS (POLICY_SECRETS_MAX + SECRETS_BASIC_MAX)

static const struct secrets_pair *pair_at(const struct secrets_set *set, size_t i)
{
	const struct secrets_pair *pair = i < set->count ? &set->at[i]
							 : &set->basic[i - set->count];

	return pair->value.len >= SECRETS_MASK_MIN ? pair : NULL;
}

// How many bytes at the end could be the beginning of a value; may overestimate.
static size_t begun_value(const struct secrets_set *set, struct str in)
{
	size_t most = 0;

	for (size_t i = 0; i < set->count + set->basic_count; i++) {
		const struct secrets_pair *pair = pair_at(set, i);
		size_t k = pair ? pair->value.len - 1 : 0;
		const char *end = in.at + in.len, *at;

		k = k < in.len ? k : in.len;
		for (at = end - k; at && (size_t)(end - at) > most; at++) {
			at = memchr(at, pair->value.at[0], (size_t)(end - at));
			if (!at)
				break;
			k = (size_t)(end - at);
			if (k > most && !memcmp(at, pair->value.at, k < LOOK_MAX ? k : LOOK_MAX))
				most = k;
		}
	}
	return most;
}

// The first value at or after `at`; of several at one place the longest.
static const struct secrets_pair *next_value(const struct secrets_set *set, struct str in,
					     const char *at, const char **next)
{
	const struct secrets_pair *best = NULL;
	const char *end = in.at + in.len;
	size_t best_i = 0;

	for (size_t i = 0; i < set->count + set->basic_count; i++) {
		const struct secrets_pair *pair = pair_at(set, i);

		if (pair && next[i] < at) {
			next[i] = memmem(at, (size_t)(end - at), pair->value.at, pair->value.len);
			next[i] = next[i] ? next[i] : end;
		}
		if (!pair || next[i] == end)
			continue;
		if (!best || next[i] < next[best_i] ||
		    (next[i] == next[best_i] && pair->value.len > best->value.len)) {
			best = pair;
			best_i = i;
		}
	}
	next[PAIRS] = best ? next[best_i] : end;
	return best;
}

size_t secrets_mask(const struct secrets_set *set, struct str in, bool is_end, struct buf *out)
{
	const char *next[PAIRS + 1] = {NULL}; // of each pair; the last: of all
	const char *at = in.at, *safe = in.at + in.len;

	if (!is_end)
		safe -= begun_value(set, in);
	while (at < safe && out->len < SECRETS_PIECE) {
		const struct secrets_pair *pair = next_value(set, in, at, next);
		const char *to = next[PAIRS] < safe ? next[PAIRS] : safe;

		buf_add(out, at, (size_t)(to - at));
		at = to;
		if (at == safe || !pair)
			break;
		buf_str(out, pair->placeholder);
		at += pair->value.len;
	}
	return (size_t)(at - in.at);
}

static void mask_all(const struct secrets_set *set, struct str in, struct buf *out)
{
	if (in.len && secrets_mask(set, in, true, out) != in.len)
		out->failed = true;
}

// ------------------------------------------------------------------------------------------- heads

static bool is_any(struct str name, const char *const *names)
{
	for (; *names; names++)
		if (str_eq_nocase(name, str_of(*names)))
			return true;
	return false;
}

static bool is_dropped(struct str name, const struct secrets_head *how)
{
	static const char *const framing[] = {"content-length", "transfer-encoding", NULL};
	static const char *const encoding[] = {"accept-encoding", "te", NULL};
	static const char *const offer[] = {"upgrade", "http2-settings", "connection", NULL};

	return (how->framing != SECRETS_AS_IS && is_any(name, framing)) ||
	       (how->framing == SECRETS_CLOSE && str_eq_nocase(name, STR("connection"))) ||
	       (how->identity && is_any(name, encoding)) || (how->no_offer && is_any(name, offer));
}

static void write_end(const struct secrets_head *how, struct buf *out)
{
	if (how->framing == SECRETS_LENGTH)
		buf_fmt(out, "Content-Length: %llu\r\n", (unsigned long long)how->length);
	if (how->framing == SECRETS_CHUNKED)
		buf_text(out, "Transfer-Encoding: chunked\r\n");
	if (how->framing == SECRETS_CLOSE)
		buf_text(out, "Connection: close\r\n");
	buf_text(out, "\r\n");
}

// The pair that sets this header or query parameter; NULL: none.
static const struct secrets_pair *secrets_of_field(const struct secrets_set *set,
						   enum policy_form form, struct str name)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct policy_secret *secret = set->at[i].secret;

		if (secret->form == form && str_eq_nocase(name, str_of(secret->field)))
			return &set->at[i];
	}
	return NULL;
}

static bool secrets_write_query(struct secrets_set *set, const struct secrets_pair *pair,
				char before, struct buf *out)
{
	auto_secret_buf escaped = BUF_SECRET(4 * POLICY_SECRET_VALUE_MAX);

	text_percent(&escaped, pair->value);
	// A reply may repeat the escaped form.
	if (!buf_ok(&escaped) || (!str_eq(buf_view(&escaped), pair->value) &&
				  !remember(set, buf_view(&escaped), pair->placeholder)))
		return false;
	secrets_note_use(set, pair);
	buf_fmt(out, "%c%s=", before, pair->secret->field);
	buf_str(out, buf_view(&escaped));
	return true;
}

// "/path?a=1&b=2" without the parameters that secrets set, and with those.
static void secrets_write_target(struct secrets_set *set, struct str target, struct buf *out)
{
	struct str path = {0}, rest = target, parameter;
	char before = '?';

	str_cut(&rest, '?', &path);
	secrets_substitute_all(set, path, may_stand_in_target, out);
	while (rest.at && str_cut(&rest, '&', &parameter)) {
		struct str name = {0}, value = parameter;

		str_cut(&value, '=', &name);
		if (secrets_of_field(set, POLICY_QUERY, name))
			continue;
		buf_char(out, before);
		before = '&';
		secrets_substitute_all(set, parameter, may_stand_in_target, out);
	}
	for (size_t i = 0; i < set->count && target.len && target.at[0] == '/'; i++)
		if (set->at[i].secret->form == POLICY_QUERY &&
		    secrets_write_query(set, &set->at[i], before, out))
			before = '&';
}

static void secrets_write_headers(struct secrets_set *set, struct buf *out)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct secrets_pair *pair = &set->at[i];
		const char *format = pair->secret->format ? pair->secret->format : "{}";
		const char *mark = strstr(format, "{}");

		// Of two secrets for one header the first is sent.
		if (pair->secret->form != POLICY_HEADER || !may_stand_in_field(pair->value) ||
		    secrets_of_field(set, POLICY_HEADER, str_of(pair->secret->field)) != pair)
			continue;
		secrets_note_use(set, pair);
		buf_fmt(out, "%s: %.*s", pair->secret->field, (int)(mark - format), format);
		buf_str(out, pair->value);
		buf_fmt(out, "%s\r\n", mark + 2);
	}
}

void secrets_write_request(struct secrets_set *set, const struct http1_head *head,
			   const struct secrets_head *how, struct buf *out)
{
	buf_str(out, head->method);
	buf_char(out, ' ');
	secrets_write_target(set, head->target, out);
	buf_fmt(out, " HTTP/1.%d\r\n", head->minor);
	for (size_t i = 0; i < head->field_count; i++) {
		const struct http1_field *field = &head->fields[i];

		if (is_dropped(field->name, how) ||
		    secrets_of_field(set, POLICY_HEADER, field->name))
			continue;
		buf_str(out, field->name);
		buf_text(out, ": ");
		if (!set->count || !secrets_substitute_basic(set, field->value, out))
			secrets_substitute_all(set, field->value, may_stand_in_field, out);
		buf_text(out, "\r\n");
	}
	secrets_write_headers(set, out);
	if (how->identity)
		buf_text(out, "Accept-Encoding: identity\r\n");
	if (how->no_offer)
		buf_fmt(out, "Connection: %s\r\n", head->keep_alive ? "keep-alive" : "close");
	write_end(how, out);
}

void secrets_write_reply(const struct secrets_set *set, const struct http1_head *head,
			 const char *line, const struct secrets_head *how, struct buf *out)
{
	size_t skip = sizeof("HTTP/1.1 200") - 1;
	const char *end = memchr(line, '\r', head->size);

	buf_add(out, line, skip);
	mask_all(set, (struct str){line + skip, (size_t)(end - line) - skip}, out);
	buf_text(out, "\r\n");
	for (size_t i = 0; i < head->field_count; i++) {
		const struct http1_field *field = &head->fields[i];

		if (is_dropped(field->name, how))
			continue;
		mask_all(set, field->name, out);
		buf_text(out, ": ");
		mask_all(set, field->value, out);
		buf_text(out, "\r\n");
	}
	write_end(how, out);
}

// ----------------------------------------------------------------------------------- sealing

#define NONCE 12
#define TAG 16

static void seal_key(const struct egress *egress, const char *owner, uint8_t out[SECRET_HASH])
{
	char text[256];
	int len = snprintf(text, sizeof(text), "egress seal of %s", owner);

	secret_hmac(egress->seed, text, len < (int)sizeof(text) ? (size_t)len : sizeof(text) - 1,
		    out);
}

fallible egress_seal(const struct egress *egress, const char *owner, struct str value,
		     struct buf *out)
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	uint8_t key[SECRET_HASH], nonce[NONCE], tag[TAG];
	int len = 0, rest = 0;
	char *room;
	bool good;

	seal_key(egress, owner, key);
	secret_random(nonce, sizeof(nonce));
	buf_add(out, nonce, sizeof(nonce));
	room = buf_space(out, value.len + TAG);
	good = room && context && value.len <= INT32_MAX &&
	       EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
	       EVP_EncryptUpdate(context, (void *)room, &len, (const void *)value.at,
				 (int)value.len) == 1 &&
	       EVP_EncryptFinal_ex(context, (unsigned char *)room + len, &rest) == 1 &&
	       EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, TAG, tag) == 1;
	secret_wipe(key, sizeof(key));
	EVP_CIPHER_CTX_free(context);
	if (!good)
		return err_sys(0, "seal a secret");
	memcpy(room + value.len, tag, TAG);
	buf_grew(out, value.len + TAG);
	return OK;
}

fallible egress_unseal(const struct egress *egress, const char *owner, struct str sealed,
		       struct buf *out)
{
	EVP_CIPHER_CTX *context = NULL;
	uint8_t key[SECRET_HASH], tag[TAG];
	size_t size = sealed.len >= NONCE + TAG ? sealed.len - NONCE - TAG : 0;
	int len = 0, rest = 0;
	char *room = buf_space(out, size + 1);
	bool good;

	if (sealed.len < NONCE + TAG || sealed.len > INT32_MAX || !room)
		return err_new(INVALID, "bad_seal", "not a sealed value");
	context = EVP_CIPHER_CTX_new();
	seal_key(egress, owner, key);
	memcpy(tag, sealed.at + NONCE + size, TAG);
	good = context &&
	       EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), NULL, key,
				  (const unsigned char *)sealed.at) == 1 &&
	       EVP_DecryptUpdate(context, (void *)room, &len,
				 (const unsigned char *)sealed.at + NONCE, (int)size) == 1 &&
	       EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1 &&
	       EVP_DecryptFinal_ex(context, (unsigned char *)room + len, &rest) == 1;
	secret_wipe(key, sizeof(key));
	EVP_CIPHER_CTX_free(context);
	if (!good)
		return err_new(INVALID, "bad_seal",
			       "sealed with another key, for another owner, or changed");
	buf_grew(out, size);
	return OK;
}
