// Derives sandbox ids from owners. Joined texts are ambiguous ("a__b" and "c" read like "a" and
// "b__c"), which would merge two tenants; so ambiguous parts are refused before anything is hashed.
#include "types/owner.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/secret.h"
#include "codec/text.h"

#define SLOT_MARK "shared-slot-v1:"

static const struct {
	const char *prefix;
	enum owner_class class;
} kinds[] = {
#define X(kind, prefix, class) [OWNER_##kind] = {prefix, OWNER_##class},
	OWNER_KINDS(X)
#undef X
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

const char *owner_class_word(enum owner_class class)
{
	return class == OWNER_SMALL ? "small" : "standard";
}

const char *owner_kind_word(enum owner_kind kind)
{
	return kind == OWNER_LEGACY ? "legacy" : kinds[kind].prefix;
}

static fallible owner_refuse(const char *what, const char *why)
{
	return err_hint(err_new(INVALID, "invalid_owner", "'%s' %s", what, why),
			"1 to %d bytes of text, without control characters, without '_' at an end "
			"and without '__'",
			OWNER_PART_MAX);
}

fallible owner_check_part(struct str part, const char *what)
{
	if (!part.len)
		return owner_refuse(what, "is empty");
	if (part.len > OWNER_PART_MAX)
		return owner_refuse(what, "is too long");
	if (!text_is_utf8(part))
		return owner_refuse(what, "is not UTF-8");
	if (text_has_control(part))
		return owner_refuse(what, "has a control character");
	if (part.at[0] == '_' || part.at[part.len - 1] == '_')
		return owner_refuse(what, "begins or ends with '_'");
	if (memmem(part.at, part.len, "__", 2))
		return owner_refuse(what, "contains '__'");
	return OK;
}

fallible owner_check(const struct owner *owner)
{
	if (owner->org.at)
		TRY(owner_check_part(owner->org, "org"));
	TRY(owner_check_part(owner->user, "user"));
	if (owner->bot.at)
		TRY(owner_check_part(owner->bot, "bot"));
	return owner_check_part(owner->session, "session");
}

bool owner_is_chosen(struct str list, struct str org)
{
	struct str entry;

	while (list.at && str_cut(&list, ',', &entry)) {
		entry = str_trim(entry);
		if (str_is(entry, "*") || (entry.len && str_eq(entry, org)))
			return true;
	}
	return false;
}

bool owner_is_label(struct str tag)
{
	if (!tag.len || tag.len > OWNER_LABEL_MAX / 2)
		return false;
	for (size_t i = 0; i < tag.len; i++)
		if (tag.at[i] <= 0x20 || tag.at[i] >= 0x7f || tag.at[i] == ':')
			return false;
	return true;
}

static void write_id(const char *prefix, struct str text, char out[ID_BOX_LEN + 1])
{
	uint8_t hash[SECRET_HASH];
	auto_buf hex = BUF_INIT(2 * SECRET_HASH);

	secret_sha256(text.at, text.len, hash);
	text_hex(&hex, hash, sizeof(hash));
	snprintf(out, ID_BOX_LEN + 1, "%.3s-%.48s", prefix, hex.at);
}

static enum owner_kind owner_kind_of(const struct owner *owner, bool isolated)
{
	if (isolated)
		return OWNER_SES;
	if (owner->bot.len)
		return owner->org.len ? OWNER_BOT : OWNER_UBT;
	return owner->org.len ? OWNER_ORG : OWNER_USR;
}

void owner_derive(const struct owner *owner, bool isolated, struct str tag, struct owner_route *out)
{
	enum owner_kind kind = owner_kind_of(owner, isolated);
	auto_buf key = BUF_INIT(OWNER_KEY_MAX);
	auto_buf text = BUF_INIT(OWNER_KEY_MAX + OWNER_LABEL_MAX + 1);

	if (kind == OWNER_SES) {
		buf_str(&key, owner->session);
		tag = STR("");
	} else {
		if (owner->org.len)
			buf_str(&key, owner->org);
		else
			buf_fmt(&key, "user:" STR_FMT, STR_ARG(owner->user));
		buf_fmt(&key, "__" STR_FMT, STR_ARG(owner->user));
		if (owner->bot.len)
			buf_fmt(&key, "__bot:" STR_FMT, STR_ARG(owner->bot));
	}
	if (tag.len)
		buf_fmt(&text, STR_FMT ":", STR_ARG(tag));
	buf_str(&text, buf_view(&key));
	*out = (struct owner_route){.kind = kind};
	memcpy(out->key, key.at, key.len);
	if (tag.len)
		memcpy(out->tag, tag.at, tag.len);
	write_id(kinds[kind].prefix, buf_view(&text), out->id);
}

void owner_slot(const char *first, char out[ID_BOX_LEN + 1])
{
	char text[sizeof(SLOT_MARK) + ID_BOX_LEN];

	snprintf(text, sizeof(text), SLOT_MARK "%s", first);
	write_id(first, str_of(text), out);
}

static bool owner_is_hex(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!(s.at[i] >= '0' && s.at[i] <= '9') && !(s.at[i] >= 'a' && s.at[i] <= 'f'))
			return false;
	return true;
}

bool owner_is_id(struct str id, enum owner_kind *out)
{
	if (id.len != ID_BOX_LEN || id.at[3] != '-' || !owner_is_hex(str_skip(id, 4)))
		return false;
	for (size_t i = 0; i < KINDS; i++) {
		if (memcmp(id.at, kinds[i].prefix, 3) == 0) {
			if (out)
				*out = (enum owner_kind)i;
			return true;
		}
	}
	return false;
}

bool owner_is_legacy(struct str id)
{
	struct str rest = id;
	int parts = 0;

	if (!id.len || id.len > OWNER_LEGACY_MAX || !text_is_utf8(id) || text_has_control(id))
		return false;
	while (rest.len) {
		const char *mark = memmem(rest.at, rest.len, "__", 2);
		size_t len = mark ? (size_t)(mark - rest.at) : rest.len;

		if (!len)
			return false;
		parts++;
		if (!mark)
			return parts == 2 || parts == 3;
		rest = str_skip(rest, len + 2);
	}
	return false; // ends with a separator
}

void owner_legacy_id(struct str legacy, char out[ID_BOX_LEN + 1])
{
	write_id("box", legacy, out);
}

bool owner_class_of(struct str id, enum owner_class *out)
{
	enum owner_kind kind;

	if (owner_is_id(id, &kind))
		*out = kinds[kind].class;
	else if (owner_is_legacy(id))
		*out = OWNER_STANDARD;
	else
		return false;
	return true;
}

void owner_new_session(char out[OWNER_SESSION_LEN + 1])
{
	memcpy(out, "session_", 8);
	secret_hex(out + 8, 16);
}

void owner_directory(struct str session, char out[ID_BOX_LEN + 1])
{
	write_id("ses", session, out);
}
