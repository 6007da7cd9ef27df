// Owners as strangers name them, and ids as they were stored. Five lines: org, user, bot, session,
// tag; the first byte says which are absent. Whatever is accepted has one id, of the right form,
// and no other owner has it.
#include "types/owner.h"

#include "fuzz.h"

static struct str line_of(struct str *rest, bool absent)
{
	struct str line = {0};

	str_cut(rest, '\n', &line);
	return absent ? (struct str){0} : line;
}

static void try_derived(const struct owner *owner, struct str tag, bool isolated)
{
	struct owner_route route, other;
	struct owner longer = *owner;
	char more[OWNER_PART_MAX + 2], slot[ID_BOX_LEN + 1];
	enum owner_kind kind;
	enum owner_class class;

	owner_derive(owner, isolated, tag, &route);
	MUST(owner_is_id(str_of(route.id), &kind) && kind == route.kind &&
	     id_is_box(str_of(route.id)));
	MUST(owner_class_of(str_of(route.id), &class));
	MUST(class == (isolated ? OWNER_SMALL : OWNER_STANDARD));
	owner_derive(owner, isolated, tag, &other);
	MUST(!strcmp(route.id, other.id) && !strcmp(route.key, other.key));
	owner_slot(route.id, slot);
	MUST(owner_is_id(str_of(slot), &kind) && kind == route.kind && strcmp(slot, route.id) != 0);
	// Another user, or another session of an isolated one, is somebody else.
	snprintf(more, sizeof(more), "%.*sx", (int)owner->user.len, owner->user.at);
	longer.user = str_of(more);
	if (isolated)
		snprintf(more, sizeof(more), "%.*sx", (int)owner->session.len, owner->session.at);
	if (isolated)
		longer.session = str_of(more);
	owner_derive(&longer, isolated, tag, &other);
	MUST(strcmp(route.id, other.id) != 0);
}

static void try_stored(struct str text)
{
	char id[ID_BOX_LEN + 1];
	enum owner_kind kind;
	enum owner_class class;
	bool is_id = owner_is_id(text, &kind), is_legacy = owner_is_legacy(text);

	MUST(owner_class_of(text, &class) == (is_id || is_legacy));
	if (is_id)
		MUST(text.len == ID_BOX_LEN && kind < OWNER_LEGACY && id_is_box(text));
	if (is_legacy) {
		MUST(memmem(text.at, text.len, "__", 2) && text.len <= OWNER_LEGACY_MAX);
		owner_legacy_id(text, id);
		MUST(id_is_box(str_of(id)) && !owner_is_id(str_of(id), &kind));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str rest = {(const char *)bytes + 1, len ? len - 1 : 0}, tag, list;
	struct owner owner;
	unsigned absent;

	if (!len)
		return 0;
	absent = bytes[0];
	try_stored(rest);
	owner.org = line_of(&rest, absent & 1);
	owner.user = line_of(&rest, false);
	owner.bot = line_of(&rest, absent & 2);
	owner.session = line_of(&rest, false);
	tag = line_of(&rest, absent & 4);
	list = rest;
	auto_err err = owner_check(&owner);

	if (err) {
		MUST(!strcmp(err_reason(err), "invalid_owner"));
		return 0;
	}
	MUST(owner.user.len && owner.user.len <= OWNER_PART_MAX);
	MUST(!memmem(owner.user.at, owner.user.len, "__", 2));
	if (owner.org.len && owner_is_chosen(list, owner.org))
		MUST(list.len > 0);
	if (tag.len && !owner_is_label(tag))
		tag = (struct str){0};
	try_derived(&owner, tag, false);
	try_derived(&owner, tag, true);
	return 0;
}
